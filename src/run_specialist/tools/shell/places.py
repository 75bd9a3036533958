"""The files that one command of the shell sees, and how they are protected."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.errors import ToolError
from run_specialist.safety.safe_files import folder
from run_specialist.tools.ignore import IgnoreRules
from run_specialist.tools.sandbox import Sandbox, escape_path
from run_specialist.tools.secret_files import is_protected_from_commands, is_secret
from run_specialist.tools.threads import check_cancelled

MOST_HIDDEN = 1_000
"""Maximum number of places that are hidden or protected individually; each costs a mount or two."""
MOST_ENTRIES = 200_000
"""Maximum number of entries examined before each command."""
_NAME_FOLDERS = "`paths` in the specialist's file can name the folders that it needs"
# Types of file systems that contain no ordinary files.
_OF_KERNEL = frozenset(
    """
    autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue nsfs proc
    pstore rpc_pipefs securityfs selinuxfs sysfs tracefs
    """.split()  # noqa: SIM905
)


@dataclass(slots=True)
class CommandFiles:
    """The files that a command sees, by their real paths; a later field overrides the earlier ones."""

    shown: list[Path] = field(default_factory=list)
    writable: list[Path] = field(default_factory=list)
    """Folders and files that may be changed; none is below another."""
    pinned: list[Path] = field(default_factory=list)
    """Folders in writable ones above a protected or hidden place, outermost first: they may be changed, but not renamed
    or replaced, and the place with them."""
    protected: list[Path] = field(default_factory=list)
    """Places in writable folders that may not be changed."""
    emptied: list[Path] = field(default_factory=list)
    """Folders that appear empty."""
    closed: list[Path] = field(default_factory=list)
    """Files that cannot be opened."""
    git_settings: list[Path] = field(default_factory=list)
    """Files replaced by what `plain_config` returns."""
    programs: Path | None = None
    """Folder that comes first on PATH: the one of the Python environment of the project."""


def command_files(sandbox: Sandbox, writable: Sequence[str], protected: Sequence[str]) -> CommandFiles:
    """Return the files that a command sees; blocks while it examines all folders below the root.

    writable: as `writable_places` returns them.
    protected: places below them.

    Raises ToolError if too much would have to be hidden, and OSError if a git folder cannot be listed.
    """
    sandbox.require_root()
    root, starts = sandbox.root, _outermost([*sandbox.starts(), *writable])
    shown, changed = ([root / one for one in some] for some in (starts, writable))
    files = CommandFiles(shown, changed, protected=[root / one for one in protected])
    of_kernel, seen = kernel_folders(root), 0

    def hide(path: str, *, is_folder: bool) -> None:
        if not sandbox.is_short_enough(path):
            raise ToolError(f"{escape_path(path)[:200]}...: its path is too long to be hidden; remove it")
        (files.emptied if is_folder else files.closed).append(root / path)
        if len(files.protected) + len(files.emptied) + len(files.closed) > MOST_HIDDEN:
            raise ToolError(
                f"more than {MOST_HIDDEN:,} places below the root would have to be hidden, such as "
                f"{escape_path(path)}; {_NAME_FOLDERS}"
            )

    def is_hidden(path: str, rules: IgnoreRules, *, is_folder: bool) -> bool:
        if f"/{path}".casefold().endswith("/.git") or sandbox.is_closed(path, is_folder=is_folder):
            return True
        if any(f"{one}/".startswith(f"{path}/") or path.startswith(f"{one}/") for one in writable):
            # What commands write, they can read: build folders are usually ignored.
            return False
        return not sandbox.is_selected(path, is_folder=is_folder) or rules.hide(path, is_folder=is_folder)

    interpreter = python_folders(root)
    environment = [] if interpreter is None else [f"{_ENVIRONMENT}/{name}" for name in _OF_ENVIRONMENT]
    pending = [(start, sandbox.parent_rules(start)) for start in starts if (root / start).is_dir()]
    while pending:
        here, rules = pending.pop()
        inner: list[tuple[str, IgnoreRules]] = []
        try:
            with folder(root, here) as opened, opened.listing() as found:
                rules = rules.within(opened, here)
                for item in found:
                    check_cancelled()
                    seen += 1
                    if seen > MOST_ENTRIES:
                        raise ToolError(f"the root has more than {MOST_ENTRIES:,} files and folders; {_NAME_FOLDERS}")
                    path = f"{here}/{item.name}" if here else item.name
                    is_folder = path in of_kernel or item.is_dir(follow_symlinks=False)
                    is_plain = path not in of_kernel and (is_folder or item.is_file(follow_symlinks=False))
                    if path not in of_kernel and (item.is_symlink() or path == ".git"):
                        continue  # the target of a symlink is elsewhere
                    if environment and path == _ENVIRONMENT:
                        # Its other files are hidden, such as settings of pip, which can contain credentials.
                        inner.append((path, rules))
                        continue
                    if path in environment:
                        continue
                    if not is_plain or is_hidden(path, rules, is_folder=is_folder):
                        hide(path, is_folder=is_folder)
                    elif is_folder:
                        inner.append((path, rules))
        except OSError:
            # Commands may have other rights than this process, and its rules are unknown.
            hide(here, is_folder=True)
        else:
            pending += inner
    if interpreter is not None:
        # A mount follows links.
        mine = [root / one for one in environment if (root / one).exists() and not (root / one).is_symlink()]
        files.programs = root / _ENVIRONMENT / "bin"
        files.shown += [*interpreter, *(one for one in mine if not any(top in one.parents for top in files.shown))]
        files.protected += [one for one in mine if any(top in one.parents for top in files.writable)]
    above = {parent for place in (*files.protected, *files.emptied, *files.closed) for parent in place.parents}
    files.pinned = sorted(path for path in above if any(top in path.parents for top in files.writable))
    if "" in starts:
        _add_git(root, files)
    return files


# Folder of the Python environment of a project.
_ENVIRONMENT = ".venv"
# What its interpreter needs.
_OF_ENVIRONMENT = ("bin", "lib", "lib64", "pyvenv.cfg")


def python_folders(root: Path) -> list[Path] | None:
    """Return the folders of the interpreter of the project's environment, none for one of the system.

    None if there is no environment, if a link leads out of it, or if its interpreter is not one that the system, uv or
    pyenv has installed: the environment belongs to the project, and must not be able to open any other folder.
    root: a real path.
    """
    folder = root / _ENVIRONMENT
    with suppress(OSError, ValueError, IndexError):
        # A link in the path could lead anywhere.
        inside = [folder / "bin", folder / "lib", folder / "pyvenv.cfg"]
        if any(os.path.realpath(one, strict=True) != str(one) for one in inside):
            return None
        python = Path(os.path.realpath(folder / "bin" / "python", strict=True))
        if any(python.is_relative_to(one) for one in ("/usr", "/bin")):
            return []
        for place in _installed_pythons():
            if python.parent.name == "bin" and str(python.parents[2]) == os.path.realpath(place):
                # Also the links to it, by which the environment may name it.
                links = (one for one in place.iterdir() if os.path.realpath(one) == str(python.parents[1]))
                return [*dict.fromkeys([python.parents[1], *links])]
    return None


def _installed_pythons() -> Iterator[Path]:
    """Yield the folders, given by the user's environment, each of whose folders is an interpreter."""
    home, given = Path(os.path.expanduser("~")), os.environ.get  # noqa: PTH111 - a text without a home folder
    yield Path(given("UV_PYTHON_INSTALL_DIR") or Path(given("XDG_DATA_HOME") or home / ".local/share") / "uv/python")
    yield Path(given("PYENV_ROOT") or home / ".pyenv") / "versions"


def kernel_folders(root: Path, mounts: str = "/proc/self/mountinfo") -> frozenset[str]:
    """Return the folders below a root that show the kernel's processes, devices or settings, relative to the root."""
    found = set()
    with suppress(OSError):
        for line in Path(mounts).read_text("utf-8", "surrogateescape").splitlines():
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
        relative = "/".join(part for part in path.replace(os.sep, "/").split("/") if part not in {"", "."})
        if why := _why_not_writable(root, relative):
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
        if os.path.realpath(real, strict=True) != str(real):
            return "it is a link, or below one"
    except (OSError, ValueError) as error:
        return f"it cannot be opened: {getattr(error, 'strerror', None) or error}"
    return "" if real.is_dir() or real.is_file() else "it is no folder and no file"


def _outermost(paths: Sequence[str]) -> list[str]:
    """Return the paths that are not below another one."""
    unique = dict.fromkeys(paths)
    if "" in unique:
        return [""]
    return [path for path in unique if not any(path.startswith(f"{other}/") for other in unique)]


_LARGEST = 1_000_000
# Settings that git needs to read a repository, with their sections.
_KEPT = dict.fromkeys(
    ("repositoryformatversion", "filemode", "bare", "ignorecase", "precomposeunicode", "symlinks"), "core"
) | dict.fromkeys(("objectformat", "refstorage", "worktreeconfig", "compatobjectformat"), "extensions")
_SETTING = re.compile(rf"^[ \t]*({'|'.join(_KEPT)})[ \t]*=[ \t]*(\w+)[ \t\r]*$", re.MULTILINE | re.IGNORECASE)


def git_paths(root: Path) -> list[Path]:
    """Return the git folders of a root, and its file that names them; empty if there is none that may be shown.

    root: a real path. In a worktree the folders are elsewhere; they are used only if they name this root themselves, so
    that no file of a project can open another folder.
    """
    own = root / ".git"
    with suppress(OSError, ValueError):
        if own.is_dir() and not own.is_symlink():
            return [own]
        if own.is_file() and not own.is_symlink():
            inner = Path(os.path.realpath(root / _read(own).removeprefix("gitdir:").strip()))
            common = Path(os.path.realpath(inner / _read(inner / "commondir").strip()))
            is_known = os.path.realpath(_read(inner / "gitdir").strip()) == str(own)
            is_whole = (common / "HEAD").is_file() and (common / "objects").is_dir()
            if is_known and is_whole and inner.parent == common / "worktrees":
                return [own, common, inner]
    return []


def _add_git(root: Path, files: CommandFiles) -> None:
    """Show the history of git, without settings, credentials and submodules, which have settings of their own."""
    own, paths = root / ".git", git_paths(root)
    if not paths and not own.is_symlink() and own.exists():
        (files.emptied if own.is_dir() else files.closed).append(own)
    # The first one is in the root; a sandbox would follow a link that was put in its place meanwhile.
    files.shown += paths[1:]
    for git in filter(Path.is_dir, paths):
        with os.scandir(git) as entries:
            for entry in entries:
                if entry.name == "modules" and entry.is_dir():
                    files.emptied.append(git / "modules")
                elif entry.is_file(follow_symlinks=False) and is_secret(entry.name):
                    files.closed.append(git / entry.name)
                elif entry.name in {"config", "config.worktree"} and entry.is_file():
                    files.git_settings.append(git / entry.name)


def plain_config(path: Path) -> str:
    """Return the settings in a file that a repository needs, without remotes, which can contain credentials."""
    with suppress(OSError, ValueError):
        found = _SETTING.findall(_read(path))
        return "".join(f"[{_KEPT[key.lower()]}]\n\t{key} = {value}\n" for key, value in found)
    return ""


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LARGEST).decode("utf-8", "surrogateescape")
