"""Project functions as tools, declared in `python_tools`."""

import traceback
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.redaction import redact
from run_specialist.specialist.tool_names import RESERVED
from run_specialist.tools import importing, modules
from run_specialist.tools.archive import SUMMARIZE
from run_specialist.tools.base import Tool
from run_specialist.tools.decorator import tool
from run_specialist.tools.imports import ImportedModules, imported
from run_specialist.tools.modules import CannotImport, Module

_RESERVED = frozenset({*RESERVED, SUMMARIZE})
_MCP_PREFIX = "mcp__"


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """A function that a file declares, and the modules to import for it."""

    reference: str
    """`module:name`; the name is dotted for an attribute of an object."""
    chain: tuple[Module, ...]
    """The module, preceded by its parent packages."""
    imported: ImportedModules
    """Project modules that these import."""

    @property
    def module(self) -> Module:
        """The module that contains the function."""
        return self.chain[-1]


def find(reference: str, root: Path) -> FoundFunction:
    """Find the module of a function without importing anything.

    Raises UsageError if it is missing or ambiguous.
    """
    try:
        chain = modules.find(reference.partition(":")[0], root)
        return FoundFunction(reference, chain, imported(chain, root))
    except CannotImport as error:
        raise UsageError(f"{reference}: {error}") from None


def load(found: FoundFunction, root: Path) -> Tool:
    """Import a function and return it as a tool; an object that already is a tool is returned unchanged.

    Raises UsageError, also for any exception of the module.
    """
    try:
        value: Any = importing.load(found.chain, root, found.imported.modules)
    except CannotImport as error:
        raise UsageError(f"{found.reference}: {error}") from None
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, even SystemExit
        raise UsageError(f"{found.reference}: importing {found.module.name} failed: {_describe_error(error)}") from None
    for name in found.reference.partition(":")[2].split("."):
        value = _attribute(value, name, found)
    try:
        return value if isinstance(value, Tool) else tool(value)
    except UsageError as error:
        raise UsageError(f"{found.reference}: {error}") from None


def _attribute(value: Any, name: str, found: FoundFunction) -> Any:  # noqa: ANN401 - a module or any attribute
    try:
        return getattr(value, name)
    except Exception:  # noqa: BLE001 - `__getattr__` may raise anything
        similar = get_close_matches(name, [one for one in dir(value) if not one.startswith("_")], 3)
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        raise UsageError(f"{found.reference}: {found.module.name} has no {name}{hint}") from None


def check_name(found: FoundFunction, made: Tool, others: Collection[str]) -> None:
    """Raise UsageError if the name of a tool is reserved or already taken."""
    if made.name in _RESERVED or made.name.startswith(_MCP_PREFIX):
        reason = "is reserved for MCP tools" if made.name.startswith(_MCP_PREFIX) else "is reserved"
    elif made.name in others:
        reason = "is already used by another function in python_tools"
    else:
        return
    raise UsageError(f'{found.reference}: tool name {made.name} {reason}; choose another one: @tool(name="...")')


def _describe_error(error: BaseException) -> str:
    """Return an error on one line, with the file and line that raised it."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        place = f"{frames[-1].filename}:{frames[-1].lineno}"
    text = error.msg if isinstance(error, SyntaxError) else " ".join(redact(str(error)).split())
    return f"{type(error).__name__}{f': {text}' if text else ''} ({place})"
