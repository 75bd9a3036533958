"""Send one request through an SDK's client, streamed or not; the SDKs of both APIs have the same interface."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from run_specialist.errors import ProviderError
from run_specialist.providers.endpoint import Endpoint
from run_specialist.providers.json_reader import read_object
from run_specialist.providers.reply_limits import LONGEST_CONNECT, LONGEST_PAUSE, LONGEST_REPLY, bound_body
from run_specialist.record.blocks import Block

if TYPE_CHECKING:
    import httpx2

_RETRIES = "x-stainless-retry-count"
"""The header in which the SDKs send the number of retries."""

Accepted = Callable[[], None]
"""Called as soon as the headers of a successful response have arrived."""


def connection(sdk: Any, *, direct: bool = False) -> dict[str, Any]:  # noqa: ANN401 - either SDK
    """Return client options that limit timeouts, reply sizes and redirects.

    direct: the server is on this machine: ignore proxies from the environment, and be patient.
    """
    no_proxies = {"trust_env": False} if direct else {}
    hooks = {"response": [stay_at_origin, bound_body]}
    return {
        "http_client": sdk.DefaultAioHttpClient(event_hooks=hooks, **no_proxies),
        # A model on this machine may take minutes for the prompt alone.
        "timeout": sdk.Timeout(LONGEST_REPLY if direct else LONGEST_PAUSE, connect=LONGEST_CONNECT),
    }


async def stay_at_origin(response: "httpx2.Response") -> None:
    """Refuse a redirect to another scheme, host or port, which would get the question and the headers with the key.

    Used as a response hook of the HTTP client, which calls it before it follows a redirect.
    Raises ProviderError.
    """
    if not response.has_redirect_location:
        return
    import httpx2  # noqa: PLC0415 - already loaded by the request

    sent = response.request.url
    try:
        target = httpx2.URL(response.headers["location"])
        # The library completes a URL with a scheme but no host in its own way.
        target = sent.join(target) if target.host or not target.scheme else httpx2.URL()
    except (httpx2.InvalidURL, ValueError):
        target = httpx2.URL()
    if (target.scheme, target.host, target.port) == (sent.scheme, sent.host, sent.port) and not target.userinfo:
        return
    before, after = (
        f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}" if url.host else "an invalid address"
        for url in (sent, target)
    )
    raise ProviderError(
        f"{before} redirects to {after} (HTTP {response.status_code}), and a question is never passed on to another "
        "server; if the new one is right, set it as the base URL"
    )


class StreamedReply(Protocol):
    """Assembles a reply from the events of its stream."""

    def add(self, event: object) -> None:
        """Process the next event."""
        ...

    @property
    def is_endless(self) -> bool:
        """True once only white space keeps arriving, so that waiting is useless."""
        ...

    def result(self) -> Block:
        """Return the reply; raises ProviderError if it is not complete."""
        ...


async def send(  # noqa: PLR0913, PLR0917 - what is sent, and how
    client: Any,  # noqa: ANN401 - of either SDK
    url: str,
    body: bytes,
    endpoint: Endpoint,
    accepted: Accepted,
    retries: int = 0,
) -> Block:
    """Send a request once and return the JSON object of the response.

    url: as returned by `url_of`.
    accepted: called once a successful response begins.
    retries: number of earlier attempts.
    Raises ProviderError if the response is not a JSON object, and any error of the SDK.
    """
    import httpx2  # noqa: PLC0415 - comes with the SDK, which is heavy

    options = _options(client, retries)
    response = await client.post(url, cast_to=httpx2.Response, content=body, options=options)
    accepted()
    return read_object(response.headers.get("content-type", ""), response.content, endpoint)


def url_of(client: Any, path: str) -> str:  # noqa: ANN401 - as above
    """Return the absolute URL of a path below the client's base URL, which an SDK parses only once."""
    return str(client.base_url).rstrip("/") + path


def _options(client: Any, retries: int) -> dict[str, Any]:  # noqa: ANN401 - as above
    headers = {_RETRIES: str(retries)} if retries else {}
    # The SDK would deep-copy missing options from its defaults. Runs retry by themselves, so that they can report it.
    return {"headers": headers, "timeout": client.timeout, "max_retries": 0}


async def stream(  # noqa: PLR0913, PLR0917 - as `send`, and who reads the stream
    client: Any,  # noqa: ANN401 - as above
    url: str,
    body: bytes,
    endpoint: Endpoint,
    accepted: Accepted,
    begin: Callable[[], StreamedReply],
    retries: int = 0,
) -> Block:
    """Send a request once and return the reply assembled from the stream; a plain JSON response is accepted too.

    begin: creates the assembler at the start of the stream.
    url, accepted, retries: as in `send`.
    Raises the same errors as `send`.
    """
    stream_class = import_module(endpoint.sdk).AsyncStream[object]
    options = _options(client, retries)
    stream = await client.post(url, cast_to=object, content=body, options=options, stream=True, stream_cls=stream_class)
    async with stream:
        accepted()
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
