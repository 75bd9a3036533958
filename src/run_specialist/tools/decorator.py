"""The `@tool` decorator, which turns a function into a tool."""

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

_RESERVED = frozenset({RESPOND, ARCHIVE, DELEGATE, SUMMARIZE})
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
    """Turn a function into a tool: a model sees its name, its docstring and its parameters.

    name: overrides the function's name.
    description: overrides the docstring without its parameter section.
    timeout: timeout of one call; overrides the specialist's `tool_timeout` [s].
    repeatable: whether an identical call in the same run may be answered from the record.
    Raises UsageError for a function that a model cannot call.
    """
    if function is None:
        return lambda function: _make_tool(function, name, description, timeout, repeatable=repeatable)
    return _make_tool(function, name, description, timeout, repeatable=repeatable)


def as_tools(tools: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    """Return a program's own tools; functions become tools.

    Raises UsageError for a duplicate or reserved name.
    """
    made: dict[str, Tool] = {}
    for one in tools:
        made_tool = one if isinstance(one, Tool) else tool(one)
        if made_tool.name in _RESERVED or made_tool.name.startswith("mcp__"):
            raise UsageError(f'{made_tool.name}: reserved tool name; choose another one: @tool(name="...")')
        if made_tool.name in made:
            raise UsageError(f'{made_tool.name}: duplicate tool name; rename one of the tools: @tool(name="...")')
        made[made_tool.name] = made_tool
    return tuple(made.values())


def _make_tool(
    function: Callable[..., Any], name: str | None, description: str | None, timeout: float | None, *, repeatable: bool
) -> Tool:
    name = name_of(function) if name is None else name
    _check(function, name, timeout)
    made = Tool(name, "", function, repeatable, timeout=timeout)
    properties = made.input_schema["properties"]
    docstring = read(_docstring(function))
    descriptions = {
        key: {"description": docstring.parameters[key]} for key in properties if key in docstring.parameters
    }
    schema = {
        **made.input_schema,
        "properties": {key: descriptions.get(key, {}) | value for key, value in properties.items()},
    }
    description = docstring.description if description is None else description
    return Tool(name, description or name, function, repeatable, schema if descriptions else None, timeout)


def _check(function: Any, name: str, timeout: float | None) -> None:  # noqa: ANN401 - any object
    inner = function.func if isinstance(function, functools.partial) else function
    if isinstance(function, Tool):
        raise UsageError(f"{name}: is already a tool")
    if not callable(function) or inspect.isclass(function):
        actual = "a class" if inspect.isclass(function) else f"an object of type {type(function).__name__}"
        raise UsageError(f"{name}: expected a function, got {actual}")
    if inspect.isasyncgenfunction(inner) or inspect.isasyncgenfunction(type(inner).__call__):
        raise UsageError(f"{name}: asynchronous generators are not supported; return the complete result instead")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r}: invalid tool name; use at most 64 letters, digits, _ and -")
    if timeout is not None and not timeout > 0:
        raise UsageError(f"{name}: timeout must be a positive number of seconds, got {timeout}")


def _docstring(function: Callable[..., Any]) -> str:
    if isinstance(function, functools.partial):
        return _docstring(function.func)
    # For a callable object, the docstring of `__call__` describes the action better than that of the class.
    plain = inspect.isroutine(function) or hasattr(function, "__wrapped__")
    return inspect.getdoc(function if plain else type(function).__call__) or inspect.getdoc(function) or ""
