"""Read status and body of an error: its message, whether a retry may help, and the kind of failure."""

import re

from run_specialist.errors import ProviderErrorKind
from run_specialist.providers.retry_headers import is_retryable

STATUSES = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "timeout_error": 504,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
}
"""HTTP status of each kind of temporary error, for errors in the middle of a stream."""

NAMES: dict[str, ProviderErrorKind] = {
    # A payment or a raised limit ends these, whatever their status is.
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "credit_balance_exhausted": "quota",
    "enforced_spend_limit_reached": "quota",
    "insufficient_credits": "quota",
    "insufficient_quota": "quota",
    "organization_spend_limit_exceeded": "quota",
    "organization_usage_limit_exceeded": "quota",
    "project_spend_limit_exceeded": "quota",
    "model_not_found": "model_missing",
    "not_found_error": "model_missing",
    "authentication_error": "credentials",
    "invalid_api_key": "credentials",
    "permission_error": "credentials",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "invalid_request_error": "invalid_request",
    "request_too_large": "invalid_request",
    "api_error": "server_error",
    "internal_server_error": "server_error",
    "server_error": "server_error",
    "timeout_error": "server_error",
}
"""Kind of failure by type or code of an error.

Source: https://platform.claude.com/docs/en/api/errors, https://platform.openai.com/docs/guides/error-codes.
"""

KINDS: dict[int, ProviderErrorKind] = {
    401: "credentials",
    402: "quota",
    403: "credentials",
    404: "model_missing",
    408: "connection",
    409: "server_error",
    410: "model_missing",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}
"""Kind of failure by HTTP status, unless the body names a more specific one; for other statuses the class decides."""

_SPECIFIC = {"quota", "model_missing"}
"""Kinds that only the body distinguishes from others with the same status."""
_UNCLEAR = {400, 403, 429}
"""Statuses whose message must be read to recognize an exhausted quota."""
_QUOTA = re.compile(
    r"credit balance is too low|reached your (?:specified )?(?:workspace )?API usage limits|insufficient credits"
    r"|used all available credits|(?:spend|spending|key) limit (?:was |is )?(?:exceeded|reached)",
    re.IGNORECASE,
)


def kind_of(status: int | None, body: object) -> ProviderErrorKind:
    """Return the kind of failure of an error.

    status: None or below 400 for an error in the body of a successful response.
    """
    names = names_in(body)
    named = [NAMES[name] for name in names if name in NAMES]
    if specific := next((kind for kind in named if kind in _SPECIFIC), None):
        return specific
    if status is None or status < 400:  # noqa: PLR2004
        status = next((int(name) for name in names if re.fullmatch("[45][0-9][0-9]", name, re.ASCII)), None)
    if status in _UNCLEAR and _QUOTA.search(message_in(body)):
        return "quota"
    if status is None:
        # The code, which follows the type, is more specific.
        return named[-1] if named else "server_error"
    return KINDS.get(status) or ("server_error" if status >= 500 else "invalid_request")  # noqa: PLR2004


def passing_status(body: object) -> int | None:
    """Return the status of an error in the middle of a stream; None unless it is temporary."""
    for name in names_in(body):
        status = STATUSES.get(name) or (int(name) if re.fullmatch("[1-5][0-9][0-9]", name, re.ASCII) else None)
        if status and is_retryable(status, {}) and kind_of(None, body) != "quota":
            return status
    return None


def names_in(body: object) -> list[str]:
    """Return type and codes of an error, from its body."""
    match body:
        case {"error": dict(inner)} | [{"error": dict(inner)}, *_]:
            return names_in(inner)
        case dict():
            names = [str(body[key]) for key in ("type", "code") if isinstance(body.get(key), str | int)]
            match body.get("details"):
                case {"error_code": str(code)}:
                    names.append(code)
            return names
        case _:
            return []


def message_in(body: object) -> str:
    """Return the message in an error body, in any of the usual forms; empty if there is none."""
    match body:
        case {"error": dict(inner)}:
            return message_in(inner)
        case {"message": str(message)} | {"error": str(message)} | {"detail": str(message)}:
            return message
        case [first, *_]:
            return message_in(first)
        case _:
            return ""
