"""Filter for invalid tools in a server's list, because of which the library would reject the entire list."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

from run_specialist.specialist.problems import shown
from run_specialist.tools.mcp.server_errors import Hide, violation

if TYPE_CHECKING:
    from pydantic import ValidationError

_MAX_NAMED = 10


class ToolFilter:
    """Forwards all messages of a server, and removes invalid tools from its lists."""

    def __init__(self) -> None:
        """Create a filter that is not active yet."""
        self._version: str | None = None
        self._rejected: list[str] = []
        self._first_error: ValidationError | None = None

    @asynccontextmanager
    async def wrap(self, transport: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        """Yield the streams of a transport, with the incoming one filtered."""
        async with transport as (reader, writer):
            yield _FilteredStream(reader, self._filter), writer

    def begin(self, version: str) -> None:
        """Start removing invalid tools.

        version: negotiated protocol version.
        """
        self._version = version

    def end(self, hide: Hide) -> str:
        """Stop filtering, and return one line about the removed tools; empty if there are none."""
        self._version = None
        if self._first_error is None:
            return ""
        more = len(self._rejected) - _MAX_NAMED
        names = ", ".join(self._rejected[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
        single = len(self._rejected) == 1
        reason = violation(
            f"its tool {names} is" if single else f"its tools {names} are", self._first_error, hide, within=2
        )
        return f"{reason}; the run continues without {'it' if single else 'them'}"

    def _filter(self, item: Any) -> None:  # noqa: ANN401 - a message, or an exception of the transport
        result = getattr(getattr(item, "message", None), "result", None)
        if self._version is None or not isinstance(result, dict) or not isinstance(result.get("tools"), list):
            return
        # The list is invalid even without tools, so no tool is at fault; the library tolerates some such errors.
        if _validation_error({**result, "tools": []}, self._version):
            return
        valid = []
        for number, tool in enumerate(result["tools"], 1):
            if error := _validation_error({**result, "tools": [tool]}, self._version):
                name = tool.get("name") if isinstance(tool, dict) else None
                self._rejected.append(shown(name) if isinstance(name, str) and name else f"number {number}")
                self._first_error = self._first_error or error
            else:
                valid.append(tool)
        result["tools"] = valid


def _validation_error(result: dict[str, Any], version: str) -> "ValidationError | None":
    from mcp_types import methods  # noqa: PLC0415 - slow to import; loaded when the server started
    from pydantic import ValidationError  # noqa: PLC0415 - as above

    try:
        methods.parse_server_result("tools/list", version, result)
    except ValidationError as error:
        return error
    return None


class _FilteredStream:
    """Message stream for the library that filters each message."""

    def __init__(self, stream: Any, apply: Callable[[Any], None]) -> None:  # noqa: ANN401 - several types
        self._stream = stream
        self._filter = apply

    @property
    def last_context(self) -> Any:  # noqa: ANN401 - internal to the library
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:  # noqa: ANN401 - as above
        item = await self._stream.receive()
        self._filter(item)
        return item

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:  # noqa: ANN401 - as above
        item = await self._stream.__anext__()
        self._filter(item)
        return item

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stream.__aexit__(*error)
