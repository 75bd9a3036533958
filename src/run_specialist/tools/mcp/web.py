"""The line to an MCP server behind a URL: streamable HTTP, with a bound on each message."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from run_specialist.tools.mcp.process import LARGEST_MESSAGE
from run_specialist.tools.mcp.server_errors import Hide

if TYPE_CHECKING:
    import httpx2

TO_CONNECT = 10.0
"""What a connection may take; how long an answer may take is up to whoever waits for it [s]."""

_FIRST_REFUSAL = 400


class Web:
    """A server behind a URL, and the last refusal in HTTP's own words."""

    def __init__(self, url: str, headers: Mapping[str, str], *, loopback: bool) -> None:
        """Take where it is.

        loopback: it is on this machine, so that no proxy of the environment stands between.
        """
        self._url = url
        self._headers = headers
        self._loopback = loopback
        self._refusal = ""

    def last_words(self, hide: Hide) -> str:
        """The newest status that refused something; empty where there is none."""
        return hide(self._refusal)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """Give the streams of messages from it and to it."""
        import httpx2  # noqa: PLC0415 - a heavy library
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - likewise

        async with (
            httpx2.AsyncClient(
                # What comes compressed cannot be bounded before it is whole.
                headers={**self._headers, "accept-encoding": "identity"},
                timeout=httpx2.Timeout(TO_CONNECT, read=None),
                event_hooks={"response": [self._note]},
                trust_env=not self._loopback,
            ) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=LARGEST_MESSAGE) as streams,
        ):
            yield streams

    async def _note(self, response: "httpx2.Response") -> None:
        import httpx2  # noqa: PLC0415 - loaded since `connected`

        # A server need not offer the stream that the library asks for with GET.
        if response.status_code >= _FIRST_REFUSAL and response.request.method == "POST":
            self._refusal = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.StreamError("its answer is compressed, which was not asked for")
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            response.stream = _bounded(response.stream)


def _bounded(stream: Any) -> "httpx2.AsyncByteStream":  # noqa: ANN401 - of a kind that the library keeps to itself
    import httpx2  # noqa: PLC0415 - as above

    class Bounded(httpx2.AsyncByteStream):
        """A body that breaks off where it becomes too large."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken = 0
            async for part in stream:
                taken += len(part)
                if taken > LARGEST_MESSAGE:
                    raise httpx2.StreamError(f"it is larger than {LARGEST_MESSAGE // 1024**2} MiB")
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()
