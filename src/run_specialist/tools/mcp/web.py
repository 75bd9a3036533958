"""Transport to an MCP server at a URL: streamable HTTP with size-limited messages."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from run_specialist.tools.mcp.process import LARGEST_MESSAGE
from run_specialist.tools.mcp.server_errors import Hide

if TYPE_CHECKING:
    import httpx2

TO_CONNECT = 10.0
"""Connect timeout; the timeout of a response is set by its caller [s]."""

_FIRST_ERROR_STATUS = 400


class Web:
    """Streamable HTTP transport that remembers the last HTTP error status."""

    def __init__(self, url: str, headers: Mapping[str, str], *, loopback: bool) -> None:
        """Create a transport without connecting.

        loopback: the server is on this machine; proxies from the environment are then ignored.
        """
        self._url = url
        self._headers = headers
        self._loopback = loopback
        self._http_error = ""

    def failure(self, hide: Hide) -> str:
        """Return the last HTTP error status; empty if there is none."""
        return hide(self._http_error)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        """Connect and yield the incoming and outgoing message streams."""
        import httpx2  # noqa: PLC0415 - slow to import
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - as above

        async with (
            httpx2.AsyncClient(
                # The decompressed size of a compressed response could not be limited.
                headers={**self._headers, "accept-encoding": "identity"},
                timeout=httpx2.Timeout(TO_CONNECT, read=None),
                event_hooks={"response": [self._check_response]},
                trust_env=not self._loopback,
            ) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=LARGEST_MESSAGE) as streams,
        ):
            yield streams

    async def _check_response(self, response: "httpx2.Response") -> None:
        import httpx2  # noqa: PLC0415 - already loaded by `connected`

        # Servers need not support the stream that the library requests with GET.
        if response.status_code >= _FIRST_ERROR_STATUS and response.request.method == "POST":
            self._http_error = f"HTTP {response.status_code} {response.reason_phrase}".strip()
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise httpx2.StreamError("its answer is compressed, which was not asked for")
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            response.stream = _size_limited(response.stream)


def _size_limited(stream: Any) -> "httpx2.AsyncByteStream":  # noqa: ANN401 - a private type of the library
    import httpx2  # noqa: PLC0415 - as above

    class SizeLimited(httpx2.AsyncByteStream):
        """Response body that raises StreamError once it is too large."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for part in stream:
                size += len(part)
                if size > LARGEST_MESSAGE:
                    raise httpx2.StreamError(f"it is larger than {LARGEST_MESSAGE // 1024**2} MiB")
                yield part

        async def aclose(self) -> None:
            await stream.aclose()

    return SizeLimited()
