"""One clear line for whatever goes wrong between here and an API, whichever SDK carries the requests."""

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
"""What a server says beyond this is cut [characters]."""
LONGEST_WAIT = 60.0
"""A server that asks for a longer pause than this is not waited for [s]."""
SHORTEST_KEY = 8
"""A shorter key is taken for a placeholder, which may be a part of plain words [characters]."""

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
    """Put a deadline over `retry-after`, which an SDK may honour without an upper bound.

    A response hook of the HTTP client: the SDKs heed `x-should-retry` before all else.
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
    """Say what went wrong and what to do, in one line without secrets.

    client: the one that the request went through.
    """
    keys = [one for one in (client.api_key, getattr(client, "auth_token", None)) if one and len(one) >= SHORTEST_KEY]

    def hidden(words: str) -> str:
        # Some servers quote the key that they refuse; a part of it, cut off, would not be known again.
        for key in keys:
            words = words.replace(key, MASK)
        return redact(words)

    place = client.base_url.copy_with(userinfo=b"", query=None, fragment=None)
    return tidy(hidden(_words(error, endpoint, place, hidden)))


def tidy(words: str) -> str:
    """Return foreign words as one line of bearable length, without secrets."""
    words = redact(" ".join(words.split()))
    return words if len(words) <= LONGEST_LINE else f"{words[:LONGEST_LINE]} …"


def _words(  # noqa: PLR0911 - one for each kind of trouble
    error: Exception, endpoint: Endpoint, base_url: object, hidden: Callable[[str], str]
) -> str:
    """Return what there is to say.

    base_url: without what may be secret in it.
    hidden: takes keys out of foreign words, before they are cut.
    """
    import aiohttp  # noqa: PLC0415 - already loaded on the way to the request
    import httpx2  # noqa: PLC0415 - likewise

    sdk: Any = import_module(endpoint.sdk)
    causes = [*_causes(error)]
    broke = any(isinstance(one, aiohttp.ClientConnectionError) for one in causes)
    was_slow = any(isinstance(one, TimeoutError) for one in causes)
    match error:
        case _ if isinstance(causes[-1], ProviderError):
            # What was raised while the body was read, the SDK takes for a failed connection.
            return str(causes[-1])
        case _ if unreadable := [one.message for one in causes if isinstance(one, aiohttp.ClientResponseError)]:
            # Its whole text names the address with its query, and with what may be secret there.
            what = hidden(unreadable[0].partition("\n")[0].rstrip(":"))[:200]
            return f"the answer of {base_url} cannot be read ({what}); {endpoint.wrong_server}"
        case sdk.APIStatusError():
            return _status_line(error, endpoint, hidden)
        case _ if isinstance(causes[-1], ValueError) and "header" in str(causes[-1]):
            # The header that cannot be sent is the one that carries the key.
            return f"the request cannot be sent; check {endpoint.key} for stray characters"
        # One of the SDKs takes every connection that fails for one that was too slow.
        case sdk.APITimeoutError() | httpx2.TimeoutException() if was_slow or not broke:
            return f"no answer from {base_url} in time; try again, or check the server"
        case _ if any(isinstance(one, aiohttp.ClientPayloadError) for one in causes):
            return f"the connection to {base_url} broke off in the middle of a reply; try again"
        case sdk.APIConnectionError() | httpx2.ConnectError():
            words = _system_words(causes[-1]) or str(error.__cause__ or "")
            why = f" ({words})" if words else ""
            return f"cannot reach {base_url}{why}; check the network, or {endpoint.url}"
        case sdk.APIError():
            return f"the server broke its reply off with an error: {said(error.body) or error}; try again later"
        case httpx2.HTTPError():
            return f"the connection to {base_url} broke off in the middle of a reply; try again"
        case _:
            what = hidden((str(error) or type(error).__name__).splitlines()[0])[:200]
            return f"the answer of {base_url} cannot be read ({what}); {endpoint.wrong_server}"


def _system_words(error: BaseException) -> str:
    """Return what the system says of a connection, without the HTTP library's own words around it."""
    if not isinstance(error, OSError) or not error.errno:
        return ""
    return os.strerror(error.errno) if error.errno > 0 else str(error.strerror or "")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _status_line(error: Any, endpoint: Endpoint, hidden: Callable[[str], str]) -> str:  # noqa: ANN401 - APIStatusError of either SDK
    status, body = error.status_code, error.body
    words, what = said(body) or hidden(" ".join(str(body or error).split()))[:200], str(status)
    match body:
        case {"error": {"type": str(kind)}} if status < 400:  # noqa: PLR2004
            # An error in mid-stream arrives under the status of the stream, which was 200.
            what = kind.replace("_", " ")
    advice = WHAT_TO_DO.get(status, "" if 400 <= status < 500 else "try again later")  # noqa: PLR2004
    wait = _retry_after(error.response.headers)
    if wait > LONGEST_WAIT:
        advice = f"try again in {wait:.0f} seconds, as it asks" if math.isfinite(wait) else "try again later"
    advice = advice.format(key=endpoint.key, url=endpoint.url)
    return f"the API answered {what}: {words}" + (f"; {advice}" if advice else "")


def said(body: object) -> str:
    """Return what an error's body says, in whichever of the usual shapes; empty when it says nothing."""
    match body:
        case {"error": dict(inner)}:
            return said(inner)
        case {"message": str(words)} | {"error": str(words)} | {"detail": str(words)}:
            return words
        case [first, *_]:
            return said(first)
        case _:
            return ""
