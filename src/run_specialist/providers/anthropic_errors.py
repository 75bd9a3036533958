"""One clear line for whatever goes wrong between here and the Messages API."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from run_specialist.redaction import redact

if TYPE_CHECKING:
    import httpx2
    from anthropic import APIStatusError

LONGEST_LINE = 600
"""What a server says beyond this is cut [characters]."""
LONGEST_WAIT = 60.0
"""A server that asks for a longer pause than this is not waited for [s]."""

WHAT_TO_DO = {
    401: "check ANTHROPIC_API_KEY",
    402: "check the account's billing",
    403: "the key may not use this model; check its permissions or choose another --model",
    404: "check --model and ANTHROPIC_BASE_URL",
    413: "the request is too large; lower the limits or narrow `paths`",
    429: "wait a little, then try again",
    529: "the API is overloaded; try again later",
}


async def refuse_long_waits(response: "httpx2.Response") -> None:
    """Put a deadline over `retry-after`, which the SDK would honour without an upper bound.

    A response hook of the HTTP client: the SDK heeds `x-should-retry` before all else.
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


def one_line(error: Exception, base_url: object) -> str:
    """Say what went wrong and what to do, in one line without secrets.

    base_url: where the requests went.
    """
    words = " ".join(_words(error, base_url).split())
    return redact(words if len(words) <= LONGEST_LINE else f"{words[:LONGEST_LINE]} …")


def _words(error: Exception, base_url: object) -> str:
    import anthropic  # noqa: PLC0415 - already loaded on the way to the request
    import httpx2  # noqa: PLC0415 - likewise

    match error:
        case anthropic.APIStatusError():
            return _status_line(error)
        case _ if isinstance(error.__cause__ or error, httpx2.LocalProtocolError):
            # Its text quotes the header that cannot be sent, which may be the key.
            return "the request cannot be sent; check ANTHROPIC_API_KEY for stray characters"
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            return f"no answer from {base_url} in time; try again, or check the server"
        case anthropic.APIConnectionError() | httpx2.ConnectError():
            why = f" ({error.__cause__})" if error.__cause__ else ""
            return f"cannot reach {base_url}{why}; check the network, or ANTHROPIC_BASE_URL"
        case httpx2.HTTPError():
            return f"the connection to {base_url} broke off in the middle of a reply; try again"
        case _:
            said = (str(error) or type(error).__name__).splitlines()[0][:200]
            return f"the answer of {base_url} cannot be read ({said}); is it a Messages-compatible server?"


def _status_line(error: "APIStatusError") -> str:
    status, body = error.status_code, error.body
    match body:
        case {"error": {"message": str(said), "type": str(kind)}}:
            # An error in mid-stream arrives under the status of the stream, which was 200.
            what = kind.replace("_", " ") if status < 400 else str(status)  # noqa: PLR2004
        case _:
            said, what = " ".join(str(body or error).split())[:200], str(status)
    advice = WHAT_TO_DO.get(status, "" if 400 <= status < 500 else "try again later")  # noqa: PLR2004
    wait = _retry_after(error.response.headers)
    if wait > LONGEST_WAIT:
        advice = f"try again in {wait:.0f} seconds, as it asks" if math.isfinite(wait) else "try again later"
    return f"the API answered {what}: {said}" + (f"; {advice}" if advice else "")
