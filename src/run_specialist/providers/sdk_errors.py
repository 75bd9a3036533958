"""Convert errors of the SDKs and the HTTP library to one line that says what to do."""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ProviderError
from run_specialist.providers.endpoint import Endpoint
from run_specialist.redaction import MASK, redact

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

LONGEST_LINE = 600
"""Maximum length of an error message [characters]."""
LONGEST_WAIT = 60.0
"""Maximum `retry-after` that is honored [s]."""
SHORTEST_KEY = 8
"""Shorter keys are not masked: they are placeholders, which may occur in plain text [characters]."""

WHAT_TO_DO = {
    401: "check {key}",
    402: "check the account's billing",
    403: "the key may not use this model; check its permissions or choose another --model",
    404: "check --model and {url}",
    413: "the request is too large; lower the limits or narrow `paths`",
    429: "wait a little, then try again",
    529: "the API is overloaded; try again later",
}


async def refuse_long_waits(response: "httpx2.Response") -> None:
    """Disable the retry if `retry-after` is too long; an SDK may honor it without an upper bound.

    A response hook of the HTTP client: `x-should-retry` takes precedence over everything else in the SDKs.
    """
    if _retry_after(response.headers) > LONGEST_WAIT:
        response.headers["x-should-retry"] = "false"


def _retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return float(milliseconds) / 1000
        return float(text)
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def one_line(error: Exception, endpoint: Endpoint, client: "AsyncAnthropic | AsyncOpenAI") -> str:
    """Return one line without secrets that describes an error and what to do.

    client: the client that sent the request.
    """
    credentials = (client.api_key, getattr(client, "auth_token", None))
    keys = [key for key in credentials if key and len(key) >= SHORTEST_KEY]

    def masked(text: str) -> str:
        # Some servers quote the key that they refuse. Mask it before truncation, after which it would not match.
        for key in keys:
            text = text.replace(key, MASK)
        return redact(text)

    base_url = client.base_url.copy_with(userinfo=b"", query=None, fragment=None)
    return tidy(masked(_describe(error, endpoint, base_url, masked)))


def tidy(text: str) -> str:
    """Return untrusted text as one redacted line of limited length."""
    text = redact(" ".join(text.split()))
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]} …"


def _describe(  # noqa: PLR0911 - one for each kind of error
    error: Exception, endpoint: Endpoint, base_url: object, masked: Callable[[str], str]
) -> str:
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
        case _ if isinstance(causes[-1], ProviderError):
            # Raised while reading the body; the SDK wraps it as a connection error.
            return str(causes[-1])
        case _ if unreadable := [cause.message for cause in causes if isinstance(cause, aiohttp.ClientResponseError)]:
            # `str(error)` contains the URL with its query, which may contain secrets.
            what = masked(unreadable[0].partition("\n")[0].rstrip(":"))[:200]
            return f"the answer from {base_url} cannot be parsed ({what}); {endpoint.wrong_server}"
        case sdk.APIStatusError():
            return _status_line(error, endpoint, masked)
        case _ if isinstance(causes[-1], ValueError) and "header" in str(causes[-1]):
            # Only the header with the key can be invalid.
            return f"the request cannot be sent; check {endpoint.key} for invalid characters"
        # One of the SDKs reports every failed connection as a timeout.
        case sdk.APITimeoutError() | httpx2.TimeoutException() if was_slow or not broke:
            return f"timeout: no answer from {base_url}; try again, or check the server"
        case _ if any(isinstance(cause, aiohttp.ClientPayloadError) for cause in causes):
            return f"the connection to {base_url} was closed in the middle of a reply; try again"
        case sdk.APIConnectionError() | httpx2.ConnectError():
            reason = _system_error(causes[-1]) or str(error.__cause__ or "")
            why = f" ({reason})" if reason else ""
            return f"cannot reach {base_url}{why}; check the network, or {endpoint.url}"
        case sdk.APIError():
            return f"the server ended its reply with an error: {message_in(error.body) or error}; try again later"
        case httpx2.HTTPError():
            return f"the connection to {base_url} was closed in the middle of a reply; try again"
        case _:
            what = masked((str(error) or type(error).__name__).splitlines()[0])[:200]
            return f"the answer from {base_url} cannot be parsed ({what}); {endpoint.wrong_server}"


def _system_error(error: BaseException) -> str:
    """Return the operating system's text for a connection error, without the text of the HTTP library."""
    if not isinstance(error, OSError) or not error.errno:
        return ""
    return os.strerror(error.errno) if error.errno > 0 else str(error.strerror or "")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status_line(error: Any, endpoint: Endpoint, masked: Callable[[str], str]) -> str:  # noqa: ANN401 - APIStatusError of either SDK
    status, body = error.status_code, error.body
    message, what = message_in(body) or masked(" ".join(str(body or error).split()))[:200], str(status)
    match body:
        case {"error": {"type": str(kind)}} if status < 400:  # noqa: PLR2004
            # An error in the middle of a stream has the status of the stream, 200.
            what = kind.replace("_", " ")
    advice = WHAT_TO_DO.get(status, "" if 400 <= status < 500 else "try again later")  # noqa: PLR2004
    wait = _retry_after(error.response.headers)
    if wait > LONGEST_WAIT:
        advice = f"try again in {wait:.0f} seconds, as the API requests" if math.isfinite(wait) else "try again later"
    advice = advice.format(key=endpoint.key, url=endpoint.url)
    return f"the API answered {what}: {message}" + (f"; {advice}" if advice else "")


def message_in(body: object) -> str:
    """Return the message in an error's body, in any of the usual shapes; empty if there is none."""
    match body:
        case {"error": dict(inner)}:
            return message_in(inner)
        case {"message": str(message)} | {"error": str(message)} | {"detail": str(message)}:
            return message
        case [first, *_]:
            return message_in(first)
        case _:
            return ""
