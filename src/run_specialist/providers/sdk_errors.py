"""Convert errors of the SDKs and the HTTP library to one line that says what to do."""

import math
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ProviderError, ProviderErrorKind, Unavailable
from run_specialist.providers.endpoint import Endpoint
from run_specialist.providers.error_bodies import kind_of, message_in, names_in, passing_status
from run_specialist.providers.retry_headers import is_retryable, requested_wait
from run_specialist.redaction import MASK, redact

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

LONGEST_LINE = 600
"""Maximum length of an error message [characters]."""
SHORTEST_KEY = 8
"""Minimum length of a masked key; shorter ones are placeholders, which may occur in plain text [characters]."""
SHORTEST_WAIT = 1.0
"""Minimum requested wait that an error mentions [s]."""

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
    keys = [key for key in credentials if key and len(key) >= SHORTEST_KEY]

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


def _describe(  # noqa: PLR0911 - one for each kind of error
    error: Exception, endpoint: Endpoint, base_url: object, masked: Callable[[str], str]
) -> Fault:
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
            return _stream_fault(error)
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

    text = _system_error(causes[-1]) or str(causes[0].__cause__ or "")
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


def _system_error(error: BaseException) -> str:
    """Return the operating system's text for a connection error, without the text of the HTTP library."""
    if not isinstance(error, OSError) or not error.errno:
        return ""
    return os.strerror(error.errno) if error.errno > 0 else str(error.strerror or "")


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
    if wait and wait >= SHORTEST_WAIT:
        advice = f"try again in {wait:.0f} seconds, as the API requests" if math.isfinite(wait) else "try again later"
    advice = advice.format(key=endpoint.key, url=endpoint.url)
    return Fault(f"the API answered {what}: {message}", advice, kind, may_pass, status=status, wait=wait)


def _stream_fault(error: Any) -> Fault:  # noqa: ANN401 - APIError of either SDK
    """Describe an error in the middle of a stream that the SDK raises without a status."""
    status = passing_status(error.body)
    reason = f"the server ended its reply with an error: {message_in(error.body) or error}"
    kind = kind_of(None, error.body)
    return Fault(reason, "try again later", kind, may_pass=status is not None, status=status)
