"""One request through an SDK's client, whole or streamed; the SDKs of both APIs are made alike."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

from run_specialist.providers.endpoint import Endpoint
from run_specialist.providers.json_reader import read_object
from run_specialist.providers.reply_limits import LONGEST_CONNECT, LONGEST_PAUSE, bound_body
from run_specialist.providers.sdk_errors import refuse_long_waits
from run_specialist.record.messages import Block

_HEADERS = {"Content-Type": "application/json"}


def connection(sdk: Any) -> dict[str, Any]:  # noqa: ANN401 - either SDK
    """Return the options of a client that neither waits as long as any server likes, nor takes all that it sends."""
    return {
        "http_client": sdk.DefaultAioHttpClient(event_hooks={"response": [refuse_long_waits, bound_body]}),
        "timeout": sdk.Timeout(LONGEST_PAUSE, connect=LONGEST_CONNECT),
    }


class StreamedReply(Protocol):
    """What puts a reply together from the events of its stream."""

    def add(self, event: object) -> None:
        """Take the next event."""
        ...

    def whole(self) -> Block:
        """Return the reply; raises ProviderError when it is not complete."""
        ...


async def send(client: Any, path: str, body: bytes, endpoint: Endpoint) -> Block:  # noqa: ANN401 - of either SDK
    """Return the JSON object that answers a request.

    Raises ProviderError for an answer that is none, and whatever the SDK raises.
    """
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    response = await client.post(_url(client, path), cast_to=httpx2.Response, content=body, options=_options(client))
    return read_object(response.headers.get("content-type", ""), response.content, endpoint)


def _url(client: Any, path: str) -> str:  # noqa: ANN401 - as above
    # Put together here, it is parsed once.
    return str(client.base_url).rstrip("/") + path


def _options(client: Any) -> dict[str, Any]:  # noqa: ANN401 - as above
    # What is left out the SDK copies deeply from its defaults.
    return {"headers": _HEADERS, "timeout": client.timeout, "max_retries": client.max_retries}


async def stream(client: Any, path: str, body: bytes, endpoint: Endpoint, begin: Callable[[], StreamedReply]) -> Block:  # noqa: ANN401
    """Return the reply that grows from the events of a stream; a server may also answer at once.

    begin: called when the stream does.
    Raises as `send` does.
    """
    stream_class = import_module(endpoint.sdk).AsyncStream[object]
    stream = await client.post(
        _url(client, path), cast_to=object, content=body, options=_options(client), stream=True, stream_cls=stream_class
    )
    async with stream:
        kind = stream.response.headers.get("content-type", "")
        if not kind.lower().startswith("text/event-stream"):
            return read_object(kind, await stream.response.aread(), endpoint)
        growing = begin()
        async for event in stream:
            growing.add(event)
        return growing.whole()
