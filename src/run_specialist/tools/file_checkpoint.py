"""Checkpoints of the folders that commands may change: their content before a command, and what the command changed.

Before a command the content of the writable folders is copied, up to a size. After it they are compared with the copy:
protected files are put back, and every other file that was created, changed or removed becomes a change that
`specialists undo` reverts. A hard link would be cheaper than a copy, but shares its content with a file that is written
in place.

The copy is in the user's data folder, under the id of the run, until the changes are stored. If the program is killed
during a command, the copy stays there, and `undo`, or the next command of the resumed run, finds it.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from run_specialist.errors import ToolError, errors_as, on_error
from run_specialist.record.events import FileChanged
from run_specialist.record.journal import FileChanging
from run_specialist.safety.safe_files import LARGEST, folder, place, state_at, state_of, temporary_name
from run_specialist.tools.ignore import IgnoreRules
from run_specialist.tools.sandbox import Sandbox, escape_path
from run_specialist.tools.secret_files import is_protected_from_commands, is_secret
from run_specialist.tools.text_edit import MOST, decoded, diff_of, shortened
from run_specialist.tools.threads import check_cancelled

# Suffix of a place that was undone; a random number follows.
_SET_ASIDE = ".undone-"
MOST_ENTRIES = 200_000
"""Maximum number of entries below the writable folders."""
# Maximum size of all kept content [bytes]; files that git does not ignore come first, then smaller ones.
_MOST_KEPT = 100_000_000
# Maximum number of changes of one command that are recorded; the others are counted.
_MOST_CHANGES = 10_000
# Maximum number of changes of one command that are shown as a diff.
_MOST_DIFFS = 100
EVENT_DIFF = 20_000
"""Maximum length of the diff in an event [characters]."""

# Time for counting the changed lines after one command [s].
_COMPARE_WITHIN = 2.0
_LOCKS = ".locks"
# Age after which a checkpoint that was left behind is deleted [s].
_KEPT_FOR = 30 * 24 * 3600


class FileEntry(NamedTuple):
    """A file, symlink or other entry that is no folder."""

    mode: int
    size: int
    inode: int
    links: int
    modified: int
    """Time of the last change of the content [ns]."""
    changed: int
    """Time of the last change of the entry, which a command cannot set [ns]."""
    target: str | None = None
    """Target of a symlink."""
    at: int | None = None
    """Offset of the kept content; None if it is not kept."""

    def is_same(self, other: "FileEntry | None") -> bool:
        """Return whether no command has changed the entry in between."""
        return other is not None and other == self._replace(at=other.at, links=other.links)


@dataclass(slots=True)
class Tree:
    """The entries below the writable folders, by path relative to the root."""

    entries: dict[str, FileEntry] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)
    """Inodes of the folders."""
    protected: dict[str, str | None] = field(default_factory=dict)
    """The outermost protected places, each with its target if it is a symlink."""
    ignored: set[str] = field(default_factory=set)
    """Entries that git ignores."""
    unreadable: set[str] = field(default_factory=set)
    """Folders that could not be listed."""
    uncounted: int = 0
    """Number of entries that were only searched for protected names."""

    def is_protected(self, path: str) -> bool:
        """Return whether a path is a protected place, or below one."""
        return any(above in self.protected for above in _with_folders_above(path))


def read_tree(root: Path, writable: Sequence[str], closed: Sequence[Path] = (), *, before: Tree | None = None) -> Tree:
    """Return everything below the writable places; symlinks are not followed.

    closed: real paths of files and folders that are protected wherever they are; such a folder is not searched.
    before: the tree before a command; then folders that it made unreadable are made readable again, and more than
        MOST_ENTRIES entries are searched for protected names only.
    Raises ToolError if there are too many entries before a command.
    """
    tree, others, seen = Tree(), {str(path) for path in closed}, 0
    pending = []
    for top in writable:
        rules = IgnoreRules()
        with suppress(OSError):
            rules = Sandbox(root).parent_rules(top)
        pending.append((top, rules, False, False))
        if any((root / top).is_relative_to(one) for one in closed):
            tree.protected[top] = None
        with suppress(OSError):
            info = (root / top).lstat()
            if not stat.S_ISDIR(info.st_mode):
                tree.entries[top] = _entry(info, root / top)
    while pending:
        here, rules, is_protected, is_ignored = pending.pop()
        entries = _listing(root / here, by_force=before is not None and here not in before.unreadable)
        if entries is None:
            tree.unreadable.add(here)
            continue
        with suppress(OSError), folder(root, here) as opened:
            rules = rules.within(opened, here)
        for entry in entries:
            seen += 1
            if seen % 256 == 0 and before is None:
                check_cancelled()
            if seen > MOST_ENTRIES and before is None:
                raise ToolError(f"there are more than {MOST_ENTRIES:,} files below the writable folders")
            path = f"{here}/{entry.name}" if here else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            is_place = not is_protected and (is_protected_from_commands(path) or entry.path in others)
            if is_place:
                with suppress(OSError):
                    tree.protected[path] = os.readlink(entry.path) if entry.is_symlink() else None  # noqa: PTH115 - keeps bytes
            hides = is_ignored or rules.hide(path, is_folder=is_folder)
            if seen > MOST_ENTRIES and before and path not in before.entries and path not in before.folders:
                tree.uncounted += not is_folder
            else:
                with suppress(OSError):
                    info = entry.stat(follow_symlinks=False)
                    if is_folder:
                        tree.folders[path] = info.st_ino
                    else:
                        tree.entries[path] = _entry(info, Path(entry.path))
                        if hides:
                            tree.ignored.add(path)
            # What is in them is large, and changes while other programs work.
            is_searched = entry.name.casefold() not in {".git", ".hg"} and entry.path not in others
            if is_folder and is_searched:
                pending.append((path, rules, is_protected or is_place, hides))
    _protect_other_names(root, writable, tree)
    return tree


def _protect_other_names(root: Path, writable: Sequence[str], tree: Tree) -> None:
    """Protect what a protected symlink leads to, and the other hard links of a protected file."""
    for path in [path for path, entry in tree.entries.items() if entry.target is not None and tree.is_protected(path)]:
        real = os.path.realpath(root / path)
        relative = os.path.relpath(real, root)
        is_inside = relative in tree.entries or relative in tree.folders
        if is_inside and relative not in writable and not any(one.startswith(f"{relative}/") for one in writable):
            tree.protected.setdefault(relative, None)
    linked = {path: entry.inode for path, entry in tree.entries.items() if entry.links > 1 and entry.target is None}
    inodes = {inode for path, inode in linked.items() if tree.is_protected(path)}
    for path, inode in linked.items():
        if inode in inodes and not tree.is_protected(path):
            tree.protected[path] = None


def _listing(folder: Path, *, by_force: bool) -> list["os.DirEntry[str]"] | None:
    """Return the entries of a folder; None if it cannot be listed.

    by_force: whether to make it readable, because a command has made it unreadable.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        return [*entries]
    with suppress(OSError):
        info = folder.lstat()
        if by_force and stat.S_ISDIR(info.st_mode):
            folder.chmod(stat.S_IMODE(info.st_mode) | stat.S_IRWXU)
            return _listing(folder, by_force=False)
    return None


def _entry(info: os.stat_result, path: Path) -> FileEntry:
    target = None
    if stat.S_ISLNK(info.st_mode):
        with suppress(OSError):
            target = os.readlink(path)  # noqa: PTH115 - keeps bytes that are no UTF-8
    return FileEntry(info.st_mode, info.st_size, info.st_ino, info.st_nlink, info.st_mtime_ns, info.st_ctime_ns, target)


def _with_folders_above(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition("/")[0]
    yield ""


@dataclass(frozen=True, slots=True)
class CommandChanges:
    """What a command has changed."""

    files: Sequence[tuple[FileChanging, FileChanged]] = ()
    """The files that it has created, changed or removed."""
    undone: Sequence[str] = ()
    """Protected places that were put back."""
    uncounted: int = 0
    """Number of further changes, which are neither listed nor undone later."""
    unsearched: int = 0
    """Number of folders that could not be searched for protected files, as those with a path that is too long."""
    root: str = ""
    """The folder that the paths are relative to."""


@dataclass(frozen=True, slots=True)
class FileCheckpoint:
    """The content of the writable folders before one command."""

    place: Path
    """Folder with the kept content."""
    root: Path
    writable: Sequence[str]
    closed: Sequence[Path]
    call_id: str
    before: Tree

    @classmethod
    def take(
        cls, root: Path, writable: Sequence[str], closed: Sequence[Path], run_id: str, call_id: str
    ) -> "FileCheckpoint":
        """Copy the content of the writable places; blocks.

        run_id: the run under whose id the copy is found if this process is killed.
        Raises ToolError with the reason if that fails.
        """
        before = read_tree(root, writable, closed)
        with errors_as(ToolError, "nothing was run, because no checkpoint can be made", OSError):
            checkpoint = cls(_new_place(run_id), root, writable, closed, call_id, before)
            with on_error(checkpoint.discard):
                checkpoint._keep()
        return checkpoint

    def _keep(self) -> None:
        chosen = [
            (path in self.before.ignored, entry.size, path)
            for path, entry in self.before.entries.items()
            if stat.S_ISREG(entry.mode) and entry.size <= LARGEST and not is_secret(path)
        ]
        # A protected file is put back even if it is ignored.
        chosen.sort(key=lambda one: (one[0] and not self.before.is_protected(one[2]), *one[1:]))
        at = 0
        with (self.place / "content").open("xb") as content:
            for _, size, path in chosen:
                check_cancelled()
                entry = self.before.entries[path]
                if at + size > _MOST_KEPT:
                    break
                with suppress(OSError), place(self.root, path) as (here, name), here.file(name) as file:
                    data = file.read(LARGEST + 1)
                    # A file of another size has changed since it was found.
                    if len(data) == entry.size:
                        self.before.entries[path] = entry._replace(at=at)
                        at += content.write(data)
        of_run = [str(self.root), [*self.writable], [*map(str, self.closed)], self.call_id]
        before = self.before
        tree = [before.entries, before.folders, before.protected, [*before.unreadable]]
        # It exists only if the checkpoint is complete; the command has not begun before.
        _write(self.place / "before.json", [of_run, tree])

    def compare(self, *, puts_back: bool = True) -> CommandChanges:
        """Return what was changed since; blocks.

        puts_back: whether protected files are put back first.
        """
        after = read_tree(self.root, self.writable, self.closed, before=self.before)
        undone = self._put_back(after) if puts_back else []
        if undone:
            after = read_tree(self.root, self.writable, self.closed, before=self.before)
        files, more = self._changes(after)
        unsearched = len(after.unreadable - self.before.unreadable)
        return CommandChanges(files, undone, more + after.uncounted, unsearched, str(self.root))

    def discard(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self.place, ignore_errors=True)

    # -- protected files

    def _put_back(self, after: Tree) -> list[str]:
        """Rename new protected places and restore the old ones; return them."""
        undone, before = [], self.before
        inodes_before, inodes_after = (
            {**tree.folders, **{path: entry.inode for path, entry in tree.entries.items()}} for tree in (before, after)
        )
        known = {path: inodes_before[path] for path in before.protected if path in inodes_before}
        lost = {inode for path, inode in known.items() if inodes_after.get(path) != inode}
        for path, target in after.protected.items():
            if path not in before.protected:
                # A place that is protected only as another name of one, and one that was moved, stay.
                is_named = is_protected_from_commands(path) or self.root / path in self.closed
                is_undone = is_named and inodes_after.get(path) not in lost
            else:
                is_undone = before.protected[path] != target or (target is None and self._is_replaced(path, after))
            if is_undone:
                self._set_aside(path)
                undone.append(path)
        moved = {inode: path for path, inode in inodes_after.items() if inode in lost and path not in inodes_before}
        for path, target in sorted(before.protected.items()):
            # A path through a new symlink leads elsewhere.
            if path in inodes_after and path not in undone:
                undone += self._restore_below(path, after)
            elif self._restore(path, target, moved):
                undone.append(path)
        return list(dict.fromkeys(undone))

    def _is_replaced(self, path: str, after: Tree) -> bool:
        """Return whether another entry is in a protected place, or the same one with other content."""
        old, new = self.before.entries.get(path), after.entries.get(path)
        if old is None or new is None:
            return (self.before.folders.get(path), old is None) != (after.folders.get(path), new is None)
        # A sandbox cannot write there but by a second name, so other changes are those of other programs.
        if old.inode != new.inode:
            return True
        if max(old.links, new.links) <= 1 or old.is_same(new):
            return False
        is_alike = (old.mode, old.size, old.target) == (new.mode, new.size, new.target)
        return not is_alike or old.at is None or self._now(path)[1] != self._content(old)

    def _content(self, entry: FileEntry) -> bytes | None:
        """Return the kept content of an entry, of a symlink its target; None if it is not kept."""
        if entry.target is not None:
            return os.fsencode(entry.target)
        if entry.at is None:
            return None
        with (self.place / "content").open("rb") as content:
            content.seek(entry.at)
            return content.read(entry.size)

    def _now(self, path: str) -> tuple[str | None, bytes | None]:
        """Return state and content of what is at a path; None if it cannot be read."""
        with suppress(OSError):
            return state_at(self.root, path)
        return None, None

    def _restore_below(self, path: str, after: Tree) -> Iterator[str]:
        """Restore the content of a protected folder, and yield what was changed in it."""
        for inner in sorted(self.before.entries):
            # Only other programs create or delete a file in a folder that was not replaced.
            if inner.startswith(f"{path}/") and inner in after.entries and self._is_replaced(inner, after):
                self._set_aside(inner)
                if self._restore(inner, self.before.entries[inner].target, {}):
                    yield inner

    def _restore(self, path: str, target: str | None, moved: Mapping[int, str]) -> bool:
        """Bring back a protected place: move it back, or write its content; return whether it is there again."""
        entry, place = self.before.entries.get(path), self.root / path
        inode = entry.inode if entry else self.before.folders.get(path, -1)
        with suppress(OSError):
            # A command may have put a symlink in place of a folder above it.
            for above in [*_with_folders_above(path)][-2:0:-1]:
                folder = self.root / above
                if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
                    folder.unlink()
                folder.mkdir(exist_ok=True)
            if target is not None:
                place.symlink_to(target)
                return True
            if (elsewhere := moved.get(inode)) and os.path.lexists(self.root / elsewhere):
                (self.root / elsewhere).rename(place)
                return True
        found = False
        for inner, old in self.before.entries.items():
            if inner == path or inner.startswith(f"{path}/"):
                data = self._content(old)
                with suppress(OSError):
                    (self.root / inner).parent.mkdir(parents=True, exist_ok=True)
                    if old.target is not None:
                        (self.root / inner).symlink_to(old.target)
                    elif data is not None:
                        with (self.root / inner).open("xb") as file:
                            file.write(data)
                        (self.root / inner).chmod(stat.S_IMODE(old.mode))
                    found = True
        return found

    def _set_aside(self, path: str) -> None:
        """Rename a place, so that no program uses it; unlink a symlink."""
        place = self.root / path
        with suppress(OSError):
            if place.is_symlink():
                place.unlink()
            else:
                name = os.fsdecode(os.fsencode(place.name)[:200])
                place.rename(place.with_name(f"{name}{_SET_ASIDE}{secrets.token_hex(3)}"))

    # -- other files

    def _changes(self, after: Tree) -> tuple[list[tuple[FileChanging, FileChanged]], int]:
        """Return the changes of files that are not protected, and the number of those that are too many."""
        found: list[tuple[FileChanging, FileChanged]] = []
        more, until = 0, time.monotonic() + _COMPARE_WITHIN
        old_entries, new_entries = self.before.entries, after.entries
        for path in sorted({*old_entries, *new_entries}):
            old, new = old_entries.get(path), new_entries.get(path)
            if (old and old.is_same(new)) or self.before.is_protected(path):
                continue
            is_shown = len(found) < _MOST_DIFFS and time.monotonic() < until
            if len(found) >= _MOST_CHANGES:
                more += 1
            elif change := self._change(path, old, new, with_diff=is_shown):
                found.append(change)
        return found, more

    def _change(
        self, path: str, old: FileEntry | None, new: FileEntry | None, *, with_diff: bool
    ) -> tuple[FileChanging, FileChanged] | None:
        before, data_before = None, None
        if old is not None:
            data_before = self._content(old)
            before = state_of(old.mode, data_before, old.size, old.modified)
        after, data_after = (None, None) if new is None else self._now(path)
        if new is not None and after is None:
            after = state_of(new.mode, None, new.size, new.modified)
        if before == after and (data_before is not None or not (old and stat.S_ISREG(old.mode))):
            return None
        # The writable place that contains the path is never deleted.
        depth = next((top.count("/") + 1 for top in self.writable if top and f"{path}/".startswith(f"{top}/")), 0)
        missing = sum(above not in self.before.folders for above in [*_with_folders_above(path)][1:-1])
        folders = 0 if old else max(min(missing, path.count("/") - depth), 0)
        content = None if data_before is None else data_before.decode("utf-8", "surrogateescape")
        record = FileChanging(secrets.token_hex(8), path, before, after, content, temporary_name(), folders)
        texts = _text(old, data_before), _text(new, data_after)
        undoable = old is None or data_before is not None
        event = FileChanged(self.call_id, escape_path(path), "", None, None, old is None, undoable=undoable)
        if with_diff and None not in texts:
            made = diff_of(event.path, texts[0] if old else None, texts[1] if new else None)
            text = "" if is_secret(path) else shortened(made.text, EVENT_DIFF)
            event = replace(event, diff=text, added=made.added, removed=made.removed)
        return record, replace(event, change="created" if old is None else "removed" if new is None else "changed")


def _text(entry: FileEntry | None, data: bytes | None) -> str | None:
    """Return the text of a file for a diff, empty for none; None if it is no text."""
    if entry is None:
        return ""
    with suppress(ToolError):
        if data is not None and stat.S_ISREG(entry.mode) and len(data) <= MOST:
            return decoded(data)
    return None


@contextmanager
def held(root: Path, writable: Sequence[str]) -> Iterator[bool]:
    """Return a context with whether no other run has a command that may change these places, or part of them.

    The lock is that of files in the data folder, so other processes respect it, and it ends with this process.
    """
    wanted = {str(above): fcntl.LOCK_SH for top in writable for above in (root / top).parents}
    wanted |= {str(root / top): fcntl.LOCK_EX for top in writable}
    is_free = True
    with ExitStack() as locks:
        for path, how in sorted(wanted.items()):
            name = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
            with suppress(OSError):
                folder = _all_places() / _LOCKS
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = locks.enter_context((folder / name).open("ab"))
                try:
                    fcntl.flock(lock, how | fcntl.LOCK_NB)
                except BlockingIOError:
                    is_free = False
                    break
        yield is_free


def recovered(run_id: str, *, dry_run: bool = False) -> CommandChanges | None:
    """Return what a command has changed whose process was killed; None if there was none.

    The changes are found once and kept: later ones are those of other programs.
    dry_run: change and keep nothing.
    """
    place = _place(run_id)
    try:
        if (place / "changes.json").exists():
            values = json.loads((place / "changes.json").read_text("ascii"))
            files = [(FileChanging(**record), FileChanged(**event)) for record, event in values["files"]]
            return CommandChanges(files, (), values["uncounted"], root=values["root"])
        of_run, tree = json.loads((place / "before.json").read_text("ascii"))
        (root, writable, closed, call_id), (entries, folders, protected, unreadable) = of_run, tree
        found = {path: FileEntry(*one) for path, one in entries.items()}
        before = Tree(found, folders, protected, unreadable=set(unreadable))
        checkpoint = FileCheckpoint(place, Path(root), writable, [*map(Path, closed)], call_id, before)
    except (OSError, ValueError, TypeError, LookupError):
        return None
    changes = checkpoint.compare(puts_back=not dry_run)
    if not dry_run:
        listed = [(asdict(record), asdict(event)) for record, event in changes.files]
        _write(place / "changes.json", {"root": changes.root, "files": listed, "uncounted": changes.uncounted})
        with suppress(OSError):
            (place / "content").unlink()
    return changes


def _write(path: Path, values: object) -> None:
    """Write a JSON file, which exists only once it is complete."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(values), "ascii")
    unfinished.rename(path)


def forget(run_id: str) -> None:
    """Delete the checkpoint that a killed run has left behind, if there is one."""
    shutil.rmtree(_place(run_id), ignore_errors=True)


def _all_places() -> Path:
    import platformdirs  # noqa: PLC0415 - takes 20 ms, needed only for runs that change files

    return platformdirs.user_data_path("run-specialist", appauthor=False) / "checkpoints"


def _place(run_id: str) -> Path:
    return _all_places() / (re.sub(r"[^A-Za-z0-9-]", "_", run_id) or "_")


def _new_place(run_id: str) -> Path:
    """Return an empty folder for a checkpoint, which other users cannot read."""
    place = _place(run_id)
    shutil.rmtree(place, ignore_errors=True)
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.mkdir(mode=0o700)
    except OSError:
        # Without a data folder that can be written, a checkpoint is lost only if the process is killed.
        return Path(tempfile.mkdtemp(prefix="run-specialist-"))
    with suppress(OSError):
        for other in place.parent.iterdir():
            if other.name != _LOCKS and other.stat().st_mtime < time.time() - _KEPT_FOR:
                shutil.rmtree(other, ignore_errors=True)
    return place
