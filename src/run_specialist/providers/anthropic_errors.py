"""One clear line for whatever goes wrong between here and the Messages API."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ProviderError

if TYPE_CHECKING:
    from anthropic._request import APIRequest

LONGEST_WAIT = 60.0
"""A server that asks for a longer pause than this is not waited for [s]."""

WHAT_TO_DO = {
    400: "",
    401: "check ANTHROPIC_API_KEY",
    402: "check the account's billing",
    403: "the key may not use this model; check its permissions or choose another --model",
    404: "check --model and ANTHROPIC_BASE_URL",
    413: "the request is too large; lower the limits or narrow `paths`",
    429: "wait a little, then try again",
    529: "the API is overloaded; try again later",
}


async def refuse_long_waits(
    request: "APIRequest", call_next: "Callable[[APIRequest], Awaitable[Any]]"
) -> Any:  # noqa: ANN401 - the SDK's own type of a middleware
    """Put a deadline over `retry-after`, which the SDK would honour without an upper bound.

    Raises ProviderError when the server asks for a longer wait than `LONGEST_WAIT`.
    """
    result = await call_next(request)
    # Where the plain response was asked for, the SDK does not wrap it.
    response = getattr(result, "http_response", result)
    wait = _retry_after(response.headers)
    if not response.is_success and wait > LONGEST_WAIT:
        raise ProviderError(
            f"the API answered {response.status_code} and asks to wait {wait:.0f} seconds; try again after that"
        )
    return result


def _retry_after(headers: Any) -> float:  # noqa: ANN401 - the SDK's headers
    text = headers.get("retry-after", "")
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return 0.0


def one_line(error: Exception, base_url: object) -> str:
    """Say what went wrong and what to do, in one line.

    base_url: where the requests went.
    """
    import anthropic  # noqa: PLC0415 - already loaded on the way to the request
    import httpx2  # noqa: PLC0415 - likewise

    match error:
        case anthropic.APIStatusError():
            return _status_line(error.status_code, error.response.text if error.response.is_closed else "", error)
        case anthropic.APITimeoutError() | httpx2.TimeoutException():
            return f"no answer from {base_url} in time; try again, or check the server"
        case anthropic.APIConnectionError() | httpx2.ConnectError():
            why = f" ({error.__cause__})" if error.__cause__ else ""
            return f"cannot reach {base_url}{why}; check the network, or ANTHROPIC_BASE_URL"
        case httpx2.LocalProtocolError():
            return f"the request cannot be sent ({error}); check ANTHROPIC_API_KEY for stray characters"
        case httpx2.HTTPError():
            return f"the connection to {base_url} broke off in the middle of a reply; try again"
        case _:
            said = (str(error) or type(error).__name__).splitlines()[0][:200]
            return f"the answer of {base_url} cannot be read ({said}); is it a Messages-compatible server?"


def _status_line(status: int, body: str, error: Exception) -> str:
    try:
        said = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        said = " ".join(body.split())[:200] or str(error).splitlines()[0][:200]
    advice = WHAT_TO_DO.get(status, "try again later" if status >= 500 else "")  # noqa: PLR2004
    return f"the API answered {status}: {said}" + (f"; {advice}" if advice else "")
