"""Turn errors of SDKs and HTTP into one line with a kind; how long to wait; the variables of each endpoint."""

import math
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ProviderError, ProviderErrorKind, Unavailable, UsageError
from run_specialist.safety.credentials import MASK
from run_specialist.safety.redact import redact

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI


def number_set(variable: str, what: str, least: int) -> int | None:
    """Return the number in an environment variable; None if it is not set.

    Raises UsageError if it is not a number of at least `least`, described by `what`.
    """
    text = os.environ.get(variable, "").strip()
    if text and not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) >= least):
        raise UsageError(f"{variable}: must be {what} of at least {least}, got {text[:40]!r}")
    return int(text) if text else None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API with its SDK, at the vendor or on a server of the user."""

    sdk: str
    """Package of the SDK; the SDKs of both APIs use the same names for their exceptions."""
    kind: str
    """Name of the kind of server in error messages."""
    vendor: str
    """Prefix of its models, also reported in telemetry."""
    key: str
    """Environment variable with the API key."""
    url: str
    """Environment variable with the base URL."""

    @property
    def prefix(self) -> str:
        """The prefix of model ids, with the colon."""
        return f"{self.vendor}:"

    @property
    def wrong_server(self) -> str:
        """The hint in errors about an invalid response."""
        return f"does {self.url} point to a {self.kind} server?"


MESSAGES = Endpoint("anthropic", "Messages-compatible", "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
CHAT = Endpoint("openai", "chat completions", "openai", "OPENAI_API_KEY", "OPENAI_BASE_URL")

OPENAI_URL = "https://api.openai.com/v1"
"""Base URL of the vendor of chat completions."""
NO_KEY = "none-needed"
"""Key sent to a custom base URL if no key is set."""


def no_connection(error: Exception, endpoint: Endpoint) -> UsageError:
    """Return the error for a client that cannot be created in this environment."""
    return UsageError(
        f"cannot create the API client ({redact(str(error))}); "
        f"check {endpoint.url}, the proxy settings and the certificates"
    )


# Maximum length of a number in an environment variable.
_MOST_DIGITS = 9
LONGEST_LINE = 600
"""Maximum length of an error message [characters]."""
# Minimum length of a masked key; shorter ones are placeholders, which may occur in plain text [characters].
_SHORTEST_KEY = 8
# Minimum requested wait that an error mentions [s].
_SHORTEST_WAIT = 1.0

WHAT_TO_DO = {
    401: "check {key}",
    402: "check the account's billing",
    403: "the key may not use this model; check its permissions or choose another `model`",
    404: "check `model` and {url}",
    413: "the request is too large; lower the limits or narrow `paths`",
    429: "wait a little, then try again",
    529: "the API is overloaded; try again later",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """The description of an error."""

    reason: str
    advice: str = ""
    kind: ProviderErrorKind = "server_error"
    may_pass: bool = False
    """Whether the same request may succeed later."""
    may_have_run: bool = False
    status: int | None = None
    wait: float | None = None


def failure(error: Exception, endpoint: Endpoint, client: "AsyncAnthropic | AsyncOpenAI") -> ProviderError:
    """Return the error of a failed request, in one line without secrets: `Unavailable` if it may succeed later.

    client: the client that sent the request; with `max_retries=0` no error is `Unavailable`.
    """
    fault = fault_of(error, endpoint, client)
    reason, advice = fault.reason, fault.advice
    if fault.may_pass and client.max_retries:
        may_have_run = fault.may_have_run
        return Unavailable(
            reason, advice, kind=fault.kind, status=fault.status, wait=fault.wait, may_have_run=may_have_run
        )
    return ProviderError(f"{reason}; {advice}" if advice else reason, kind=fault.kind, retry_after=fault.wait)


def fault_of(error: Exception, endpoint: Endpoint, client: "AsyncAnthropic | AsyncOpenAI") -> Fault:
    """Return the description of a failed request, in lines without secrets.

    client: as for `failure`.
    """
    credentials = (client.api_key, getattr(client, "auth_token", None))
    keys = [key for key in credentials if key and len(key) >= _SHORTEST_KEY]

    def masked(text: str) -> str:
        # Some servers quote the key that they refuse. Mask it before truncation, after which it would not match.
        for key in keys:
            text = text.replace(key, MASK)
        return redact(text)

    base_url = client.base_url.copy_with(userinfo=b"", query=None, fragment=None)
    fault = _describe(error, endpoint, base_url, masked)
    return replace(fault, reason=tidy(masked(fault.reason)), advice=tidy(masked(fault.advice)))


def final(error: ProviderError, client: "AsyncAnthropic | AsyncOpenAI") -> ProviderError:
    """Return an error that was raised while a reply was read; never `Unavailable` if the client does not retry."""
    return error.as_final() if isinstance(error, Unavailable) and not client.max_retries else error


def tidy(text: str) -> str:
    """Return untrusted text as one redacted line of limited length."""
    text = redact(" ".join(text.split()))
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} …"


def _describe(error: Exception, endpoint: Endpoint, base_url: object, masked: Callable[[str], str]) -> Fault:
    """Return the description of an error.

    base_url: without parts that may contain secrets.
    masked: masks keys in untrusted text, before it is truncated.
    """
    import aiohttp  # noqa: PLC0415 - loaded with the request
    import httpx2  # noqa: PLC0415 - as above

    sdk: Any = import_module(endpoint.sdk)
    causes = [*_causes(error)]
    broke = any(isinstance(cause, aiohttp.ClientConnectionError) for cause in causes)
    was_slow = any(isinstance(cause, TimeoutError) for cause in causes)
    match error:
        case _ if isinstance(last := causes[-1], ProviderError):
            # Raised while reading the body; the SDK wraps it as a connection error.
            return Fault(str(last), kind=last.kind)
        case _ if unreadable := [cause.message for cause in causes if isinstance(cause, aiohttp.ClientResponseError)]:
            # `str(error)` contains the URL with its query, which may contain secrets.
            what = masked(unreadable[0].partition("\n")[0].rstrip(":"))[:200]
            reason = f"the answer from {base_url} cannot be parsed ({what})"
            return Fault(reason, endpoint.wrong_server, may_pass=True, may_have_run=True)
        case sdk.APIStatusError():
            return _status_fault(error, endpoint, masked)
        case _ if isinstance(causes[-1], ValueError) and "header" in str(causes[-1]):
            # Only the header with the key can be invalid.
            return Fault("the request cannot be sent", f"check {endpoint.key} for invalid characters", "credentials")
        # One of the SDKs reports every failed connection as a timeout.
        case sdk.APITimeoutError() | httpx2.TimeoutException() if was_slow or not broke:
            reason, is_sent = f"timeout: no answer from {base_url}", not _could_not_connect(causes)
            return Fault(reason, "try again, or check the server", "connection", may_pass=True, may_have_run=is_sent)
        case _ if any(isinstance(cause, aiohttp.ClientPayloadError) for cause in causes):
            return _closed_fault(base_url)
        case sdk.APIConnectionError() | httpx2.ConnectError():
            return _connection_fault(causes, endpoint, base_url)
        case sdk.APIError():
            # An error in the middle of a stream that the SDK raises without a status.
            status = passing_status(error.body)
            reason = f"the server ended its reply with an error: {message_in(error.body) or error}"
            kind = kind_of(None, error.body)
            return Fault(reason, "try again later", kind, may_pass=status is not None, status=status)
        case httpx2.HTTPError():
            return _closed_fault(base_url)
        case _:
            what = masked((str(error) or type(error).__name__).splitlines()[0])[:200]
            return Fault(f"the answer from {base_url} cannot be parsed ({what})", endpoint.wrong_server)


def _closed_fault(base_url: object) -> Fault:
    reason = f"the connection to {base_url} was closed in the middle of a reply"
    return Fault(reason, "try again", "connection", may_pass=True, may_have_run=True)


def _connection_fault(causes: list[BaseException], endpoint: Endpoint, base_url: object) -> Fault:
    """Describe a connection that failed before the reply began."""
    import httpx2  # noqa: PLC0415 - as above

    last, text = causes[-1], str(causes[0].__cause__ or "")
    if isinstance(last, OSError) and last.errno:
        # The text of the operating system, without that of the HTTP library.
        text = os.strerror(last.errno) if last.errno > 0 else str(last.strerror or text)
    return Fault(
        f"cannot reach {base_url}" + (f" ({text})" if text else ""),
        f"check the network, or {endpoint.url}",
        "connection",
        may_pass=not any(isinstance(cause, httpx2.UnsupportedProtocol) for cause in causes),
        may_have_run=not _could_not_connect(causes),
    )


def _could_not_connect(causes: list[BaseException]) -> bool:
    """Return whether nothing was sent, because a server did not accept the connection; False for an unknown host."""
    import aiohttp  # noqa: PLC0415 - as above
    import httpx2  # noqa: PLC0415 - as above

    # An unknown host name is more likely misspelt than temporarily unavailable, and a wrong certificate stays wrong.
    last = causes[-1]
    if isinstance(last, socket.gaierror) and last.errno == socket.EAI_NONAME:
        return False
    if any(isinstance(cause, aiohttp.ClientSSLError) for cause in causes):
        return False
    kinds = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, httpx2.ConnectError, httpx2.ConnectTimeout)
    return any(isinstance(cause, kinds) for cause in causes)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status_fault(error: Any, endpoint: Endpoint, masked: Callable[[str], str]) -> Fault:  # noqa: ANN401 - APIStatusError of either SDK
    status, body, headers = error.status_code, error.body, error.response.headers
    message, what = message_in(body) or masked(" ".join(str(body or error).split()))[:200], str(status)
    kind, wait = kind_of(status, body), requested_wait(headers)
    may_pass = is_retryable(status, headers) and kind != "quota"
    if status < 400:  # noqa: PLR2004
        # An error in the middle of a stream has the status of the stream, 200.
        what = next((name.replace("_", " ") for name in names_in(body)), what)
        status, wait = passing_status(body), None
        may_pass = status is not None
    advice = WHAT_TO_DO.get(status or 0, "" if status and 400 <= status < 500 else "try again later")  # noqa: PLR2004
    advice = WHAT_TO_DO[402] if kind == "quota" else advice
    if wait and wait >= _SHORTEST_WAIT:
        advice = f"try again in {wait:.0f} seconds, as the API requests" if math.isfinite(wait) else "try again later"
    advice = advice.format(key=endpoint.key, url=endpoint.url)
    return Fault(f"the API answered {what}: {message}", advice, kind, may_pass, status=status, wait=wait)


_NAMED: tuple[tuple[ProviderErrorKind, int | None, str], ...] = (
    # A payment or a raised limit ends these, whatever their status is.
    ("quota", None, "billing_error billing_hard_limit_reached billing_not_active credit_balance_exhausted"),
    ("quota", None, "enforced_spend_limit_reached insufficient_credits insufficient_quota"),
    ("quota", None, "organization_spend_limit_exceeded organization_usage_limit_exceeded"),
    ("quota", None, "project_spend_limit_exceeded"),
    ("model_missing", None, "model_not_found not_found_error"),
    ("credentials", None, "authentication_error invalid_api_key permission_error"),
    ("rate_limited", 429, "rate_limit_error rate_limit_exceeded"),
    ("overloaded", 529, "overloaded_error"),
    ("overloaded", None, "server_is_overloaded slow_down"),
    ("invalid_request", None, "invalid_request_error request_too_large"),
    ("server_error", 500, "api_error internal_server_error server_error"),
    ("server_error", 504, "timeout_error"),
)
NAMES = {name: (kind, status) for kind, status, names in _NAMED for name in names.split()}
"""Kind of failure by type or code of an error; and its HTTP status, if it is temporary in the middle of a stream.

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

# Kinds that only the body distinguishes from others with the same status.
_SPECIFIC = {"quota", "model_missing"}
# Statuses whose message must be read to recognize an exhausted quota.
_UNCLEAR = {400, 403, 429}
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
    named = [NAMES[name][0] for name in names if name in NAMES]
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
        status = int(name) if re.fullmatch("[1-5][0-9][0-9]", name, re.ASCII) else NAMES.get(name, ("", None))[1]
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


_BUSY = {408, 409, 429}
_SERVER_ERROR = 500


def is_retryable(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a request that failed with a status may succeed later, by the same rules as in the SDKs."""
    told = headers.get("x-should-retry")
    return told == "true" if told in {"true", "false"} else status in _BUSY or status >= _SERVER_ERROR


def requested_wait(headers: Mapping[str, str]) -> float | None:
    """Return the wait that a server requests [s], possibly infinite; None if none above 0 is requested."""
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - only refusals need it

    for header, per_second in (("retry-after-ms", 1_000), ("retry-after", 1)):
        with suppress(ValueError):
            wait = float(headers.get(header, "")) / per_second
            return wait if wait > 0 else None
    with suppress(LookupError, TypeError, ValueError, OverflowError):
        # An HTTP date, by the clock of the server if the headers contain its time.
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        wait = (parsedate_to_datetime(headers["retry-after"]) - now).total_seconds()
        return wait if wait > 0 else None
    return None
