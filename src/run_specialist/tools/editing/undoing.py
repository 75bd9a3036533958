"""Undo the changes of a run, newest first, in files that have not changed since."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from run_specialist.errors import ToolError
from run_specialist.record.journal import FileChanging
from run_specialist.safe_files.safe_write import (
    delete_temporary,
    digest_of,
    is_same_state,
    make_link,
    replace_file,
    set_mode,
    state_at,
    temporary_name,
    unlink_file,
)
from run_specialist.tools.editing.file_checkpoint import LARGEST_KEPT as MOST_KEPT
from run_specialist.tools.editing.text_edit import MOST
from run_specialist.tools.editing.unified_diff import NO_DIFF, Diff, diff_of
from run_specialist.tools.editing.writable import Writable
from run_specialist.tools.sandbox.protected_files import own_folders
from run_specialist.tools.sandbox.sandbox import escape_path

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
    # Others may have written to the store, so its paths are checked like those of a model.
    writable = Writable(root, ["."], own_folders())
    # A new file may be where an old one, or a folder above it, has to be again.
    order = sorted(by_path.items(), key=lambda one: (one[1][0].before is not None, one[0]))
    done = [_undo_file(writable, path, of_file, dry_run=dry_run) for path, of_file in order]
    return sorted(done, key=lambda one: one.path)


def _undo_file(writable: Writable, path: str, changes: Sequence[FileChanging], *, dry_run: bool) -> UndoneFile:
    root, shown = writable.root, escape_path(path)
    try:
        writable.check_undo(path, is_created=changes[0].before is None)
        if not dry_run:
            for change in changes:
                delete_temporary(root, path, change.temporary)
        now, data = state_at(root, path, MOST_KEPT)
        oldest, reason = _oldest_to_undo(changes, now)
        if oldest is None:
            return UndoneFile(shown, "left" if reason else "unchanged", reason)
        if oldest.before is not None and oldest.content is None:
            return UndoneFile(shown, "left", NOT_KEPT)
        if not dry_run:
            _restore(root, path, oldest, now, data)
        done: Result = "deleted" if oldest.before is None else "restored"
        return UndoneFile(shown, "partly" if reason else done, reason, _diff(path, oldest, data))
    except ToolError as error:
        return UndoneFile(shown, "left", str(error))
    except OSError as error:
        return UndoneFile(shown, "left", error.strerror or str(error))


def _diff(path: str, change: FileChanging, data: bytes | None) -> Diff:
    """Return the difference from the current content to the one before a change; none for what is no text."""
    try:
        now = None if data is None else data.decode()
        before = None if change.content is None else change.content.encode("utf-8").decode()
    except UnicodeError:
        return NO_DIFF
    shown = escape_path(path)
    is_link = any(stat.S_ISLNK(_mode(state) or 0) for state in (change.before, change.after))
    if is_link or "\0" in f"{now}{before}" or max(len(now or ""), len(before or "")) > MOST:
        return NO_DIFF
    if before is None:
        return Diff("", 0, diff_of(shown, None, now or "").added)
    return diff_of(shown, now, before)


def _oldest_to_undo(changes: Sequence[FileChanging], now: str | None) -> tuple[FileChanging | None, str]:
    """Return the change whose old content to restore, and why older changes stay, if they do.

    now: the state of the file; None = it does not exist.
    The change is None if there is nothing to undo.
    """
    if is_same_state(now, changes[0].before):
        return None, ""
    state, oldest = now, None
    for change in reversed(changes):
        # A change that was recorded but not made leaves the file as it was before.
        if is_same_state(state, change.after):
            state, oldest = change.before, change
        elif not is_same_state(state, change.before):
            since = "deleted since" if now is None else "changed since"
            return oldest, since if oldest is None else "changed in between, so older changes stay"
    return oldest, ""


def _restore(root: Path, path: str, change: FileChanging, now: str | None, data: bytes | None) -> None:
    """Restore what was at a path before a change.

    now, data: state and content of what is there.
    """
    kind = _mode(change.before)
    is_file = now is not None and (_mode(now) is None or stat.S_ISREG(_mode(now) or 0))
    if change.before is None:
        unlink_file(root, path, str(now), folders=change.folders, most=MOST_KEPT)
        return
    content = (change.content or "").encode("utf-8", "surrogateescape")
    if kind is not None and stat.S_ISLNK(kind):
        if now is not None:
            unlink_file(root, path, now, folders=0, most=MOST_KEPT)
        make_link(root, path, os.fsdecode(content))
        return
    expected = None
    if is_file and data is not None:
        expected = digest_of(data)
        if kind is not None:
            set_mode(root, path, kind | stat.S_IRUSR | stat.S_IWUSR)
    elif now is not None:
        unlink_file(root, path, now, folders=0, most=MOST_KEPT)
    if data != content or expected is None:
        replace_file(root, path, content, expected=expected, temporary=temporary_name(), most=MOST_KEPT)
    if kind is not None:
        set_mode(root, path, kind)


def _mode(state: str | None) -> int | None:
    """Return the mode in a state; None if it has none."""
    return int(state.partition(" ")[0], 8) if state and " " in state else None
