"""Which model a run uses, and where it is reached."""

import os

from run_specialist.errors import UsageError
from run_specialist.providers.base import Provider
from run_specialist.redaction import redact

OFFLINE = "offline"
KEY = "ANTHROPIC_API_KEY"
CREDENTIALS = (KEY, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")
BASE_URL = "ANTHROPIC_BASE_URL"


def choose_model(flag: str | None, file: str | None) -> str:
    """Return the model of a run: flag, file, SPECIALIST_MODEL, then what the environment can reach.

    file: what the specialist's file says; `inherit` says nothing.
    """
    named = flag or (file if file != "inherit" else None) or os.environ.get("SPECIALIST_MODEL")
    return named or ("sonnet" if _credentials() or os.environ.get(BASE_URL) else OFFLINE)


def make_provider(model: str) -> Provider:
    """Return the provider of a model.

    Raises UsageError for a model that cannot be reached from here.
    """
    if model == OFFLINE:
        from run_specialist.providers.offline.provider import OfflineProvider  # noqa: PLC0415 - only where it is used

        return OfflineProvider()
    if model.startswith("openai:"):
        raise UsageError(f"--model {model}: chat completions endpoints are not supported by this version")
    if not _credentials() and not os.environ.get(BASE_URL):
        raise UsageError(
            f"no credentials for {model}: set ANTHROPIC_API_KEY, or point ANTHROPIC_BASE_URL at a "
            "Messages-compatible server, or use --model offline"
        )
    from run_specialist.providers.anthropic import AnthropicProvider, make_client  # noqa: PLC0415 - a heavy import

    key = os.environ.get(KEY, "").strip()
    # A local server wants no key, and the SDK insists on one.
    options = {"api_key": key} if key else {} if _credentials() else {"api_key": "none-needed"}
    try:
        return AnthropicProvider(model, make_client(**options))
    except Exception as error:  # whatever the SDK and the HTTP library make of the environment
        raise UsageError(
            f"the connection to the API cannot be set up ({redact(str(error))}); "
            f"check {BASE_URL}, the proxy settings and the certificates"
        ) from error


def _credentials() -> bool:
    return any(os.environ.get(name, "").strip() for name in CREDENTIALS)
