"""Make a tool of a function of one's own: `@tool`."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, overload

from run_specialist.errors import UsageError
from run_specialist.tools.archive import NAME as ARCHIVE
from run_specialist.tools.archive import SUMMARIZE
from run_specialist.tools.base import Tool
from run_specialist.tools.delegate_tool import NAME as DELEGATE
from run_specialist.tools.docstring import read
from run_specialist.tools.parameters import name_of
from run_specialist.tools.respond import NAME as RESPOND

_NEEDED = frozenset({RESPOND, ARCHIVE, DELEGATE, SUMMARIZE})
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, timeout: float | None = None, repeatable: bool = False
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    repeatable: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: a model sees its name, its docstring and its parameters.

    name: in place of the function's.
    description: in place of the docstring without its section on parameters.
    timeout: what one call may take, in place of the specialist's `tool_timeout` [s].
    repeatable: whether an identical call in the same run may be answered from the record.
    Raises UsageError for a function that no model could call.
    """
    if function is None:
        return lambda function: _made(function, name, description, timeout, repeatable=repeatable)
    return _made(function, name, description, timeout, repeatable=repeatable)


def given(tools: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    """Return the tools that a program gives to its specialists; functions become tools.

    Raises UsageError where two have one name, or one has that of a tool that a run cannot do without.
    """
    made: dict[str, Tool] = {}
    for one in tools:
        it = one if isinstance(one, Tool) else tool(one)
        if it.name in _NEEDED or it.name.startswith("mcp__"):
            raise UsageError(f'{it.name} is the name of a tool of ours; give yours another: @tool(name="...")')
        if it.name in made:
            raise UsageError(f'two tools are called {it.name}; give one of them another name: @tool(name="...")')
        made[it.name] = it
    return tuple(made.values())


def _made(
    function: Callable[..., Any], name: str | None, description: str | None, timeout: float | None, *, repeatable: bool
) -> Tool:
    name = name_of(function) if name is None else name
    _check(function, name, timeout)
    made = Tool(name, "", function, repeatable, timeout=timeout)
    properties = made.input_schema["properties"]
    docstring = read(_docstring(function))
    told = {key: {"description": docstring.parameters[key]} for key in properties if key in docstring.parameters}
    schema = {**made.input_schema, "properties": {key: told.get(key, {}) | value for key, value in properties.items()}}
    description = docstring.description if description is None else description
    return Tool(name, description or name, function, repeatable, schema if told else None, timeout)


def _check(function: Any, name: str, timeout: float | None) -> None:  # noqa: ANN401 - whatever was named
    inner = function.func if isinstance(function, functools.partial) else function
    if isinstance(function, Tool):
        raise UsageError(f"{name}: is a tool already")
    if not callable(function) or inspect.isclass(function):
        what = "a class" if inspect.isclass(function) else f"of the type {type(function).__name__}"
        raise UsageError(f"{name}: is {what}; a tool is made of a function")
    if inspect.isasyncgenfunction(inner) or inspect.isasyncgenfunction(type(inner).__call__):
        raise UsageError(f"{name}: is an asynchronous generator; return the whole result in place of yielding parts")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r}: a tool's name is made of at most 64 letters, digits, _ and -; give it another")
    if timeout is not None and not timeout > 0:
        raise UsageError(f"{name}: timeout: wanted seconds above 0, found {timeout}")


def _docstring(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        return _docstring(function.func)
    # An object's class tells what it is; its `__call__` what it does.
    plain = inspect.isroutine(function) or hasattr(function, "__wrapped__")
    return inspect.getdoc(function if plain else type(function).__call__) or inspect.getdoc(function) or ""
