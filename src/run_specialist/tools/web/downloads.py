"""Download pages with limits on size, time and redirects, connecting only to public addresses."""

import asyncio
import socket
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from run_specialist.errors import ToolError
from run_specialist.tools.web.page_urls import checked
from run_specialist.tools.web.public_addresses import is_public

if TYPE_CHECKING:
    import aiohttp

MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a page, transferred and unpacked; the rest is omitted [bytes]."""
MAX_REDIRECTS = 5
MAX_SECONDS = 30.0
"""Timeout of one download with its redirects [s]."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OK = 200
_PORTION = 64 * 1024
_ACCEPT = "text/markdown, text/html;q=0.9, text/*;q=0.8, application/json;q=0.8, application/xml;q=0.7, */*;q=0.1"


@dataclass(frozen=True, slots=True)
class Download:
    """The body of a page."""

    url: str
    """URL after redirects."""
    media_type: str
    """Media type such as `text/html`; empty if the server states none."""
    charset: str | None
    body: bytes
    is_cut: bool
    """Whether it is longer than `MAX_BYTES`."""


class NotPublic(OSError):
    """A host name resolves to an address that is not public."""


class Downloads:
    """Downloads pages, each over a separate connection, without cookies, proxies or credentials."""

    def __init__(
        self,
        allowed_domains: Sequence[str] = (),
        *,
        may_connect: Callable[[str], bool] = is_public,
        seconds: float = MAX_SECONDS,
    ) -> None:
        """Set the limits.

        allowed_domains: with their subdomains; empty = all.
        may_connect: decides about each IP address immediately before connecting to it.
        seconds: timeout of one download [s].
        """
        self._allowed_domains = tuple(allowed_domains)
        self._may_connect = may_connect
        self._seconds = seconds

    async def get(self, url: str) -> Download:
        """Download a page.

        Raises ToolError if it cannot or must not be fetched.
        """
        import aiohttp  # noqa: PLC0415 - slow to import, and not needed by most runs

        at = checked(url, self._allowed_domains)
        try:
            async with asyncio.timeout(self._seconds), self._session() as session:
                for _ in range(MAX_REDIRECTS + 1):
                    async with session.get(at, allow_redirects=False) as response:
                        target = response.headers.get("location")
                        if response.status not in _REDIRECTS or target is None:
                            return await _received(at, response)
                    at = checked(target, self._allowed_domains, base=at)
        except TimeoutError:
            raise ToolError(f"{at} did not answer within {self._seconds:.0f} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ToolError(_reason(at, error)) from error
        raise ToolError(f"{url} redirects more than {MAX_REDIRECTS} times")

    def _session(self) -> "aiohttp.ClientSession":
        import aiohttp  # noqa: PLC0415 - as above

        def connecting(found: tuple[Any, ...]) -> socket.socket:
            # Called for each address after the name was resolved: the checked address is the one that is connected to.
            family, kind, protocol, _, address = found
            if not self._may_connect(address[0]):
                raise NotPublic(f"its address {address[0]} is not public")
            return socket.socket(family, kind, protocol)

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(socket_factory=connecting, force_close=True, use_dns_cache=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"user-agent": "run-specialist", "accept": _ACCEPT, "accept-encoding": "gzip"},
            auto_decompress=False,
            trust_env=False,
        )


async def _received(url: str, response: "aiohttp.ClientResponse") -> Download:
    if response.status != _OK:
        raise ToolError(f"{url} answered with HTTP {response.status} {response.reason or ''}".rstrip())
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip", "x-gzip", ""}:
        raise ToolError(f"{url} is encoded as {encoding[:40]}, which was not asked for")
    unpacking = zlib.decompressobj(16 + zlib.MAX_WBITS) if "gzip" in encoding else None
    body, received = bytearray(), 0
    # Reading stops at either limit, so neither an endless page nor a small one that unpacks to gigabytes is held.
    async for portion in response.content.iter_chunked(_PORTION):
        received += len(portion)
        try:
            body += portion if unpacking is None else unpacking.decompress(portion, MAX_BYTES + 1 - len(body))
        except zlib.error:
            raise ToolError(f"{url} is damaged: it cannot be unpacked") from None
        if len(body) > MAX_BYTES or received > MAX_BYTES:
            break
    is_cut = len(body) > MAX_BYTES or received > MAX_BYTES
    return Download(url, response.content_type.lower(), response.charset, bytes(body[:MAX_BYTES]), is_cut)


def _reason(url: str, error: Exception) -> str:
    """Return why a download failed, in one line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NotPublic):
            return f"{url} cannot be fetched: {cause}"
        causes = cause.exceptions if isinstance(cause, BaseExceptionGroup) else ()
        cause = (
            next((one for one in causes if isinstance(one, NotPublic)), None) or cause.__cause__ or cause.__context__
        )
    return f"{url} cannot be fetched: {' '.join(str(error).split())[:300] or type(error).__name__}"
