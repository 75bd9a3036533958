"""Functions of a project as tools: what `python_tools` names."""

import traceback
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.redaction import redact
from run_specialist.specialist.tool_names import BUILT_IN
from run_specialist.tools import importing, modules
from run_specialist.tools.archive import SUMMARIZE
from run_specialist.tools.base import Tool
from run_specialist.tools.decorator import tool
from run_specialist.tools.imports import Imported, imported
from run_specialist.tools.modules import CannotImport, Module

_OURS = frozenset({*BUILT_IN, SUMMARIZE})
_SERVED = "mcp__"


@dataclass(frozen=True, slots=True)
class FoundFunction:
    """A function that a file names, with the modules that have to be imported for it."""

    reference: str
    """`module:name`, the name with points where it stands inside of something."""
    chain: tuple[Module, ...]
    """The module, behind the packages that hold it."""
    imported: Imported
    """What these import of the project."""

    @property
    def module(self) -> Module:
        """The one that holds the function."""
        return self.chain[-1]


def find(reference: str, root: Path) -> FoundFunction:
    """Look for the module of a function; nothing is imported.

    Raises UsageError where it is not there.
    """
    try:
        chain = modules.find(reference.partition(":")[0], root)
        return FoundFunction(reference, chain, imported(chain, root))
    except CannotImport as error:
        raise UsageError(f"{reference}: {error}") from None


def load(found: FoundFunction, root: Path) -> Tool:
    """Import what was found and return the tool that it is, or that is made of the function.

    Raises UsageError, also for whatever is raised by the module.
    """
    try:
        it: Any = importing.load(found.chain, root, found.imported.modules)
    except CannotImport as error:
        raise UsageError(f"{found.reference}: {error}") from None
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, even what would end the program
        raise UsageError(f"{found.reference}: importing {found.module.name} failed: {_words(error)}") from None
    for name in found.reference.partition(":")[2].split("."):
        it = _inside(it, name, found)
    try:
        return it if isinstance(it, Tool) else tool(it)
    except UsageError as error:
        raise UsageError(f"{found.reference}: {error}") from None


def _inside(it: Any, name: str, found: FoundFunction) -> Any:  # noqa: ANN401 - a module, or whatever stands in it
    try:
        return getattr(it, name)
    except Exception:  # noqa: BLE001 - a module may look its names up by code of its own
        near = get_close_matches(name, [one for one in dir(it) if not one.startswith("_")], 3)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"{found.reference}: {found.module.name} has no {name}{meant}") from None


def check_name(found: FoundFunction, made: Tool, others: Collection[str]) -> None:
    """Raise UsageError where the name of a tool is one of ours, or that of another one."""
    if made.name in _OURS or made.name.startswith(_SERVED):
        whose = "is kept for the tools of MCP servers" if made.name.startswith(_SERVED) else "is a tool of ours"
    elif made.name in others:
        whose = "is another one of python_tools too"
    else:
        return
    raise UsageError(f'{found.reference}: {made.name} {whose}; give it another name: @tool(name="...")')


def _words(error: BaseException) -> str:
    """Return an error on one line, with the place where it was raised."""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
        place = f"{frames[-1].filename}:{frames[-1].lineno}"
    text = error.msg if isinstance(error, SyntaxError) else " ".join(redact(str(error)).split())
    return f"{type(error).__name__}{f': {text}' if text else ''} ({place})"
