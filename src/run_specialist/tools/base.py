"""The interface of a tool, and the set of tools of one run."""

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
    """What came of a tool call; a function that has nothing to note returns its text alone."""

    text: str
    note: str = ""
    """A line of ours to stand behind the text, e.g. how to read on; neither counted nor cut."""
    is_error: bool = False
    """True where the text tells what went wrong."""


@dataclass(frozen=True)
class Tool:
    """A function that a model can call by name."""

    name: str
    """Unique in a toolset; letters, digits, `_` and `-`."""
    description: str
    """What a model reads when it chooses between tools."""
    function: Callable[..., Any]
    """Takes the arguments by keyword; returns text, an `Output` or what JSON can tell, or an awaitable of it."""
    repeatable: bool = False
    """True where an identical call in the same run can be answered from the record."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments, in place of the one that the signature gives."""
    timeout: float | None = None
    """What one call may take, in place of the specialist's `tool_timeout` [s]."""
    runs_child: bool = False
    """True where a call is a run of its own: it draws on the budget, and when it is cut short it is waited for,
    because it gives back what it gathered."""
    _parameters: Parameters = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parameters", parameters_of(self.function))

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - what the function takes and returns
        """Call the function as if it were no tool."""
        return self.function(*arguments, **named)

    @property
    def definition(self) -> Mapping[str, Any]:
        """What a model is told of the tool, as the Messages API takes it."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments, made from the function's signature unless given."""
        return self.schema or self._parameters.schema

    async def call(self, arguments: Mapping[str, Any], context: Context | None = None) -> Output:
        """Run the tool; a plain function runs in a thread so that it cannot hold up the loop.

        context: for a function that takes one.
        Raises ToolError for arguments that do not fit, and whatever the function raises.
        """
        checked = self._parameters.checked(arguments, context)
        if inspect.iscoroutinefunction(self.function):
            result = await self.function(**checked)
        else:
            result = await in_thread(lambda: drained(self.function(**checked), is_cancelled))
            result = await result if inspect.isawaitable(result) else result
        return result if isinstance(result, Output) else Output(as_text(result))

    async def call_within(
        self, seconds: float, arguments: Mapping[str, Any], context: Context | None = None
    ) -> Output | None:
        """Run the tool; None when the time is up, and it is left to itself if it takes no notice of being cancelled.

        A child is cancelled likewise, and then gives back what it gathered.
        Raises as `call` does.
        """
        work = asyncio.ensure_future(self._tried(arguments, context))
        try:
            await asyncio.wait([work], timeout=None if math.isinf(seconds) else seconds)
        except asyncio.CancelledError:
            if not self.runs_child:
                raise
        finally:
            work.cancel()
        if self.runs_child:
            await asyncio.wait([work])
        if not work.done():
            return None
        result = work.result()
        if isinstance(result, BaseException):
            raise result
        return result

    async def _tried(self, arguments: Mapping[str, Any], context: Context | None) -> Output | BaseException:
        """Return what the function raises: as the end of a task it would be told to nobody, or end the program."""
        try:
            return await self.call(arguments, context)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a tool may raise anything
            return error


class Toolset:
    """The tools of one run, sorted by name and frozen: the prompt cache depends on it."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Take the tools; the last one of a name wins."""
        by_name = {tool.name: tool for tool in tools}
        self._tools = dict(sorted(by_name.items()))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool | None:
        """Return the tool of that name, or None."""
        return self._tools.get(name)

    def runs_child(self, name: str) -> bool:
        """Tell whether a call of that name is a run of its own."""
        return name in self._tools and self._tools[name].runs_child

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(self._tools)
