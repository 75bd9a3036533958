"""The interface of a tool, and the set of tools of one run."""

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs

from run_specialist.errors import ToolError
from run_specialist.tools.context import Context


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
    """Takes the arguments by keyword and returns a string or an `Output`, directly or as an awaitable."""
    repeatable: bool = False
    """True where an identical call in the same run can be answered from the record."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments, in place of the one that the signature gives."""
    timeout: float | None = None
    """What one call may take, in place of the specialist's `tool_timeout` [s]."""
    runs_child: bool = False
    """True where a call is a run of its own: it draws on the budget, and when it is cut short it is waited for,
    because it gives back what it gathered."""
    _adapter: TypeAdapter[Any] = field(init=False, repr=False, compare=False)
    _context: str | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # The twin has the signature and only hands the checked arguments back: the function itself is then called from
        # Python, because a thread that is given up inside of pydantic's native code takes the program down with it.
        twin = functools.wraps(self.function)(lambda **arguments: arguments)
        context = _context_parameter(self.function)
        if context is not None:
            # No model sees the context, and none can give it.
            signature = inspect.signature(self.function)
            rest = [one for name, one in signature.parameters.items() if name != context]
            twin.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined] # functions have one
        adapter: TypeAdapter[Any] = TypeAdapter(twin)  # type: ignore[arg-type] # a function has a schema too
        object.__setattr__(self, "_adapter", adapter)
        object.__setattr__(self, "_context", context)

    @property
    def definition(self) -> Mapping[str, Any]:
        """What a model is told of the tool, as the Messages API takes it."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments, made from the function's signature unless given."""
        return self.schema or {"type": "object", "properties": {}, **self._adapter.json_schema()}

    async def call(self, arguments: Mapping[str, Any], context: Context | None = None) -> Output:
        """Run the tool; a plain function runs in a thread so that it cannot hold up the loop.

        context: for a function that takes one.
        Raises ToolError for arguments that do not fit, and whatever the function raises.
        """
        try:
            # What the model said is history, whatever the function does with it.
            checked = self._adapter.validate_python(ArgsKwargs((), deepcopy(dict(arguments))))
        except ValidationError as error:
            raise ToolError(f"invalid arguments: {_reasons(error)}") from error
        if self._context is not None:
            checked[self._context] = context
        if inspect.iscoroutinefunction(self.function):
            result = await self.function(**checked)
        else:
            result = await in_thread(lambda: self.function(**checked))
            result = await result if inspect.isawaitable(result) else result
        return result if isinstance(result, Output) else Output(str(result))

    async def call_within(
        self, seconds: float, arguments: Mapping[str, Any], context: Context | None = None
    ) -> Output | None:
        """Run the tool; None when the time is up, and it is left to itself if it takes no notice of being cancelled.

        A child is cancelled likewise, and then gives back what it gathered.
        Raises as `call` does.
        """
        work = asyncio.ensure_future(self._tried(arguments, context))
        try:
            await asyncio.wait([work], timeout=seconds)
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


async def in_thread(function: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the function returns
    """Run a blocking function in a thread of its own.

    The thread is a daemon: one that hangs is given up at a timeout or an abort, and cannot keep the program from
    ending, as a thread of the loop's own pool would.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:  # noqa: ANN401 - as above
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            # No future takes this one: it would end the waiting without a word.
            failure = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        with suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits any more
            loop.call_soon_threadsafe(settle, result, failure)

    Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return await future


def tool(function: Callable[..., Any]) -> Tool:
    """Make a tool of a function: its name, its docstring and its signature are what a model sees."""
    return Tool(function.__name__, inspect.getdoc(function) or function.__name__, function)


def _context_parameter(function: Callable[..., Any]) -> str | None:
    """Return the name of the parameter that takes the context; None where there is none."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):
        hints = {}
    return next((name for name, hint in hints.items() if hint is Context and name != "return"), None)


def _reasons(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors())


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

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(self._tools)
