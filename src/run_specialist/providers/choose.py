"""Choose the models of a run, and make their providers; for the run they are one provider."""

import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from run_specialist.errors import NoCredentials, ProviderError, ProviderErrorKind, UsageError
from run_specialist.providers.base import Capabilities, Conversation, Opening, Provider, Watch
from run_specialist.providers.errors import CHAT, MESSAGES, NO_KEY, OPENAI_URL, Endpoint, no_connection
from run_specialist.providers.local_servers import SERVERS, WEIGHTS_ENDPOINT, prefix_of
from run_specialist.providers.models import Price, check_served, check_spelling, price
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import OFFLINE
from run_specialist.specialist.checks import split_models

OPENAI = "openai:"
"""Prefix of model ids that use the chat completions API."""
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
    endpoint, has_key = (CHAT, bool(_set(CHAT.key))) if model.startswith(OPENAI) else (MESSAGES, _credentials())
    if model != OFFLINE and not has_key and not _set(endpoint.url):
        raise NoCredentials(
            f"no credentials for {model}: set {endpoint.key}, or set {endpoint.url} to a {endpoint.kind} server, "
            "or use `model=offline`"
        )


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
        from run_specialist.providers.offline import OfflineProvider  # noqa: PLC0415 - loaded on demand

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
    from run_specialist.providers.anthropic import AnthropicProvider, make_client  # noqa: PLC0415 - only a run needs it

    check_credentials(model)
    _refuse_secrets_in(MESSAGES)
    key = _set(MESSAGES.key)
    # A local server needs no key, but the SDK requires one.
    options = {"api_key": key} if key else {} if _credentials() else {"api_key": NO_KEY}
    try:
        return AnthropicProvider(model, make_client(**options))
    except Exception as error:  # any error of the SDK or the HTTP library about the environment
        raise no_connection(error, MESSAGES) from error


def _chat_provider(model: str) -> Provider:
    from run_specialist.providers.openai_chat import ChatProvider, chat_client  # noqa: PLC0415 - only a run needs it

    if not model.strip():
        raise UsageError(f"`model={OPENAI}`: the model id is missing; add it after the colon")
    key, url = _set(CHAT.key), _set(CHAT.url)
    check_credentials(f"{OPENAI}{model}")
    _refuse_secrets_in(CHAT)

    client = chat_client(f"{OPENAI}{model}", CHAT, api_key=key or NO_KEY, base_url=url or OPENAI_URL)
    return ChatProvider(model, client)


def _set(name: str) -> str:
    return os.environ.get(name, "").strip()


def _credentials() -> bool:
    return any(_set(name) for name in CREDENTIALS)


def _refuse_secrets_in(endpoint: Endpoint) -> None:
    # A request has only one Authorization header, which contains the key.
    if "@" in _set(endpoint.url).partition("://")[2].partition("/")[0]:
        raise UsageError(f"{endpoint.url} contains a user name or a password; remove it, and set {endpoint.key}")


# The models of one run, tried in order when one fails; for the run they are one provider.
#
# `loop/model_change.py` contains the effects of a change on the run itself.

# Failures after which another model is tried; a wrong key or an invalid request must be shown instead.
_LEADS_ON: frozenset[ProviderErrorKind] = frozenset(
    {"model_missing", "overloaded", "quota", "rate_limited", "connection", "server_error"}
)
# The same from the second model on, whose vendor may reject the settings of the run.
_LEADS_ON_LATER: frozenset[ProviderErrorKind] = _LEADS_ON | {"credentials", "invalid_request"}

Make = Callable[[str], Awaitable[Provider]]
"""Returns the provider of a model; raises UsageError if it cannot be asked, e.g. because its server does not run."""


class ModelChain:
    """The models of one run, in order: a provider whose model changes."""

    def __init__(
        self,
        first: Provider,
        following: Sequence[Provider] = (),
        make: Make | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        """Take the models.

        following: the other models, in order; only described, unless `make` is None.
        make: makes the provider of a model from its id; called only when needed, because a local server might load it.
        warnings: warnings about omitted models.
        """
        self.present = first
        """The provider of the current model."""
        self.following = tuple(following)
        """Descriptions of the remaining models: ids, capabilities and prices."""
        self.warnings = tuple(warnings)
        self._make = make
        self._has_changed = False

    def renewed(self) -> "ModelChain":
        """Return a chain that begins with the current model, for another run such as a child."""
        return ModelChain(self.present, self.following, self._make)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the current model and of the remaining ones."""
        return (self.present.model, *(one.model for one in self.following))

    def left_after(self, error: ProviderError) -> tuple[Provider, ...]:
        """Return descriptions of the models that may answer after this failure of the current one."""
        if error.kind not in (_LEADS_ON_LATER if self._has_changed else _LEADS_ON):
            return ()
        if error.kind != "connection":
            return self.following
        # A server that cannot be reached cannot be reached for its other models either.
        vendor = self.capabilities.vendor
        return tuple(one for one in self.following if one.capabilities.vendor != vendor)

    async def advance(self) -> None:
        """Switch to the next model.

        Raises UsageError with the reason if that model cannot be used; it is skipped then. There must be another model.
        """
        described, self.following = self.following[0], self.following[1:]
        self._has_changed = True
        self.present = described if self._make is None else await self._make(described.model)

    @property
    def model(self) -> str:
        """The id of the current model."""
        return self.present.model

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the current model."""
        return self.present.capabilities

    def open(self, opening: Opening, watch: Watch | None = None) -> Conversation:
        """Start a conversation with the current model."""
        return self.present.open(opening, watch)

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of one request to the current model [USD]; None if the price is unknown."""
        return self.present.cost(usage)

    async def aclose(self) -> None:
        """Close the connections of the current model."""
        await self.present.aclose()


def models_of(provider: Provider) -> tuple[Provider, ...]:
    """Return the providers of all models that a run may use; only the first can send requests."""
    return (provider.present, *provider.following) if isinstance(provider, ModelChain) else (provider,)


def is_replaceable(provider: Provider, error: ProviderError | None = None) -> bool:
    """Return whether a run has another model to change to, so that it need not wait for the current one.

    error: a failure of the current model, after which the other one may answer; None = any failure.
    """
    return isinstance(provider, ModelChain) and bool(
        provider.following if error is None else provider.left_after(error)
    )


@dataclass(frozen=True, slots=True)
class ChosenModels:
    """The models of a run."""

    names: tuple[str, ...]
    """Names in the order in which they are asked; at least one."""
    left_out: tuple[str, ...] = ()
    """Why other named models are omitted, one line each."""


def choose_model(flag: str | None, file: str | None, default: str | None = None, following: Sequence[str] = ()) -> str:
    """Return the first model of a run; the arguments are those of `named_models`."""
    return choose_models(flag, file, default, following).names[0]


def choose_models(
    flag: str | None, file: str | None, default: str | None = None, following: Sequence[str] = ()
) -> ChosenModels:
    """Return the models of a run; the arguments are those of `named_models`.

    If several are named, those that cannot be asked here are omitted, unless none would remain.
    """
    names = named_models(flag, file, default, following)
    if names[0] == OFFLINE or len(names) == 1:
        return ChosenModels(names[:1])
    obstacles = {name: _obstacle(name) for name in names}
    usable = tuple(name for name in names if not obstacles[name])
    return ChosenModels(
        usable or names[:1], usable and tuple(f"{name} is left out: {why}" for name, why in obstacles.items() if why)
    )


def _obstacle(model: str) -> str:
    """Return why one of several models cannot be asked here, without asking its server; empty if it can."""
    try:
        check_usable(model)
    except UsageError as error:
        return str(error)
    return "it is not a language model" if model == OFFLINE else ""


def check_usable(model: str) -> None:
    """Raise UsageError if a model cannot be asked here, without contacting it.

    Raises NoCredentials if a key is missing.
    """
    check_served(model)
    if prefix_of(model) is None:
        check_credentials(model)


# Placeholder for an SDK client, whose import takes a second.
_NO_CLIENT: Any = SimpleNamespace(base_url="")


@dataclass(frozen=True, slots=True)
class DescribedModel:
    """A model that was not contacted."""

    provider: Provider
    """Provides only id, capabilities and price; it cannot be opened."""
    price: Price | None
    """None if the price is unknown, and for a model that costs nothing."""
    is_local: bool = False
    """Whether a local server or a file provides it; its context is then known only when a run begins."""


def described(model: str) -> DescribedModel:
    """Return a model by the name that a run would use; contacts nothing.

    model: as returned by `chosen_models`.
    """
    if model == OFFLINE:
        return DescribedModel(make_provider(OFFLINE), None)
    from run_specialist.providers.anthropic import AnthropicProvider  # noqa: PLC0415 - fast `specialists list`
    from run_specialist.providers.openai_chat import ChatProvider  # noqa: PLC0415 - as above

    prefix, _, name = model.partition(":")
    if prefix_of(model):
        endpoint = SERVERS[f"{prefix}:"].endpoint if f"{prefix}:" in SERVERS else WEIGHTS_ENDPOINT
        return DescribedModel(ChatProvider(name, _NO_CLIENT, endpoint), None, is_local=True)
    if model.startswith(OPENAI):
        client: Any = SimpleNamespace(base_url=_set(CHAT.url) or OPENAI_URL)
        return DescribedModel(ChatProvider(name, client), price(name, "openai"))
    provider = AnthropicProvider(model, _NO_CLIENT)
    return DescribedModel(provider, price(provider.model, "anthropic"))
