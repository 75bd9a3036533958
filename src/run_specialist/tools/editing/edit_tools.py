"""The tools `edit` and `write`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import EDIT, NEEDS_WRITABLE, WRITE
from run_specialist.tools.base import Output, Tool
from run_specialist.tools.context import Context
from run_specialist.tools.editing.change import FileEditor
from run_specialist.tools.editing.text_edit import Replacement, edited, rewritten
from run_specialist.tools.editing.working_copy import WorkingCopy
from run_specialist.tools.editing.writable import Writable
from run_specialist.tools.offer import Offer

_EDIT = (
    "Replace passages of a file that you have read. `old` is the passage, copied exactly, without the line numbers "
    "that `read` prints, and long enough to occur only once; or set replace_all. For several changes of one file give "
    "`edits`: they are made one after the other, all or none. Returns what was changed."
)
_WRITE = (
    "Write a whole file: a new one, or one that you have read, whose content is replaced. Missing folders are created. "
    "To change a part of a file use `edit`, if you have it. Returns what was changed."
)
_CLOSED = "this run continues a dry run, whose changes are not kept; make changes in a new run"

_PASSAGE: Mapping[str, Any] = {
    "old": {"type": "string", "description": "The passage to replace; empty only for a file that does not exist."},
    "new": {"type": "string", "description": "What replaces it."},
    "replace_all": {"type": "boolean", "default": False, "description": "Replace every occurrence."},
}
_PATH: Mapping[str, Any] = {"type": "string", "description": "A file, as the other tools print its path."}
_EDIT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": _PATH,
        **_PASSAGE,
        "edits": {
            "type": "array",
            "description": "Several replacements, in place of `old` and `new`.",
            "items": {"type": "object", "properties": _PASSAGE, "required": ["old", "new"]},
        },
    },
    "required": ["path"],
}
_WRITE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"path": _PATH, "content": {"type": "string", "description": "The whole new content."}},
    "required": ["path", "content"],
}


class EditTools:
    """The tool functions of one run."""

    def __init__(self, writable: Writable, copy: WorkingCopy) -> None:
        self._changes = FileEditor(writable, copy)
        self._copy = copy

    async def edit(  # noqa: PLR0913, PLR0917 - chosen by a model, always by keyword
        self,
        context: Context,
        path: str,
        old: str | None = None,
        new: str | None = None,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - called by keyword
        edits: list[Replacement] | None = None,
    ) -> Output:
        """Replace passages of a file."""
        replacements = _replacements(old, new, edits, replace_all=replace_all)
        return await self._changes.make(path, lambda before: _revised(before, replacements), context)

    async def write(self, context: Context, path: str, content: str) -> Output:
        """Write a whole file."""
        return await self._changes.make(path, lambda before: rewritten(before, content), context)


def editing_offers(copy: WorkingCopy) -> tuple[Offer, ...]:
    """Return the offers of the tools that change files.

    copy: the files that the run has read and changed.
    """
    closed = copy.patch is not None and copy.patch.is_closed
    made: dict[tuple[str, ...], EditTools] = {}

    def tools_of(settings: Specialist, root: Path) -> EditTools:
        # Both tools change files one after the other.
        if settings.writable not in made:
            writable = Writable(root, settings.writable, copy.closed())
            made[settings.writable] = EditTools(writable, copy)
        return made[settings.writable]

    def edit(settings: Specialist, root: Path) -> Tool:
        return Tool(EDIT, _EDIT, _refused if closed else tools_of(settings, root).edit, schema=_EDIT_SCHEMA)

    def write(settings: Specialist, root: Path) -> Tool:
        return Tool(WRITE, _WRITE, _refused if closed else tools_of(settings, root).write, schema=_WRITE_SCHEMA)

    keys = ("writable",)
    return (Offer(EDIT, keys, _action, edit, _lacking), Offer(WRITE, keys, _action, write, _lacking))


def _action(settings: Specialist) -> str:
    return f"change files: {', '.join(settings.writable)}"


def _lacking(settings: Specialist, _root: Path) -> str:
    return "" if settings.writable else f"it {NEEDS_WRITABLE}: the folders, files or globs that it may change"


def _refused(**arguments: Any) -> str:  # noqa: ANN401 - the model may give any arguments
    del arguments
    raise ToolError(_CLOSED)


def _replacements(
    old: str | None, new: str | None, edits: Sequence[Replacement] | None, *, replace_all: bool
) -> Sequence[Replacement]:
    if edits:
        # Constrained decoding makes a model write a value for each argument.
        if old or new:
            raise ToolError("give either `old` and `new`, or `edits`")
        return edits
    if old is None or new is None:
        raise ToolError("`old` and `new` are required, or `edits`")
    return [Replacement(old, new, replace_all)]


def _revised(before: str | None, replacements: Sequence[Replacement]) -> str:
    if before is not None:
        return edited(before, replacements)
    if len(replacements) == 1 and not replacements[0].old:
        return replacements[0].new
    raise ToolError("there is no such file; use ls or glob to see what there is")
