"""Make one change to a file: computed from its content, recorded, then written atomically."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from run_specialist.errors import ToolError
from run_specialist.record.events import FileChanged, Warned
from run_specialist.record.journal import FileChanging
from run_specialist.safe_files.safe_write import Changed, digest_of, replace_file, temporary_name
from run_specialist.tools.base import Output
from run_specialist.tools.context import Context, RunLog
from run_specialist.tools.editing.file_checkpoint import EVENT_DIFF, CommandChanges
from run_specialist.tools.editing.text_edit import MOST, decoded, encoded
from run_specialist.tools.editing.unified_diff import Diff, diff_of, shortened
from run_specialist.tools.editing.working_copy import WorkingCopy
from run_specialist.tools.editing.writable import Writable
from run_specialist.tools.sandbox.sandbox import escape_path
from run_specialist.tools.threads import in_thread

RESULT_DIFF = 4_000
"""Maximum length of the diff in a result [characters]."""
_READ_FIRST = (
    "{} was not read yet in this run; read it first, so that you change what is there now "
    "(after a run was resumed, files must be read again)"
)
_READ_AGAIN = "{} was changed since you read it; read it again"
_NOT_STORED = (
    "nothing was changed: the store of runs cannot be written, and without it a change could not be taken back"
)
_DRY = "in the patch of this dry run only; `read` shows the new content, the other tools the old one"

_NOT_UNDONE = "`specialists undo` does not take them back"
_NAMED = 5
"""Number of files that a warning names."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A possible change."""

    relative: str
    before: bytes | None
    """Content before the change; None if the file does not exist."""
    after: bytes
    diff: Diff
    folders: int = 0
    """Number of parent folders that are missing."""

    @property
    def record(self) -> FileChanging:
        """The record that is stored before the change is made."""
        before = self.before
        return FileChanging(
            change_id=secrets.token_hex(8),
            path=self.relative,
            before=None if before is None else digest_of(before),
            after=digest_of(self.after),
            content=None if before is None else before.decode(),
            temporary=temporary_name(),
            folders=self.folders,
        )


class FileEditor:
    """Makes the changes of one run, one after the other."""

    def __init__(self, writable: Writable, copy: WorkingCopy) -> None:
        self._writable = writable
        self._copy = copy
        self._one_at_a_time = asyncio.Lock()

    async def make(self, path: str, revise: Callable[[str | None], str], context: Context | None) -> Output:
        """Change a file, and return the result for the model.

        revise: returns the new content, given the current one; None = there is no such file.
        Raises ToolError with the reason if nothing was changed.
        """
        async with self._one_at_a_time:
            planned = await in_thread(lambda: self._plan(path, revise))
            if self._copy.patch is not None:
                self._copy.patch.change(self._copy.root, planned.relative, planned.before, planned.after)
                return self._made(planned, context)
            record = planned.record
            if context is not None and context.log is not None and not await context.log.stored(record):
                raise ToolError(_NOT_STORED)
            return await to_the_end(
                in_thread(lambda: self._write(planned, record)), lambda: self._made(planned, context)
            )

    def _plan(self, path: str, revise: Callable[[str | None], str]) -> PlannedChange:
        relative = self._writable.locate(path)
        shown = escape_path(relative)
        try:
            before = self._copy.content(relative)
        except OSError as error:
            raise ToolError(f"{shown} cannot be changed: {error.strerror or error}") from error
        if before is not None:
            known = self._copy.known(relative)
            if known is None:
                raise ToolError(_READ_FIRST.format(shown))
            if known != digest_of(before):
                raise ToolError(_READ_AGAIN.format(shown))
        try:
            text = None if before is None else decoded(before)
            after = encoded(revise(text))
        except ToolError as error:
            raise ToolError(f"{shown}: {error}") from error
        if after == before:
            raise ToolError(f"{shown} has this content already; nothing was changed")
        folders = 0 if before is not None else _missing_folders(self._writable.root, relative)
        return PlannedChange(relative, before, after, diff_of(relative, text, after.decode()), folders)

    def _write(self, planned: PlannedChange, record: FileChanging) -> None:
        try:
            replace_file(
                self._writable.root,
                planned.relative,
                planned.after,
                expected=record.before,
                temporary=record.temporary,
                most=MOST,
            )
        except OSError as error:
            hint = "; read it again" if isinstance(error, Changed) else ""
            shown = escape_path(planned.relative)
            raise ToolError(f"{shown} was not changed: {error.strerror or error}{hint}") from error

    def _made(self, planned: PlannedChange, context: Context | None) -> Output:
        """Report a change, and return its result."""
        is_new, diff, is_dry = planned.before is None, planned.diff, self._copy.patch is not None
        self._copy.knows(planned.relative, planned.after)
        self._copy.changes += 1
        if context is not None and context.log is not None:
            text = shortened(diff.text, EVENT_DIFF)
            context.log.notify(
                FileChanged(
                    context.call_id,
                    planned.relative,
                    text,
                    diff.added,
                    diff.removed,
                    is_new,
                    is_dry,
                    change="created" if is_new else "changed",
                    undoable=context.log.is_stored and not is_dry,
                )
            )
        head = f"{'Created' if is_new else 'Changed'} {escape_path(planned.relative)} ({diff.counts} lines)"
        return Output(f"{head}{f', {_DRY}' if is_dry else ''}\n{shortened(diff.text, RESULT_DIFF)}".rstrip("\n"))


async def report_changes(changes: CommandChanges, log: RunLog | None) -> bool:
    """Store and report what a command has changed; return whether the changes are stored, or never will be."""
    if log is None:
        return True
    stored = await asyncio.gather(*(log.stored(one.record) for one in changes.files))
    for one, is_stored in zip(changes.files, stored, strict=True):
        log.notify(replace(one.event, undoable=one.event.undoable and is_stored and log.is_stored))
    if changes.undone:
        shown = ", ".join(map(escape_path, changes.undone[:_NAMED]))
        more = f" and {len(changes.undone) - _NAMED} more" if len(changes.undone) > _NAMED else ""
        log.notify(Warned(f"a command changed protected files, which was undone: {shown}{more}"))
    if changes.uncounted:
        log.notify(Warned(f"a command changed {changes.uncounted:,} more files, which are not listed; {_NOT_UNDONE}"))
    if changes.unsearched:
        log.notify(Warned(f"a command made {changes.unsearched:,} folders that cannot be searched; delete them"))
    return all(stored)


def _missing_folders(root: Path, relative: str) -> int:
    """Return the number of parent folders that do not exist yet."""
    above = relative.split("/")[:-1]
    return sum(not os.path.lexists(root.joinpath(*above[: depth + 1])) for depth in range(len(above)))


async def to_the_end(work: Awaitable[object], then: Callable[[], _T]) -> _T:
    """Await work that must not be interrupted, then return its result; a cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
        except ToolError:
            break
    task.result()
    result = then()
    if cancelled is not None:
        raise cancelled
    return result
