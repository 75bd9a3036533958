"""The decorator `tool`, and the functions that `python_tools` names."""

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, overload

from run_specialist.errors import UsageError, errors_as
from run_specialist.safety.redact import redact
from run_specialist.specialist.tool_names import DELEGATE, GET_TOOL_RESPONSE, RESERVED, RESPOND
from run_specialist.tools import project_modules
from run_specialist.tools.archive import SUMMARIZE
from run_specialist.tools.base import Tool, name_of
from run_specialist.tools.project_modules import CannotImport, Module, imported

_RESERVED = frozenset({RESPOND, GET_TOOL_RESPONSE, DELEGATE, SUMMARIZE})
_MCP_PREFIX = "mcp__"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """A function that a file declares, and the modules to import for it."""

    reference: str
    """`module:name`; the name is dotted for an attribute of an object."""
    chain: tuple[Module, ...]
    """The module, preceded by its parent packages."""
    imported: tuple[Module, ...]
    """Project modules that these import."""
    is_whole: bool
    """Whether all their imports are known."""

    @property
    def module(self) -> Module:
        """The module that contains the function."""
        return self.chain[-1]


def find(reference: str, root: Path) -> FoundFunction:
    """Find the module of a function without importing anything.

    Raises UsageError if it is missing or ambiguous.
    """
    with errors_as(UsageError, reference, CannotImport):
        chain = project_modules.find(reference.partition(":")[0], root)
        return FoundFunction(reference, chain, *imported(chain, root))


def load(found: FoundFunction, root: Path) -> Tool:
    """Import a function and return it as a tool; an object that already is a tool is returned unchanged.

    Raises UsageError, also for any exception of the module.
    """
    with errors_as(UsageError, found.reference, CannotImport, UsageError):
        try:
            value: Any = project_modules.load(found.chain, root, found.imported)
        except (CannotImport, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a module may raise anything, even SystemExit
            raise UsageError(f"importing {found.module.name} failed: {_describe_error(error)}") from None
        for name in found.reference.partition(":")[2].split("."):
            try:
                value = getattr(value, name)
            except Exception:  # noqa: BLE001 - `__getattr__` may raise anything
                similar = get_close_matches(name, [one for one in dir(value) if not one.startswith("_")], 3)
                hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
                raise UsageError(f"{found.module.name} has no {name}{hint}") from None
        return value if isinstance(value, Tool) else tool(value)


def check_name(
    place: str, name: str, others: Collection[str], reserved: Collection[str] = frozenset({*RESERVED, SUMMARIZE})
) -> None:
    """Raise UsageError if the name of a tool is reserved or already taken."""
    reason = "is already used by another function" if name in others else ""
    if name in reserved or name.startswith(_MCP_PREFIX):
        reason = "is reserved"
    if reason:
        raise UsageError(f'{place}: tool name {name} {reason}; choose another one: @tool(name="...")')


def _describe_error(error: BaseException) -> str:
    """Return an error on one line, with the file and line that raised it."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        place = f"{frames[-1].filename}:{frames[-1].lineno}"
    text = error.msg if isinstance(error, SyntaxError) else " ".join(redact(str(error)).split())
    return f"{type(error).__name__}{f': {text}' if text else ''} ({place})"


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
    make = functools.partial(_make_tool, name=name, description=description, timeout=timeout, repeatable=repeatable)
    return make if function is None else make(function)


def as_tools(tools: Iterable[Tool | Callable[..., Any]]) -> tuple[Tool, ...]:
    """Return a program's own tools; functions become tools.

    Raises UsageError for a duplicate or reserved name.
    """
    made: dict[str, Tool] = {}
    for one in tools:
        made_tool = one if isinstance(one, Tool) else tool(one)
        check_name("tools", made_tool.name, made, _RESERVED)
        made[made_tool.name] = made_tool
    return tuple(made.values())


def _make_tool(
    function: Callable[..., Any], *, name: str | None, description: str | None, timeout: float | None, repeatable: bool
) -> Tool:
    name = name_of(function) if name is None else name
    _check(function, name, timeout)
    made = Tool(name, "", function, repeatable, timeout=timeout)
    text, parameters = read(_docstring(function))
    properties = made.input_schema["properties"]
    described = {
        key: {"description": parameters[key], **value} if key in parameters else value
        for key, value in properties.items()
    }
    description = text if description is None else description
    schema = None if parameters.keys().isdisjoint(properties) else {**made.input_schema, "properties": described}
    return replace(made, description=description or name, schema=schema)


def _check(function: Any, name: str, timeout: float | None) -> None:  # noqa: ANN401 - any object
    inner = function.func if isinstance(function, functools.partial) else function
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


# Pattern of the parameter section in each docstring style.
_SECTIONS = {
    "GOOGLE": r"(?:Args|Arguments|Parameters|Params):[ \t]*\n(?:[ \t]+.*(?:\n|\Z)|[ \t]*\n)*",
    "NUMPYDOC": r"(?:Other )?Parameters[ \t]*\n-{3,}[ \t]*\n(?:(?!\S.*\n-{3,}).*(?:\n|(?<=.)\Z))*",
    "REST": r":(?:param|parameter|arg|argument|key|keyword|type)\b.*(?:\n|\Z)(?:[ \t]+.*(?:\n|\Z))*",
}


def read(text: str) -> tuple[str, Mapping[str, str]]:
    """Return a docstring without its parameter section, and the description of each parameter on one line.

    A docstring in another style than that of Google, NumPy or Sphinx is returned as it is.
    text: the docstring without the indentation of the code.
    """
    import docstring_parser  # noqa: PLC0415 - takes 30 ms, and only custom tools need it

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return text, {}
    section = _SECTIONS.get(parsed.style.name) if parsed.style and parsed.params else None
    if section is None:
        return text, {}
    rest = re.sub(rf"^{section}", "", text, flags=re.MULTILINE)
    # One line may describe several parameters.
    named = ((name.strip(), one.description) for one in parsed.params for name in one.arg_name.split(","))
    parameters = {name: " ".join(meaning.split()) for name, meaning in named if meaning}
    return re.sub(r"\n{3,}", "\n\n", rest).strip(), parameters
