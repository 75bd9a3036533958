"""The tool interface, and the toolset of a run."""

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from run_specialist.tools.context import Context
from run_specialist.tools.parameters import Parameters, parameters_of
from run_specialist.tools.returned import as_text, drained
from run_specialist.tools.threads import in_thread, is_cancelled


@dataclass(frozen=True, slots=True)
class Output:
    """Result of a tool call; a function without a note can return plain text instead."""

    text: str
    note: str = ""
    """Line appended to the text, e.g. how to read more; neither counted nor truncated."""
    is_error: bool = False
    """Whether the text describes an error."""


@dataclass(frozen=True)
class Tool:
    """Function that a model can call by name."""

    name: str
    """Name, unique within a toolset; letters, digits, `_` and `-`."""
    description: str
    """Text that a model reads to choose between tools."""
    function: Callable[..., Any]
    """Takes keyword arguments; returns text, an `Output`, a JSON-serializable value, or an awaitable of one."""
    repeatable: bool = False
    """Whether an identical call in the same run may be answered from the record."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments; overrides the one derived from the signature."""
    timeout: float | None = None
    """Timeout of one call; overrides the specialist's `tool_timeout` [s]."""
    runs_child: bool = False
    """Whether a call starts a child run, which draws on the budget. After a timeout or cancellation, its partial result
    is awaited."""
    ends_itself: bool = False
    """Whether a call that is cancelled or timed out is awaited, because it must record what it has changed."""
    on_server: Mapping[str, Any] | None = None
    """Definition of a tool that the API runs itself; None for a tool that this program runs."""
    instead: "Tool | None" = None
    """The local tool's definition for an endpoint that does not run the tool itself; None if there is none."""
    _parameters: Parameters = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parameters", parameters_of(self.function))

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any signature
        """Call the wrapped function directly."""
        return self.function(*arguments, **named)

    @property
    def definition(self) -> Mapping[str, Any]:
        """Tool definition in the format of the Messages API."""
        return self.on_server or {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments: `schema` if set, else derived from the function's signature."""
        return self.schema or self._parameters.schema

    async def call(self, arguments: Mapping[str, Any], context: Context | None = None) -> Output:
        """Call the tool; a synchronous function runs in a thread so that it cannot block the event loop.

        context: passed to a function that takes one.
        Raises ToolError for invalid arguments, and any exception of the function.
        """
        validated = self._parameters.checked(arguments, context)
        if inspect.iscoroutinefunction(self.function):
            result = await self.function(**validated)
        else:
            result = await in_thread(lambda: drained(self.function(**validated), is_cancelled))
            result = await result if inspect.isawaitable(result) else result
        return result if isinstance(result, Output) else Output(as_text(result))

    async def call_within(
        self, seconds: float, arguments: Mapping[str, Any], context: Context | None = None
    ) -> Output | None:
        """Call the tool with a timeout [s], possibly infinite; return None if it expires.

        On timeout the call is cancelled, and abandoned if it ignores that. A child run is cancelled too, but its
        partial result is awaited.
        Raises as `call` does.
        """
        work = asyncio.ensure_future(self._call_catching(arguments, context))
        cancelled: asyncio.CancelledError | None = None
        try:
            await asyncio.wait([work], timeout=None if math.isinf(seconds) else seconds)
        except asyncio.CancelledError as error:
            if not (self.runs_child or self.ends_itself):
                raise
            cancelled = None if self.runs_child else error
        finally:
            work.cancel()
        if self.runs_child or self.ends_itself:
            await asyncio.wait([work])
        if cancelled is not None:
            raise cancelled
        if not work.done():
            return None
        result = work.result()
        if isinstance(result, BaseException):
            raise result
        return result

    async def _call_catching(self, arguments: Mapping[str, Any], context: Context | None) -> Output | BaseException:
        """Return exceptions instead of raising them: raised in a task, they could be lost or end the program."""
        try:
            return await self.call(arguments, context)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything
            return error


class Toolset:
    """Tools of one run, sorted by name and immutable, so that prompts can be cached."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Create a toolset; of several tools with one name, the last wins."""
        by_name = {tool.name: tool for tool in tools}
        self._tools = dict(sorted(by_name.items()))
        self.names = tuple(self._tools)
        """All names, sorted."""
        self._instead = {tool.instead.name: tool.instead for tool in self if tool.instead}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool | None:
        """Return the tool with this name, or None."""
        return self._tools.get(name) or self._instead.get(name)

    @property
    def on_server(self) -> tuple[Tool, ...]:
        """The tools that the API runs itself."""
        return tuple(tool for tool in self if tool.on_server)

    @property
    def local(self) -> tuple[Tool, ...]:
        """The tools that this program runs, including replacements of the API's tools."""
        kept = (tool.instead if tool.on_server else tool for tool in self)
        return tuple(tool for tool in kept if tool)

    def runs_child(self, name: str) -> bool:
        """Return whether the tool with this name starts a child run."""
        return name in self._tools and self._tools[name].runs_child
