"""Tools and toolsets: context, parameters, results, offers."""

import asyncio
import functools
import inspect
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, Protocol, Union, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ArgsKwargs, PydanticSerializationError, to_jsonable_python

from run_specialist.budget import Budget, Kind, Limit
from run_specialist.errors import ToolError, UsageError, errors_as
from run_specialist.record.events import Event
from run_specialist.record.journal import Record
from run_specialist.record.outcome import Child
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import names_tool, removes_tool
from run_specialist.tools import threads
from run_specialist.tools.threads import in_thread, is_cancelled


class RunLog(Protocol):
    """Receives what a tool reports about its call, besides its result."""

    def notify(self, event: Event) -> None:
        """Report an event to the observers of the run, and store it; credentials in its texts are masked."""

    @property
    def is_stored(self) -> bool:
        """Whether the run is stored, so that its changes can be undone later."""

    async def stored(self, record: Record) -> bool:
        """Store a record and wait until it is stored; return whether it was.

        Also True for a run that is not stored at all.
        """


class BudgetLender(Protocol):
    """Lends part of a run's budget to a child run."""

    def lend(self, wanted: Mapping[Kind, float | None], least: Mapping[Kind, float]) -> Mapping[Kind, float | None]:
        """Reserve budget for a child, at most its share of the remainder, and return the amounts.

        wanted: the child's own limits; None = no limit.
        least: minimum amounts, granted as long as the remainder covers them.
        """

    def settle(self, child: Child | None) -> None:
        """Charge the child's spending once and release the rest of the loan; None if the child never ran."""

    def warn(self, text: str) -> None:
        """Add a warning to the run's events and outcome; a repeated text is added only once."""

    def pass_on(self, event: Event) -> None:
        """Forward an event of the child to the run's observers."""


@dataclass(frozen=True, slots=True)
class Context:
    """Context of one tool call; a function receives it through a parameter of this type, hidden from the model."""

    run_id: str
    call_id: str
    budget: Budget
    """Budget at the start of the call; all calls of the same turn are already counted."""
    seconds: float
    """Timeout of the call [s]."""
    log: RunLog | None = field(default=None, repr=False, kw_only=True)
    """Receives events and records of the call; None outside a run."""

    def when_cancelled(self, call: Callable[[], object]) -> None:
        """Register a callback that runs once this call is cancelled, times out or returns.

        For functions that run in a thread: threads are not interrupted, so they must stop what they started, such as a
        process. Does nothing in coroutines, which are cancelled directly.
        """
        threads.when_cancelled(call)

    def left(self, kind: Kind | str = Kind.TOOL_CALLS) -> float | None:
        """Return the remaining amount of one kind; None if it has no limit.

        kind: `tool_calls`, `turns`, `tokens`, `cost` [USD], `time` [s] or `characters`.
        """
        return self.limit(kind).remaining

    def limit(self, kind: Kind | str) -> Limit:
        """Return limit and usage of one kind."""
        return self.budget[Kind(kind)]


@dataclass(frozen=True, slots=True)
class ChildContext(Context):
    """Context for tools whose calls are child runs, such as `delegate`."""

    lender: BudgetLender = field(repr=False)
    """Lends the child a share of the run's budget."""
    stopping: Callable[[Callable[[], object]], AbstractContextManager[None]] = field(repr=False)
    """Returns a context in which a function is called once when the run must stop after its turn."""
    steered: list[Callable[[str], object]] = field(repr=False)
    """Called with what the user adds to the run."""


_PREFIXES = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.POSITIONAL_ONLY: ""}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of a function as a model sees them."""

    schema: Mapping[str, Any]
    """JSON Schema of the arguments."""
    adapter: TypeAdapter[dict[str, Any]]
    context: str | None
    """Parameter that takes the context; hidden from the model."""

    def checked(self, arguments: Mapping[str, Any], context: Context | None) -> dict[str, Any]:
        """Return the validated arguments for the function, including the context.

        Raises ToolError for invalid arguments.
        """
        try:
            # The function may modify its arguments; the recorded call must not change.
            checked = self.adapter.validate_python(ArgsKwargs((), deepcopy(dict(arguments))))
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in error.errors()]
            raise ToolError(f"invalid arguments: {'; '.join(wrong)}") from error
        if self.context is not None:
            checked[self.context] = context
        return checked


# Parameters of methods by their function: each run binds the built-in tools' methods to new objects.
_METHOD_CACHE: WeakKeyDictionary[Callable[..., Any], Parameters] = WeakKeyDictionary()


def parameters_of(function: Callable[..., Any]) -> Parameters:
    """Return the parameters of a function; those of a method are cached for all objects of its class.

    Raises UsageError, with the names of the function and the parameter, if a model cannot call it.
    """
    if not inspect.ismethod(function):
        return _inspect(function)
    if function.__func__ not in _METHOD_CACHE:
        _METHOD_CACHE[function.__func__] = _inspect(function)
    return _METHOD_CACHE[function.__func__]


def _inspect(function: Callable[..., Any]) -> Parameters:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise UsageError(f"{name_of(function)}: cannot read its signature; wrap it in a Python function") from None
    fixed = function.keywords if isinstance(function, functools.partial) else {}
    accepted: list[inspect.Parameter] = []
    context: str | None = None
    for name, parameter in signature.parameters.items():
        if name in fixed:
            continue
        if parameter.kind in _PREFIXES:
            raise UsageError(
                f"{name_of(function)}: parameter {_PREFIXES[parameter.kind]}{name} cannot be passed by keyword, as "
                "models do; name each parameter, or bind it with functools.partial"
            )
        if name == "self" and parameter.annotation is parameter.empty:
            raise UsageError(f"{name_of(function)}: unbound method; create the tool from a bound method")
        try:
            hint = _resolve_annotation(function, parameter.annotation)
        except Exception as error:  # noqa: BLE001 - an annotation is an expression, and may raise anything
            # A `Context` is often imported under `TYPE_CHECKING` only.
            hint = str(parameter.annotation).replace(" ", "").removeprefix("run_specialist.")
            if hint not in {"Context", "Context|None", "Optional[Context]"}:
                raise UsageError(_schema_error(function, name, error)) from None
        if not _is_context(parameter, hint):
            accepted.append(parameter.replace(annotation=hint))
        elif context is None:
            context = name
        else:
            raise UsageError(f"{name_of(function)}: both {context} and {name} are a Context; keep one")
    adapter, schema = _build_adapter(function, signature.replace(parameters=accepted))
    # Omitted to save tokens: a model that passes unknown arguments gets an error.
    visible = {key: value for key, value in schema.items() if key != "additionalProperties"}
    return Parameters({"type": "object", "properties": {}, **visible}, adapter, context)


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the type of a callable object."""
    inner = function.func if isinstance(function, functools.partial) else function
    return str(getattr(inner, "__name__", type(inner).__name__))


def _is_context(parameter: inspect.Parameter, hint: Any) -> bool:  # noqa: ANN401 - an annotation, or the text of one
    if parameter.annotation is parameter.empty:
        return parameter.name == "ctx"
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    choices = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    return isinstance(hint, str) or any(isinstance(one, type) and issubclass(one, Context) for one in choices)


def _resolve_annotation(function: Callable[..., Any], annotation: Any) -> Any:  # noqa: ANN401 - an annotation, or its text
    if annotation is inspect.Parameter.empty:
        return Any
    # One at a time, so that an error names the parameter.
    inner = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    names = getattr(inner, "__globals__", None) or getattr(type(inner).__call__, "__globals__", {})
    return get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), names, include_extras=True)["it"]


def _build_adapter(
    function: Callable[..., Any], signature: inspect.Signature
) -> tuple[TypeAdapter[dict[str, Any]], Mapping[str, Any]]:
    # A stub with the same signature returns the validated arguments, and Python calls the real function: a thread
    # abandoned inside pydantic's native code would crash the program.
    def checked(**arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - as in the signature
        return arguments

    hints = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    checked.__signature__ = signature  # type: ignore[attr-defined] # functions allow it
    checked.__annotations__ = hints
    try:
        return _adapter_and_schema(checked)
    except Exception as error:  # noqa: BLE001 - a type may define its own schema, which may raise anything
        for name, hint in hints.items():
            try:
                _adapter_and_schema(hint)
            except Exception:  # noqa: BLE001 - as above
                raise UsageError(_schema_error(function, name, error)) from None
        raise UsageError(_schema_error(function, "", error)) from None


def _adapter_and_schema(it: Any) -> tuple[TypeAdapter[Any], Mapping[str, Any]]:  # noqa: ANN401 - a type, or a function
    adapter: TypeAdapter[Any] = TypeAdapter(it)
    return adapter, adapter.json_schema(schema_generator=_Schema)


def _schema_error(function: Callable[..., Any], parameter: str, error: Exception) -> str:
    subject = f"parameter {parameter}" if parameter else "its parameters"
    why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return f"{name_of(function)}: cannot create a JSON Schema for {subject}: {why}"


class _Schema(GenerateJsonSchema):
    """Omits what a model does not need: titles derived from names, and defaults without a JSON form."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as in the base class

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - pydantic's signature
        """Return False: titles would cost tokens in every request."""
        return False


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
    numbered: bool = False
    """Whether a result of several lines gets a name and line numbers, so that an answer can refer to its lines."""
    ends_itself: bool = False
    """Whether a call that is cancelled or timed out is awaited, because it must record what it has changed."""
    on_server: Mapping[str, Any] | None = None
    """Definition of a tool that the API runs itself; None for a tool that this program runs."""
    instead: "Tool | None" = None
    """The local tool's definition for an endpoint that does not run the tool itself; None if there is none."""
    _parameters: Parameters = field(init=False, repr=False, compare=False)
    takes_context: bool = field(init=False, repr=False, compare=False)
    """Whether the function has a parameter for the context of its call."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_parameters", parameters_of(self.function))
        object.__setattr__(self, "takes_context", self._parameters.context is not None)

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
            result = await in_thread(lambda: _drained(self.function(**validated)))
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
        work = asyncio.create_task(self._call_catching(arguments, context))
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


def _drained(result: Any) -> Any:  # noqa: ANN401 - any return value
    """Return the items of an iterator as a list, and any other value unchanged; may block like the function."""
    # An endless iterator stops once the call is abandoned.
    return list(takewhile(lambda _: not is_cancelled(), result)) if isinstance(result, Iterator) else result


def as_text(result: Any) -> str:  # noqa: ANN401 - any return value
    """Return text unchanged, None as an empty string, and everything else as JSON.

    Pydantic models, dataclasses, dates, sets etc. become their JSON equivalents; values without one become their `str`.
    Raises ToolError for values that cannot be serialized, e.g. a list that contains itself.
    """
    if isinstance(result, Enum):
        result = result.value
    if result is None:
        return ""
    if isinstance(result, str):
        return str(result)
    if isinstance(result, bytes | bytearray):
        return result.decode("utf-8", "replace")
    kinds = (PydanticSerializationError, TypeError, ValueError, RecursionError)
    with errors_as(ToolError, "what it returned is no text and cannot be written as JSON", *kinds):
        plain = to_jsonable_python(result, bytes_mode="utf8", serialize_unknown=True)
        return json.dumps(plain, ensure_ascii=False)


def few(names: Sequence[str], most: int) -> str:
    """Return the first names, at most `most`, separated by commas, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that can reach outside the root, change something, or run something."""

    name: str
    keys: tuple[str, ...]
    """Keys that determine what it may do; changing one of them requires trust again."""
    action: Callable[[Specialist], str]
    """Returns a description of its use for the user who must allow it, such as `fetch pages of example.com`."""
    make: Callable[[Specialist, Path], Tool]
    """Returns the tool of one run, given the folder that its file tools may read."""
    lacking: Callable[[Specialist, Path], str] = lambda *_: ""
    """Returns why it cannot be offered here, with what to do about it, in one clause; empty if it can."""

    def is_wanted(self, settings: Specialist) -> bool:
        """Return whether a file names the tool and does not disallow it; a pattern such as `*` names none."""
        return names_tool(settings.tools, self.name) and not removes_tool(settings.disallowed_tools, self.name)
