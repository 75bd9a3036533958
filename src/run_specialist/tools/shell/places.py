"""The files and the git folder that a sandbox shows, and how it protects them."""

import os
import re
import stat
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.tools.ignore import IgnoreRules
from run_specialist.tools.sandbox import Sandbox, escape_path
from run_specialist.tools.secret_files import is_protected_from_commands, is_secret
from run_specialist.tools.threads import check_cancelled

MOST_HIDDEN = 1_000
"""Maximum number of places that are hidden or protected individually; each costs a mount or two."""
_OF_KERNEL = frozenset(
    """
    autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue nsfs proc
    pstore rpc_pipefs securityfs selinuxfs sysfs tracefs
    """.split()  # noqa: SIM905
)
"""Types of file systems that contain no ordinary files."""
MOST_ENTRIES = 200_000
"""Maximum number of entries examined before each command."""


@dataclass(frozen=True, slots=True)
class ShownFiles:
    """The places of a root that commands see; all paths are relative to the root, with `/`, and no symlinks."""

    starts: Sequence[str]
    """Folders and files that are shown; empty text for the whole root."""
    hidden_folders: Sequence[str] = ()
    """Folders below them that appear empty."""
    hidden_files: Sequence[str] = ()
    """Files below them that cannot be opened."""
    writable: Sequence[str] = ()
    """Folders and files that may be changed; none is below another."""
    protected: Sequence[str] = ()
    """Places below `writable` that may not be changed."""
    pinned: Sequence[str] = ()
    """Folders below `writable` above a protected or hidden place, outermost first: they may be changed, but not renamed
    or replaced, and the place with them."""


@dataclass(slots=True)
class _Walk:
    sandbox: Sandbox
    writable: Sequence[str]
    closed: Collection[str]
    """Folders that are hidden whatever they hold."""
    others: int
    """Number of places that are mounted for another reason."""
    check: Callable[[], None]
    hidden_folders: list[str] = field(default_factory=list)
    hidden_files: list[str] = field(default_factory=list)
    seen: int = 0

    def go(self, start: str) -> None:
        """Examine everything below a shown folder; symlinks are not followed, because their targets are elsewhere."""
        pending = [(start, self.sandbox.parent_rules(start))]
        while pending:
            here, rules = pending.pop()
            try:
                pending += self._folder(here, rules)
            except OSError:
                # Commands may have other rights than this process, and its rules are unknown.
                self._hide(here, is_folder=True)

    def _folder(self, here: str, rules: IgnoreRules) -> list[tuple[str, IgnoreRules]]:
        """Examine a folder; return its shown subfolders."""
        inner = []
        with self.sandbox.folder(here) as folder:
            rules = rules.within(folder, here)
            with folder.listing() as found:
                for item in found:
                    self.check()
                    self.seen += 1
                    if self.seen > MOST_ENTRIES:
                        raise ToolError(
                            f"the root has more than {MOST_ENTRIES:,} files and folders; `paths` in the specialist's "
                            "file can name the folders that it needs"
                        )
                    path = f"{here}/{item.name}" if here else item.name
                    if path in self.closed:
                        self._hide(path, is_folder=True)
                        continue
                    if item.is_symlink() or (not here and item.name == ".git"):
                        continue
                    is_folder = item.is_dir(follow_symlinks=False)
                    if self._is_hidden(path, rules, is_folder=is_folder) or not (
                        is_folder or item.is_file(follow_symlinks=False)
                    ):
                        self._hide(path, is_folder=is_folder)
                    elif is_folder:
                        inner.append((path, rules))
        return inner

    def _is_hidden(self, path: str, rules: IgnoreRules, *, is_folder: bool) -> bool:
        name = path.rpartition("/")[2]
        if name.casefold() == ".git" or self.sandbox.is_closed(path, is_folder=is_folder):
            return True
        if any(one == path or one.startswith(f"{path}/") or path.startswith(f"{one}/") for one in self.writable):
            # What commands write, they can read: build folders are usually ignored.
            return False
        return not self.sandbox.is_selected(path, is_folder=is_folder) or rules.hide(path, is_folder=is_folder)

    def _hide(self, path: str, *, is_folder: bool) -> None:
        if not self.sandbox.is_short_enough(path):
            raise ToolError(f"{escape_path(path)[:200]}...: its path is too long to be hidden; remove it")
        (self.hidden_folders if is_folder else self.hidden_files).append(path)
        if self.others + len(self.hidden_folders) + len(self.hidden_files) > MOST_HIDDEN:
            raise ToolError(
                f"more than {MOST_HIDDEN:,} places below the root would have to be hidden, such as "
                f"{escape_path(path)}; `paths` in the specialist's file can name the folders that it needs"
            )

    def pinned(self, protected: Sequence[str]) -> Sequence[str]:
        """Return the folders below the writable ones that are above a protected or hidden place, outermost first."""
        found: set[str] = set()
        for place in (*protected, *self.hidden_folders, *self.hidden_files):
            above = place.rpartition("/")[0]
            while above and above not in found:
                if any(not top or above.startswith(f"{top}/") for top in self.writable):
                    found.add(above)
                above = above.rpartition("/")[0]
        return sorted(found, key=lambda path: (path.count("/"), path))


def shown_files(
    sandbox: Sandbox,
    writable: Sequence[str],
    protected: Sequence[str],
    check: Callable[[], None] = check_cancelled,
) -> ShownFiles:
    """Return the files below a root that commands see; blocks while it examines all their folders.

    writable: as `writable_places` returns them.
    protected: places below them.
    check: as for `files` of the file tools.
    Raises ToolError if too much would have to be hidden.
    """
    sandbox.require_root()
    starts = _outermost([*sandbox.starts(), *writable])
    walk = _Walk(sandbox, writable, kernel_folders(sandbox.root), len(protected), check)
    for start in starts:
        if (sandbox.root / start).is_dir():
            walk.go(start)
    return ShownFiles(starts, walk.hidden_folders, walk.hidden_files, writable, protected, walk.pinned(protected))


def kernel_folders(root: Path, mounts: str = "/proc/self/mountinfo") -> frozenset[str]:
    """Return the folders below a root that show the kernel's processes, devices or settings, relative to the root."""
    try:
        lines = Path(mounts).read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return frozenset()
    found = set()
    for line in lines:
        fields, _, kind = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields.split(" ")[4]))
        if kind.split(" ")[0] in _OF_KERNEL and point != root and point.is_relative_to(root):
            found.add(point.relative_to(root).as_posix())
    return frozenset(found)


def writable_places(root: Path, paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the places below a root that commands may change, none below another, and a reason for each other path.

    root: a real path.
    paths: as in the file: existing folders and files without wildcards.
    """
    found, refused = [], []
    for path in paths:
        parts = [part for part in path.replace(os.sep, "/").split("/") if part not in {"", "."}]
        relative = "/".join(parts)
        why = _why_not_writable(root, relative)
        if why:
            refused.append(f"{path}: {why}")
        else:
            found.append(relative)
    return _outermost(found), refused


def _why_not_writable(root: Path, relative: str) -> str:
    parts = relative.split("/")
    if any(character in relative for character in "*?["):
        return "a pattern is no folder that can be opened for commands"
    if ".." in parts:
        return "it leads out of the root"
    if is_secret(relative) or any(is_protected_from_commands("/".join(parts[: at + 1])) for at in range(len(parts))):
        return "nothing may be changed there"
    real = root / relative
    try:
        # A link in the path could lead anywhere by the time that a command runs.
        is_link = os.path.realpath(real) != str(real)
        mode = real.lstat().st_mode
    except (OSError, ValueError) as error:
        return f"it cannot be opened: {getattr(error, 'strerror', None) or error}"
    if is_link:
        return "it is a link, or below one"
    return "" if stat.S_ISDIR(mode) or stat.S_ISREG(mode) else "it is no folder and no file"


def _outermost(paths: Sequence[str]) -> list[str]:
    """Return the paths that are not below another one."""
    unique = dict.fromkeys(paths)
    if "" in unique:
        return [""]
    return [path for path in unique if not any(path.startswith(f"{other}/") for other in unique)]


_LARGEST = 1_000_000
_SECTION = re.compile(r"\s*\[\s*([\w.-]+)")
_KEPT = {
    "core": frozenset({"repositoryformatversion", "filemode", "bare", "ignorecase", "precomposeunicode", "symlinks"}),
    "extensions": frozenset({"objectformat", "refstorage", "worktreeconfig", "compatobjectformat"}),
}
"""Settings that git needs to read a repository, by section."""
_CONFIGS = ("config", "config.worktree")


@dataclass(frozen=True, slots=True)
class GitFolder:
    """The git folder of a root."""

    places: Sequence[Path]
    """The paths that are shown in addition to the root."""
    configs: Sequence[Path]
    """Files with settings, which are replaced by harmless ones."""
    hidden: Sequence[Path]
    """Files that cannot be opened."""
    emptied: Sequence[Path] = ()
    """Folders that appear empty."""


def git_folder(root: Path) -> GitFolder | None:
    """Return the git folder of a root; None if there is none that may be shown.

    root: a real path. In a worktree the folder is elsewhere; it is used only if it names this root itself, so that no
    file of a project can open another folder.
    """
    own = root / ".git"
    with suppress(OSError, ValueError):
        if own.is_symlink():
            return None
        if own.is_dir():
            return _shown(own, ())
        if own.is_file():
            inner = Path(os.path.realpath(root / _read(own).removeprefix("gitdir:").strip()))
            common = Path(os.path.realpath(inner / _read(inner / "commondir").strip()))
            is_known = os.path.realpath(_read(inner / "gitdir").strip()) == str(own)
            is_whole = (common / "HEAD").is_file() and (common / "objects").is_dir()
            if is_known and is_whole and inner.parent == common / "worktrees":
                return _shown(common, (own, common, inner), inner)
    return None


def _shown(common: Path, places: Sequence[Path], inner: Path | None = None) -> GitFolder:
    folders = [common, *([inner] if inner else [])]
    configs = [folder / name for folder in folders for name in _CONFIGS if (folder / name).is_file()]
    hidden = [
        Path(entry.path)
        for folder in folders
        for entry in os.scandir(folder)
        if is_secret(entry.name) and entry.is_file(follow_symlinks=False)
    ]
    # The folders of submodules have their own settings.
    return GitFolder(places, configs, hidden, [path for path in (common / "modules",) if path.is_dir()])


def plain_config(path: Path) -> str:
    """Return the settings in a file that a repository needs, without remotes, which can contain credentials."""
    section, lines = "", []
    try:
        text = _read(path)
    except (OSError, ValueError):
        return ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match[1].lower()
            lines += [f"[{section}]"] if section in _KEPT and line.strip().lower() == f"[{section}]" else []
            section = section if line.strip().lower() == f"[{section}]" else ""
        elif line.partition("=")[0].strip().lower() in _KEPT.get(section, ()) and not line.rstrip().endswith("\\"):
            lines.append(line)
    return "\n".join([*lines, ""])


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LARGEST).decode("utf-8", "surrogateescape")
