"""Send one request through an SDK's client, streamed or not; the SDKs of both APIs have the same interface."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from run_specialist.providers.endpoint import Endpoint
from run_specialist.providers.json_reader import read_object
from run_specialist.providers.reply_limits import LONGEST_CONNECT, LONGEST_PAUSE, LONGEST_REPLY, bound_body
from run_specialist.providers.sdk_errors import refuse_long_waits
from run_specialist.record.messages import Block

_HEADERS = {"Content-Type": "application/json"}


def connection(sdk: Any, *, direct: bool = False) -> dict[str, Any]:  # noqa: ANN401 - either SDK
    """Return client options that limit timeouts, retry delays and the size of replies.

    direct: the server is on this machine: follow no redirect, ignore proxies from the environment, and be patient.
    """
    to_base_url_only = {"trust_env": False, "follow_redirects": False} if direct else {}
    hooks = {"response": [refuse_long_waits, bound_body]}
    return {
        "http_client": sdk.DefaultAioHttpClient(event_hooks=hooks, **to_base_url_only),
        # A model on this machine may take minutes for the prompt alone.
        "timeout": sdk.Timeout(LONGEST_REPLY if direct else LONGEST_PAUSE, connect=LONGEST_CONNECT),
    }


class StreamedReply(Protocol):
    """Assembles a reply from the events of its stream."""

    def add(self, event: object) -> None:
        """Process the next event."""
        ...

    @property
    def is_endless(self) -> bool:
        """True once nothing but white space keeps arriving, so that the rest is not worth waiting for."""
        ...

    def result(self) -> Block:
        """Return the reply; raises ProviderError if it is not complete."""
        ...


async def send(client: Any, path: str, body: bytes, endpoint: Endpoint) -> Block:  # noqa: ANN401 - of either SDK
    """Send a request and return the JSON object of the response.

    Raises ProviderError if the response is not a JSON object, and any error of the SDK.
    """
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    response = await client.post(_url(client, path), cast_to=httpx2.Response, content=body, options=_options(client))
    return read_object(response.headers.get("content-type", ""), response.content, endpoint)


def _url(client: Any, path: str) -> str:  # noqa: ANN401 - as above
    # An absolute URL is parsed only once.
    return str(client.base_url).rstrip("/") + path


def _options(client: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    # The SDK would deep-copy missing options from its defaults.
    return {"headers": _HEADERS, "timeout": client.timeout, "max_retries": client.max_retries}


async def stream(client: Any, path: str, body: bytes, endpoint: Endpoint, begin: Callable[[], StreamedReply]) -> Block:  # noqa: ANN401
    """Send a request and return the reply assembled from the event stream; a plain JSON response is accepted too.

    begin: creates the assembler at the start of the stream.
    Raises the same errors as `send`.
    """
    stream_class = import_module(endpoint.sdk).AsyncStream[object]
    stream = await client.post(
        _url(client, path), cast_to=object, content=body, options=_options(client), stream=True, stream_cls=stream_class
    )
    async with stream:
        kind = stream.response.headers.get("content-type", "")
        if not kind.lower().startswith("text/event-stream"):
            return read_object(kind, await stream.response.aread(), endpoint)
        reply = begin()
        async for event in stream:
            reply.add(event)
            if reply.is_endless:
                # Leaving the context closes the connection, so that the server stops.
                break
        return reply.result()
