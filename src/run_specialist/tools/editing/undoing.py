"""Undo the changes of a run, newest first, in files that have not changed since."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from run_specialist.errors import ToolError
from run_specialist.record.journal import FileChanging
from run_specialist.safe_files.safe_write import (
    delete_file,
    delete_temporary,
    digest_of,
    read_content,
    replace_file,
    temporary_name,
)
from run_specialist.tools.editing.text_edit import MOST
from run_specialist.tools.editing.unified_diff import NO_DIFF, Diff, diff_of
from run_specialist.tools.editing.writable import Writable
from run_specialist.tools.sandbox.protected_files import own_folders

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
    return [_undo_file(writable, path, of_file, dry_run=dry_run) for path, of_file in sorted(by_path.items())]


def _undo_file(writable: Writable, path: str, changes: Sequence[FileChanging], *, dry_run: bool) -> UndoneFile:
    root = writable.root
    try:
        writable.check(path)
        if not dry_run:
            for change in changes:
                delete_temporary(root, path, change.temporary)
        found = read_content(root, path, MOST)
        now = None if found is None else digest_of(found)
        oldest, reason = _oldest_to_undo(changes, now)
        if oldest is None:
            return UndoneFile(path, "left" if reason else "unchanged", reason)
        text = None if found is None else found.decode()
        if oldest.content is None:
            diff = Diff("", 0, diff_of(path, None, text or "").added)
        else:
            diff = diff_of(path, text, oldest.content)
        if not dry_run:
            _restore(root, path, oldest, now)
        done: Result = "deleted" if oldest.content is None else "restored"
        return UndoneFile(path, "partly" if reason else done, reason, diff)
    except ToolError as error:
        return UndoneFile(path, "left", str(error))
    except OSError as error:
        return UndoneFile(path, "left", error.strerror or str(error))


def _oldest_to_undo(changes: Sequence[FileChanging], now: str | None) -> tuple[FileChanging | None, str]:
    """Return the change whose old content to restore, and why older changes stay, if they do.

    now: the digest of the file; None = it does not exist.
    The change is None if there is nothing to undo.
    """
    if now == changes[0].before:
        return None, ""
    state, oldest = now, None
    for change in reversed(changes):
        # A change that was recorded but not made leaves the file as it was before.
        if state == change.after:
            state, oldest = change.before, change
        elif state != change.before:
            since = "deleted since" if now is None else "changed since"
            return oldest, since if oldest is None else "changed in between, so older changes stay"
    return oldest, ""


def _restore(root: Path, path: str, change: FileChanging, now: str | None) -> None:
    if change.content is None:
        delete_file(root, path, expected=str(now), folders=change.folders, most=MOST)
    else:
        data = change.content.encode()
        replace_file(root, path, data, expected=now, temporary=temporary_name(), most=MOST)
