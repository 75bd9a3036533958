"""A server's list of tools without those that break the protocol, for one of which the library refuses them all."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from run_specialist.specialist.problems import shown
from run_specialist.tools.mcp.server_errors import Hide, misfit

if TYPE_CHECKING:
    from pydantic import ValidationError

_NAMED = 10


class ToolFilter:
    """Passes on all that a server says, but for tools that are none."""

    def __init__(self) -> None:
        """Let everything pass."""
        self._version: str | None = None
        self._lost: list[str] = []
        self._first: ValidationError | None = None

    @asynccontextmanager
    async def over(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """Give the streams of a transport, with the sieve over what comes in."""
        async with transport as (reader, writer):
            yield _FilteredResult(reader, self._sift), writer

    def begin(self, version: str) -> None:
        """Take tools out from now on.

        version: of the protocol, as it was agreed upon.
        """
        self._version = version

    def end(self, hide: Hide) -> str:
        """Let everything pass again, and return in a line what was taken out; empty for nothing."""
        self._version = None
        if self._first is None:
            return ""
        more = len(self._lost) - _NAMED
        names = ", ".join(self._lost[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        one = len(self._lost) == 1
        told = misfit(f"its tool {names} is" if one else f"its tools {names} are", self._first, hide, within=2)
        return f"{told}; the run goes on without {'it' if one else 'them'}"

    def _sift(self, item: Any) -> None:  # noqa: ANN401 - a message, or an exception that the transport met
        result = getattr(getattr(item, "message", None), "result", None)
        if self._version is None or not isinstance(result, dict) or not isinstance(result.get("tools"), list):
            return
        # Of what is wrong beside the tools the library lets some pass; that is no tool's fault.
        if _misfit({**result, "tools": []}, self._version):
            return
        kept = []
        for number, tool in enumerate(result["tools"], 1):
            if error := _misfit({**result, "tools": [tool]}, self._version):
                name = tool.get("name") if isinstance(tool, dict) else None
                self._lost.append(shown(name) if isinstance(name, str) and name else f"number {number}")
                self._first = self._first or error
            else:
                kept.append(tool)
        result["tools"] = kept


def _misfit(result: dict[str, Any], version: str) -> "ValidationError | None":
    from mcp_types import methods  # noqa: PLC0415 - a heavy library, loaded since the server was started
    from pydantic import ValidationError  # noqa: PLC0415 - likewise

    try:
        methods.parse_server_result("tools/list", version, result)
    except ValidationError as error:
        return error
    return None


class _FilteredResult:
    """A stream of messages as the library reads it."""

    def __init__(self, stream: Any, sift: Callable[[Any], None]) -> None:  # noqa: ANN401 - of several kinds
        self._stream = stream
        self._sift = sift

    @property
    def last_context(self) -> Any:  # noqa: ANN401 - the library's own affair
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:  # noqa: ANN401 - as above
        item = await self._stream.receive()
        self._sift(item)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - as above
        item = await self._stream.__anext__()
        self._sift(item)
        return item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)
