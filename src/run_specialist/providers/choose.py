"""Choose the model of a run and create its provider."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from run_specialist.errors import NoCredentials, UsageError
from run_specialist.installation import adding
from run_specialist.providers.base import Provider
from run_specialist.providers.endpoint import CHAT, MESSAGES, OPENAI_URL, Endpoint
from run_specialist.providers.model_chain import models_of
from run_specialist.providers.model_names import check_served, check_spelling
from run_specialist.record.outcome import OFFLINE
from run_specialist.redaction import redact
from run_specialist.specialist.model_list import split_models

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI = "openai:"
"""Prefix of model ids that use the chat completions API."""
NO_KEY = "none-needed"
"""Key sent to a custom base URL if no key is set."""
_OTHERS = "e.g. sonnet, openai:ID or ollama:NAME"
CREDENTIALS = (MESSAGES.key, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")


def named_models(
    flag: str | None, file: str | None, default: str | None = None, following: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the named models of a run: flag, file, SPECIALIST_MODEL, `default`, or one chosen by the credentials.

    Each of them may be a list with commas.
    file: model in the specialist's file; `inherit` counts as None.
    default: model of a config file.
    following: the fallback models in the specialist's file, which a flag replaces.
    """
    named = flag or (file if file != "inherit" else None) or os.environ.get("SPECIALIST_MODEL") or default
    named = named or ("sonnet" if _credentials() or _set(MESSAGES.url) else OFFLINE)
    return tuple(dict.fromkeys([*split_models(named), *(() if flag else following)]))


def why_offline(flag: str | None, file: str | None, default: str | None = None) -> str:
    """Return why a run has no language model, and how to get one; empty if it has one.

    flag, file, default: as for `named_models`.
    """
    if named_models(flag, file, default)[0] != OFFLINE:
        return ""
    named = {
        "the model of this run": flag,
        "the model in its file": file,
        "SPECIALIST_MODEL": os.environ.get("SPECIALIST_MODEL"),
        "the model of the config file": default,
    }
    if place := next((place for place, model in named.items() if model == OFFLINE), ""):
        return f"{place} is {OFFLINE}; name another one, {_OTHERS}"
    return f"no model is configured; set {MESSAGES.key} or {MESSAGES.url}, or name a model, {_OTHERS}"


def check_credentials(model: str) -> None:
    """Raise UsageError if the credentials of a non-local model are missing; contacts nothing."""
    if model.startswith(OPENAI):
        if not _set(CHAT.key) and not _set(CHAT.url):
            raise _no_credentials(model, CHAT)
    elif model != OFFLINE and not _credentials() and not _set(MESSAGES.url):
        raise _no_credentials(model, MESSAGES)


def default_reason(default: str | None = None) -> str:
    """Return why a specialist without a model of its own gets its current one.

    default: as for `named_models`.
    """
    if os.environ.get("SPECIALIST_MODEL"):
        return "SPECIALIST_MODEL"
    if default:
        return "config file"
    names = [name for name in (*CREDENTIALS, MESSAGES.url) if _set(name)]
    return f"{names[0]} is set" if names else f"neither {MESSAGES.key} nor {MESSAGES.url} is set"


def make_provider(model: str) -> Provider:
    """Return the provider of a model.

    Raises UsageError if the name is misspelt, if no endpoint can serve the model, if credentials or a library are
    missing, or if the configuration is invalid.
    """
    check_spelling(model)
    check_served(model)
    if model == OFFLINE:
        from run_specialist.providers.offline.provider import OfflineProvider  # noqa: PLC0415 - loaded on demand

        return OfflineProvider()
    if model.startswith(OPENAI):
        return _chat_provider(model.removeprefix(OPENAI))
    return _messages_provider(model)


def keys_of(provider: Provider) -> tuple[str, ...]:
    """Return the API keys in a provider's requests; empty if it has no SDK client."""
    client = getattr(models_of(provider)[0], "client", None)
    keys = (getattr(client, name, None) for name in ("api_key", "auth_token"))
    return tuple(key for key in keys if isinstance(key, str) and key != NO_KEY)


def _messages_provider(model: str) -> Provider:
    check_credentials(model)
    _refuse_secrets_in(MESSAGES)
    from run_specialist.providers.anthropic import AnthropicProvider, make_client  # noqa: PLC0415 - a heavy import

    key = _set(MESSAGES.key)
    # A local server needs no key, but the SDK requires one.
    options = {"api_key": key} if key else {} if _credentials() else {"api_key": NO_KEY}
    try:
        return AnthropicProvider(model, make_client(**options))
    except Exception as error:  # any error of the SDK or the HTTP library about the environment
        raise _no_connection(error, MESSAGES) from error


def _chat_provider(model: str) -> Provider:
    if not model.strip():
        raise UsageError(f"`model={OPENAI}`: the model id is missing; add it after the colon")
    key, url = _set(CHAT.key), _set(CHAT.url)
    check_credentials(f"{OPENAI}{model}")
    _refuse_secrets_in(CHAT)
    from run_specialist.providers.openai_chat import ChatProvider  # noqa: PLC0415 - a heavy import

    client = chat_client(f"{OPENAI}{model}", CHAT, api_key=key or NO_KEY, base_url=url or OPENAI_URL)
    return ChatProvider(model, client)


def chat_client(model: str, endpoint: Endpoint, **options: Any) -> "AsyncOpenAI":  # noqa: ANN401 - as `make_client`
    """Return a client for the chat completions API.

    options: those of `openai_chat.make_client`.
    Raises UsageError if the SDK is not installed or the configuration is invalid.
    """
    from run_specialist.providers.openai_chat import make_client  # noqa: PLC0415 - a heavy import

    try:
        return make_client(**options)
    except ImportError as error:
        raise UsageError(
            f"`model={model}` needs a package that is not installed ({error}); {adding('openai')}"
        ) from error
    except Exception as error:  # as above
        raise _no_connection(error, endpoint) from error


def _set(name: str) -> str:
    return os.environ.get(name, "").strip()


def _credentials() -> bool:
    return any(_set(name) for name in CREDENTIALS)


def _refuse_secrets_in(endpoint: Endpoint) -> None:
    # A request has only one Authorization header, which contains the key.
    if "@" in _set(endpoint.url).partition("://")[2].partition("/")[0]:
        raise UsageError(f"{endpoint.url} contains a user name or a password; remove it, and set {endpoint.key}")


def _no_credentials(model: str, endpoint: Endpoint) -> UsageError:
    return NoCredentials(
        f"no credentials for {model}: set {endpoint.key}, or set {endpoint.url} to a {endpoint.kind} server, "
        "or use `model=offline`"
    )


def _no_connection(error: Exception, endpoint: Endpoint) -> UsageError:
    return UsageError(
        f"cannot create the API client ({redact(str(error))}); "
        f"check {endpoint.url}, the proxy settings and the certificates"
    )
