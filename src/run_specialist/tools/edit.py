"""The tools `edit` and `write`: writable paths, dry runs, and undoing the changes of a run."""

import asyncio
import os
import secrets
import stat
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from run_specialist.errors import ToolError, errors_as
from run_specialist.record.events import FileChanged, Warned
from run_specialist.record.journal import FileChanging
from run_specialist.safety import safe_files
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.tool_names import EDIT, NEEDS_WRITABLE, WRITE
from run_specialist.tools import text_edit
from run_specialist.tools.base import Context, Offer, Output, RunLog, Tool, few
from run_specialist.tools.file_checkpoint import EVENT_DIFF, CommandChanges
from run_specialist.tools.sandbox import Sandbox, escape_path
from run_specialist.tools.secret_files import is_protected_from_commands, is_secret, own_folders, reason_to_protect
from run_specialist.tools.text_edit import NO_DIFF, Diff, Replacement
from run_specialist.tools.threads import in_thread


class Patch:
    """The changes of a dry run and its child runs, kept in memory."""

    def __init__(self, *, is_closed: bool = False) -> None:
        """Start without changes.

        is_closed: whether to refuse changes, because the run continues a dry run whose changes were not kept.
        """
        self.is_closed = is_closed
        # Old and new content, by root and path.
        self._files: dict[tuple[Path, str], tuple[bytes | None, bytes]] = {}

    def content(self, root: Path, relative: str) -> bytes | None:
        """Return the content of a changed file; None if it is not changed."""
        return self._files.get((root, relative), (None, None))[1]

    def change(self, root: Path, relative: str, before: bytes | None, after: bytes) -> None:
        """Add a change of a file.

        before: the content on the disk; None if there is no such file.
        """
        self._files[root, relative] = self._files.get((root, relative), (before, b""))[0], after

    def text(self) -> str:
        """Return all changes as one patch, which `git apply` accepts; empty if there are none."""
        return "".join(
            text_edit.diff_of(relative, None if before is None else before.decode(), after.decode()).text
            for (_, relative), (before, after) in sorted(self._files.items())
        )


class WorkingCopy:
    """The files of one run, as it has read and changed them."""

    def __init__(self, root: Path, patch: Patch | None = None, closed: Callable[[], tuple[Path, ...]] = tuple) -> None:
        """Begin with nothing read.

        patch: takes the changes of a dry run; None = they are made on the disk.
        closed: returns real paths of files and folders that may not be changed in any case.
        """
        self.root = Path(os.path.realpath(root))
        self.patch = patch
        self.closed = closed
        self.changes = 0
        """Number of changes made; a search index built earlier is outdated."""
        self.known: dict[str, str] = {}
        """Digests of the files as the run last read or wrote them."""
        self.one_at_a_time = asyncio.Lock()

    def content(self, relative: str) -> bytes | None:
        """Return the content of a file as the run sees it; None if there is no such file.

        Raises OSError, also for a file that is too large to be changed.
        """
        changed = None if self.patch is None else self.patch.content(self.root, relative)
        return safe_files.read_content(self.root, relative, text_edit.MOST) if changed is None else changed

    def readable(self, relative: str) -> bytes | None:
        """Return the content of a file for display; None if it cannot be read or changed."""
        with suppress(OSError):
            return self.content(relative)
        return None

    def keeps(self, relative: str) -> bool:
        """Return whether a dry run has changed, or created, a file."""
        return self.patch is not None and self.patch.content(self.root, relative) is not None

    def knows(self, relative: str, data: bytes) -> None:
        """Record that the run has read or written a file with this content."""
        self.known[relative] = safe_files.digest_of(data)


_OWN = "{!r} may not be changed: it belongs to the specialists and settings of the user"


_EDIT = (
    "Replace passages of a file that you have read. `old` is the passage, copied exactly, without the line numbers "
    "that `read` prints, and long enough to occur only once; or set replace_all. For several changes of one file give "
    "`edits`: they are made one after the other, all or none. Returns what was changed."
)
_WRITE = (
    "Write a whole file: a new one, or one that you have read, whose content is replaced. Missing folders are created. "
    "To change a part of a file use `edit`, if you have it. Returns what was changed."
)

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


class EditTools:
    """The tool functions of one run; they make its changes one after the other."""

    def __init__(self, root: Path, writable: Sequence[str], copy: WorkingCopy) -> None:
        """Select the files that may be changed.

        writable: folders, files or globs below the root; empty = none.
        Raises UsageError for a path outside the root.
        """
        self._selected = Sandbox(root, writable, "writable")
        self._allowed = f"you may change {', '.join(writable) or 'nothing'}"
        self._is_any = bool(writable)
        self._closed = copy.closed()
        self._copy = copy

    def _locate(self, path: str) -> str:
        """Return a path relative to the root, its symlinks resolved; the file need not exist.

        Raises ToolError if it may not be changed.
        """
        self._selected.require_root()
        relative = self._selected.relative(self._selected.resolve(path))
        if relative is None:
            raise ToolError(f"{escape_path(path)!r} is outside the root; {self._allowed}")
        shown = escape_path(relative)
        if not relative:
            raise ToolError(f"'.' is a folder; {self._allowed}")
        if why := reason_to_protect(relative):
            raise ToolError(f"{shown!r} may not be changed: {why}")
        if not relative.isprintable() or not self._selected.is_short_enough(f"{relative}{'x' * 50}"):
            raise ToolError(f"{shown!r} is no usable path: it is too long, or has characters that cannot be printed")
        real = self._selected.root / relative
        if any(real.is_relative_to(one) for one in self._closed):
            raise ToolError(_OWN.format(shown))
        if not self._is_any or not self._selected.is_selected(relative, is_folder=False):
            raise ToolError(f"{shown!r} may not be changed; {self._allowed}")
        return relative

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
        # Constrained decoding makes a model write a value for each argument.
        if edits and (old or new):
            raise ToolError("give either `old` and `new`, or `edits`")
        if not edits and (old is None or new is None):
            raise ToolError("`old` and `new` are required, or `edits`")
        replacements = edits or [Replacement(old or "", new or "", replace_all)]

        def revise(before: str | None) -> str:
            if before is not None:
                return text_edit.edited(before, replacements)
            if len(replacements) == 1 and not replacements[0].old:
                return replacements[0].new
            raise ToolError("there is no such file; use ls or glob to see what there is")

        return await self._change(path, revise, context)

    async def write(self, context: Context, path: str, content: str) -> Output:
        """Write a whole file."""
        return await self._change(path, lambda before: text_edit.rewritten(before, content), context)

    async def _change(self, path: str, revise: Callable[[str | None], str], context: Context) -> Output:
        """Change a file, and return the result for the model.

        revise: returns the new content, given the current one; None = there is no such file.
        Raises ToolError with the reason if nothing was changed.
        """
        log, patch = context.log, self._copy.patch
        if patch is not None and patch.is_closed:
            raise ToolError("this run continues a dry run, whose changes are not kept; make changes in a new run")
        async with self._copy.one_at_a_time:
            record, before, after, diff = await in_thread(lambda: self._plan(path, revise))
            if patch is None and log is not None and not await log.stored(record):
                raise ToolError(_NOT_STORED)

            async def change() -> Output:
                if patch is None:
                    await in_thread(lambda: self._write(record, after))
                else:
                    patch.change(self._copy.root, record.path, before, after)
                is_new, is_dry = before is None, patch is not None
                self._copy.knows(record.path, after)
                self._copy.changes += 1
                if log is not None:
                    shown = text_edit.shortened(diff.text, EVENT_DIFF)
                    event = FileChanged(context.call_id, record.path, shown, diff.added, diff.removed, is_new, is_dry)
                    undoable = log.is_stored and not is_dry
                    log.notify(replace(event, change="created" if is_new else "changed", undoable=undoable))
                head = f"{'Created' if is_new else 'Changed'} {escape_path(record.path)} ({diff.counts} lines)"
                lines = text_edit.shortened(diff.text, RESULT_DIFF)
                return Output(f"{head}{f', {_DRY}' if is_dry else ''}\n{lines}".rstrip("\n"))

            return await to_the_end(change())

    def _plan(self, path: str, revise: Callable[[str | None], str]) -> tuple[FileChanging, bytes | None, bytes, Diff]:
        """Return the record of a possible change, with the content before and after it, and their difference."""
        relative = self._locate(path)
        shown = escape_path(relative)
        with errors_as(ToolError, f"{shown} cannot be changed", OSError):
            before = self._copy.content(relative)
        digest = None if before is None else safe_files.digest_of(before)
        if digest is not None and self._copy.known.get(relative) != digest:
            raise ToolError((_READ_AGAIN if relative in self._copy.known else _READ_FIRST).format(shown))
        with errors_as(ToolError, shown, ToolError):
            text = None if before is None else text_edit.decoded(before)
            after = text_edit.encoded(revise(text))
        if after == before:
            raise ToolError(f"{shown} has this content already; nothing was changed")
        above = relative.split("/")[:-1] if before is None else []
        folders = (self._selected.root.joinpath(*above[: depth + 1]) for depth in range(len(above)))
        missing = sum(not os.path.lexists(folder) for folder in folders)
        new, temporary = safe_files.digest_of(after), safe_files.temporary_name()
        record = FileChanging(secrets.token_hex(8), relative, digest, new, text, temporary, missing)
        return record, before, after, text_edit.diff_of(relative, text, after.decode())

    def _write(self, record: FileChanging, after: bytes) -> None:
        try:
            root, temporary = self._selected.root, record.temporary
            safe_files.replace_file(root, record.path, after, expected=record.before, temporary=temporary)
        except OSError as error:
            hint = "; read it again" if isinstance(error, safe_files.Changed) else ""
            raise ToolError(f"{escape_path(record.path)} was not changed: {error.strerror or error}{hint}") from error


def editing_offers(copy: WorkingCopy) -> tuple[Offer, ...]:
    """Return the offers of the tools that change files.

    copy: the files that the run has read and changed.
    """

    def offer(name: str, description: str, schema: Mapping[str, Any]) -> Offer:
        def make(settings: Specialist, root: Path) -> Tool:
            return Tool(name, description, getattr(EditTools(root, settings.writable, copy), name), schema=schema)

        return Offer(name, ("writable",), lambda one: f"change files: {', '.join(one.writable)}", make, _lacking)

    return offer(EDIT, _EDIT, _EDIT_SCHEMA), offer(WRITE, _WRITE, _WRITE_SCHEMA)


def _lacking(settings: Specialist, _root: Path) -> str:
    return "" if settings.writable else f"it {NEEDS_WRITABLE}: the folders, files or globs that it may change"


_NOT_UNDONE = "`specialists undo` does not take them back"
_T = TypeVar("_T")


async def report_changes(changes: CommandChanges, log: RunLog | None) -> bool:
    """Store and report what a command has changed; return whether the changes are stored, or never will be."""
    if log is None:
        return True
    stored = await asyncio.gather(*(log.stored(record) for record, _ in changes.files))
    for (_, event), is_stored in zip(changes.files, stored, strict=True):
        log.notify(replace(event, undoable=event.undoable and is_stored and log.is_stored))
    if changes.undone:
        undone = few([*map(escape_path, changes.undone)], 5)
        log.notify(Warned(f"a command changed protected files, which was undone: {undone}"))
    if changes.uncounted:
        log.notify(Warned(f"a command changed {changes.uncounted:,} more files, which are not listed; {_NOT_UNDONE}"))
    if changes.unsearched:
        log.notify(Warned(f"a command made {changes.unsearched:,} folders that cannot be searched; delete them"))
    return all(stored)


async def to_the_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Await work that must not be interrupted, and return its result; a cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


NOT_KEPT = "its content before was not kept: it is too large, or a file with secrets"

Result = Literal["restored", "deleted", "unchanged", "partly", "left"]
"""Restored or deleted; already as before; only the newest changes undone, because another program changed the file
before them; or not touched, because another program changed it after them.
"""


@dataclass(frozen=True, slots=True)
class UndoneFile:
    """A file that a run has changed, and the result of undoing the changes."""

    path: str
    """Path relative to the root."""
    result: Result
    reason: str = ""
    """Why it was not touched."""
    diff: Diff = NO_DIFF
    """From the current content to the one before the run."""


def undo(root: Path, changes: Sequence[FileChanging], *, dry_run: bool) -> list[UndoneFile]:
    """Undo changes; return each file once, by path.

    changes: oldest first; each may have been made or not.
    dry_run: only report what would be done.
    """
    by_path: dict[str, list[FileChanging]] = {}
    for change in changes:
        by_path.setdefault(change.path, []).append(change)
    closed = own_folders()
    # A new file may be where an old one, or a folder above it, has to be again.
    order = sorted(by_path.items(), key=lambda one: (one[1][0].before is not None, one[0]))
    done = [_undo_file(Path(os.path.realpath(root)), path, of_file, closed, dry_run=dry_run) for path, of_file in order]
    return sorted(done, key=lambda one: one.path)


def _undo_file(
    root: Path, path: str, changes: Sequence[FileChanging], closed: Sequence[Path], *, dry_run: bool
) -> UndoneFile:
    shown = escape_path(path)
    if why := _reason_not_to_undo(root, path, closed, is_created=changes[0].before is None):
        return UndoneFile(shown, "left", why)
    try:
        if not dry_run:
            for change in changes:
                safe_files.delete_temporary(root, path, change.temporary)
        now, data = safe_files.state_at(root, path)
        oldest, reason = _oldest_to_undo(changes, now)
        if oldest is None:
            return UndoneFile(shown, "left" if reason else "unchanged", reason)
        if oldest.before is not None and oldest.content is None:
            return UndoneFile(shown, "left", NOT_KEPT)
        if not dry_run:
            _restore(root, path, oldest, now, data)
        done: Result = "deleted" if oldest.before is None else "restored"
        return UndoneFile(shown, "partly" if reason else done, reason, _diff(path, oldest, data))
    except OSError as error:
        return UndoneFile(shown, "left", error.strerror or str(error))


def _reason_not_to_undo(root: Path, relative: str, closed: Sequence[Path], *, is_created: bool) -> str:
    """Return why neither a tool nor a command can have changed a file: others may have written to the store.

    is_created: whether the run created the file.
    """
    shown, parts = escape_path(relative), relative.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in relative:
        return f"{shown!r} is no usable path"
    if any(is_protected_from_commands("/".join(parts[: at + 1])) for at in range(len(parts))):
        return f"{shown!r} may not be changed: {reason_to_protect(relative)}"
    if is_secret(relative) and not is_created:
        return f"{shown!r} may not be changed: such files hold secrets"
    return _OWN.format(shown) if any((root / relative).is_relative_to(one) for one in closed) else ""


def _diff(path: str, change: FileChanging, data: bytes | None) -> Diff:
    """Return the difference from the current content to the one before a change; none for what is no text."""
    is_link = any(stat.S_ISLNK(_mode(state) or 0) for state in (change.before, change.after))
    old = None if change.content is None else change.content.encode("utf-8", "surrogateescape")
    with suppress(ToolError):
        now, before = (None if one is None else text_edit.decoded(one) for one in (data, old))
        if not is_link and max(len(now or ""), len(before or "")) <= text_edit.MOST:
            diff = text_edit.diff_of(escape_path(path), now, before)
            return diff if before is not None else replace(diff, text="")
    return NO_DIFF


def _oldest_to_undo(changes: Sequence[FileChanging], now: str | None) -> tuple[FileChanging | None, str]:
    """Return the change whose old content to restore, and why older changes stay, if they do.

    now: the state of the file; None = it does not exist.
    The change is None if there is nothing to undo.
    """
    if safe_files.is_same_state(now, changes[0].before):
        return None, ""
    state, oldest = now, None
    for change in reversed(changes):
        # A change that was recorded but not made leaves the file as it was before.
        if safe_files.is_same_state(state, change.after):
            state, oldest = change.before, change
        elif not safe_files.is_same_state(state, change.before):
            since = "deleted since" if now is None else "changed since"
            return oldest, since if oldest is None else "changed in between, so older changes stay"
    return oldest, ""


def _restore(root: Path, path: str, change: FileChanging, now: str | None, data: bytes | None) -> None:
    """Restore what was at a path before a change.

    now, data: state and content of what is there.
    """
    if change.before is None:
        safe_files.unlink_file(root, path, str(now), folders=change.folders)
        return
    kind, content = _mode(change.before), (change.content or "").encode("utf-8", "surrogateescape")
    is_link = kind is not None and stat.S_ISLNK(kind)
    is_written_over = data is not None and stat.S_ISREG(_mode(now) or 0) and not is_link
    if now is not None and not is_written_over:
        safe_files.unlink_file(root, path, now, folders=0)
    if is_link:
        safe_files.make_link(root, path, os.fsdecode(content))
        return
    if is_written_over and kind is not None:
        safe_files.set_mode(root, path, kind | stat.S_IRUSR | stat.S_IWUSR)
    if not is_written_over or data != content:
        expected = safe_files.digest_of(data or b"") if is_written_over else None
        safe_files.replace_file(root, path, content, expected=expected)
    if kind is not None:
        safe_files.set_mode(root, path, kind)


def _mode(state: str | None) -> int | None:
    """Return the mode in a state; None if it has none."""
    return int(state.partition(" ")[0], 8) if state and " " in state else None
