"""Project files that the command of an MCP server names: trusting the command means trusting these files."""

import glob
import hashlib
import os
import pkgutil
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from run_specialist.safe_files.safe_open import open_file
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.imports import imported
from run_specialist.tools.modules import Module, find_in_project

MAX_PATHS = 10_000
"""Maximum number of paths tried for one command: each of its words in each folder it names."""
MAX_SIZE = 64 * 1024 * 1024
"""Maximum total size of the files of one command [bytes]."""

MAX_FOUND = 2_000
"""Maximum number of files in one folder of a search path."""

_NOT_SEARCHED = frozenset({"__pycache__", ".git", ".venv", "node_modules"})
_DATA = frozenset(
    ".csv .db .duckdb .json .jsonl .log .md .ndjson .parquet .pdf .sqlite .sqlite3 .tsv .txt".split()  # noqa: SIM905
)
"""Extensions of data files that servers write themselves."""
_DATA_NAME = re.compile(
    r"-{0,2}([a-z0-9]+[-_])*(db|database|sqlite|duckdb|logs?|logfile|memory|history|cache|storage|output)"
    r"([-_](path|file|name|uri|url))*",
    re.IGNORECASE,
)
"""Options and variables that name such a file, e.g. `--db-path` and `MEMORY_FILE_PATH`."""
_INTERPRETER = re.compile(
    r"(python|pypy|perl|ruby|php|lua|luajit|tclsh|wish|expect)w?[\d.]*|node|nodejs|bun|deno|tsx|ts-node|\w{0,4}sh|rscript"
    r"|r|julia|java|groovy|scala|guile|racket|osascript|powershell|cmd|[gmn]?awk|sed|busybox",
    re.IGNORECASE,
)
_FLAGS = re.compile(r"-[uBOsPq]+")
"""Options of interpreters that take no value."""
_SEARCH_PATHS = frozenset(
    "PYTHONPATH PYTHONHOME PYTHONUSERBASE NODE_PATH RUBYLIB PERL5LIB PERLLIB LUA_PATH LUA_CPATH CLASSPATH GEM_PATH "  # noqa: SIM905
    "GEM_HOME LD_LIBRARY_PATH DYLD_LIBRARY_PATH PHP_INI_SCAN_DIR GIT_EXEC_PATH PATH".split()
)
"""Variables with folders in which programs look up what they execute."""
_STARTED_IN_FOLDERS = ("__main__.py", "index.js", "index.mjs", "package.json")
"""Files of a folder that an interpreter executes, or reads to know what to execute, when it is given the folder."""
_NAMED_IN_SCRIPT = re.compile(
    rb"""\b(?:require\s{0,9}\(|from|import\s{0,9}\(?)\s{0,9}["'`](\.{1,2}/[^"'`\n]{1,300})["'`]"""
    rb"""|(?:^|[;&|(])[ \t]{0,99}(?:(?:then|do|else|if|while|exec)[ \t]{1,9}){0,5}"""
    rb"""(?:(?:\.|source|sh|bash|python3?|node)[ \t]{1,9})?"""
    rb"""["']?([\w./$+@-]{1,300})""",
    re.MULTILINE,
)
"""Files that a script of JavaScript imports by a relative path, and commands and sourced files of a shell script."""
_FOLDER_OF_SCRIPT = re.compile(r"^\$\w+/")
_EXTENSIONS = ("", ".js", ".mjs", ".cjs", ".ts", ".json", "/index.js", "/index.ts", "/package.json")
"""What Node.js and its relatives add to the name of an imported file."""
_OPTIONAL = frozenset({"sitecustomize", "usercustomize", "org", "java"})
"""Modules that the standard library tries to import."""
_CODE = "<argument>"
_HASH_BASED = 1
"""Flag in the header of a compiled module whose source Python compares by its hash or not at all."""


def started_files(server: ServerConfig, project: Path) -> tuple[str, ...] | None:  # noqa: C901 - one kind of file after another
    """Return `path:digest` for each project file that a server's command would execute.

    Candidates are the words of the command and the values of `env`, relative to the working folder and to every
    folder they name; modules after `-m`; the project modules that Python files import; what lies in a folder of
    `PYTHONPATH` and the like; modules beside a script that replace installed ones; and compiled modules that Python
    would load in place of their source. A data file counts too, unless an option such as `--db` names it.
    Returns None if there are more files than the limits allow, or if a file imports what cannot be known.
    """
    if server.command is None:
        return ()
    with suppress(ValueError):  # a server with an unset variable does not start
        server = server.expanded(os.environ)
    folder = project / (server.cwd or "")
    candidates = list(dict.fromkeys(_path_candidates(server)))
    named = [folder / word for word in candidates if os.path.isdir(folder / word)]  # noqa: PTH112 - may be any text, even with NUL
    folders = dict.fromkeys([folder, *named])
    if len(folders) * len(candidates) > MAX_PATHS:
        return None
    data = _data_words(server)
    paths = [
        base / word
        for base in folders
        for word in candidates
        if os.path.isfile(base / word)  # noqa: PTH113 - as above
        and not (word in data and Path(word).suffix.lower() in _DATA)
    ]
    paths += [base / name for base in named for name in _STARTED_IN_FOLDERS if os.path.isfile(base / name)]  # noqa: PTH113 - as above
    found = _Files(project, [one for base in folders for one in _search_folders(server, base, project)])
    try:
        for path in paths:
            if _is_below(path, project):
                found.add_file(path)
        for base in found.search:
            found.add_folder(base)
        for word in candidates:
            if "import" in word:
                found.add_code(word, folder)
        for name in _module_names(server.command or ()):
            for base in folders:
                found.add_module(name, base)
    except OverflowError:
        return None
    return tuple(f"{path}:{hashlib.sha256(data).hexdigest()}" for path, data in sorted(found.files.items()))


def _path_candidates(server: ServerConfig) -> Iterator[str]:
    """Yield strings that may be paths: words, the part after `=`, and the words of a shell command line."""
    program, *rest = server.command or ("",)
    if os.path.dirname(program):  # noqa: PTH120 - it may not be a path
        yield program  # without a folder, it is looked up in PATH
    for word in [*rest, *(value for _, value in server.env)]:
        words = [word, word.partition("=")[2], *word.split(os.pathsep), *_shell_split(word)]
        yield from dict.fromkeys([*words, *(one.partition("=")[2] for one in words[3:])])


def _data_words(server: ServerConfig) -> frozenset[str]:
    """Return the paths that only options and variables for data name, after the script if an interpreter runs one."""
    command = server.command or ("",)
    data, others = [value for name, value in server.env if _DATA_NAME.fullmatch(name)], set(command[:1])
    others |= {value for name, value in server.env if not _DATA_NAME.fullmatch(name)}
    script_is_unknown = False
    for index, word in enumerate(command[1:], 1):
        if _INTERPRETER.fullmatch(os.path.basename(command[index - 1])):  # noqa: PTH119 - it may not be a path
            rest = [one for one in command[index:] if not _FLAGS.fullmatch(one)][:1]
            script_is_unknown |= not rest or (rest[0].startswith("-") and not rest[0].startswith("-m"))
        name, _, value = word.partition("=")
        if word.startswith("-") and value and _DATA_NAME.fullmatch(name) and not script_is_unknown:
            data.append(value)
        elif command[index - 1].startswith("-") and _DATA_NAME.fullmatch(command[index - 1]) and not script_is_unknown:
            data.append(word)
        else:
            others |= {word, value, *_shell_split(word)}
    return frozenset(data) - others


def _search_folders(server: ServerConfig, base: Path, project: Path) -> Iterator[Path]:
    """Yield the project folders in which programs look up what they execute."""
    words = [one for word in server.command or () for one in (word, *_shell_split(word)) if "=" in one]
    pairs = [*server.env, *((word.partition("=")[0], word.partition("=")[2]) for word in words)]
    for name, value in pairs:
        for one in value.split(os.pathsep) if name in _SEARCH_PATHS else ():
            # Lua's paths have patterns, Java's wildcards; an empty part is the working folder.
            place = base / re.split(r"[?*]", one)[0].removesuffix("/")
            if os.path.isdir(place) and _is_below(place, project):  # noqa: PTH112 - as above
                yield place


def _shell_split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _module_names(command: Sequence[str]) -> Iterator[str]:
    """Yield the module names after `-m`."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word.startswith("-m"):
            name = word[2:] or following
            if all(part.isidentifier() for part in name.split(".")):
                yield name


class _Files:
    """The files of a project that a command executes."""

    def __init__(self, project: Path, search: Sequence[Path]) -> None:
        self.files: dict[str, bytes] = {}
        """Content by absolute path."""
        self.search = [Path(os.path.realpath(folder)) for folder in dict.fromkeys(search)]
        """Folders of `PYTHONPATH` and the like."""
        self._project = project
        self._size = 0
        self._beside: set[Path] = set()

    def add_file(self, path: Path) -> None:
        """Add a file, what it imports if it is a Python script, and the files that other scripts name."""
        queue = [path]
        while queue:
            path = queue.pop()
            data = None if os.path.abspath(path) in self.files else self._add(path)  # noqa: PTH100 - as below
            if data is None:
                continue
            if data[2:4] == b"\r\n" and b"\0" in data[4:16]:
                # A compiled module of any version of Python, which executes it under any name.
                raise OverflowError
            # Programs resolve a symlink to the script before they look for modules beside it.
            real = Path(os.path.realpath(path))
            # Python executes scripts of any name too, and a script of another language may start one.
            if b"import" in data:
                self._add_with_imports((Module("__main__", real, data),), real.parent)
            if path.suffix != ".py":
                queue += self._named(data, real.parent)
            if len(queue) > MAX_FOUND:
                raise OverflowError

    def _named(self, data: bytes, folder: Path) -> Iterator[Path]:
        """Yield the project files that a script of another language names literally, relative to itself or the root."""
        names = {os.fsdecode(one) for pair in _NAMED_IN_SCRIPT.findall(data) for one in pair if one}
        if len(names) > MAX_FOUND:
            raise OverflowError
        for name in names:
            plain = _FOLDER_OF_SCRIPT.sub("", name)
            for base in dict.fromkeys((folder, self._project)):
                for extension in _EXTENSIONS if name.startswith(".") else ("",):
                    path = base / f"{plain}{extension}"
                    if os.path.isfile(path) and _is_below(path, self._project):  # noqa: PTH113 - any text, NUL included
                        yield path

    def add_code(self, code: str, folder: Path) -> None:
        """Add what Python code imports that is an argument of the command, as after `-c`."""
        self._add_with_imports((Module(_CODE, folder / _CODE, code.encode(errors="replace")),), folder)

    def add_module(self, name: str, folder: Path) -> None:
        """Add a module that is started by its name, and what it imports."""
        chain: list[Module] = []
        for part in [*name.split("."), "__main__"]:
            full = ".".join([*(one.name for one in chain[-1:]), part])
            parent = chain[-1] if chain else None
            module = find_in_project(full, parent, self._project, (folder, *self.search))
            if module is None:
                break
            chain.append(module)
        self._add_with_imports(chain, folder)

    def add_folder(self, folder: Path) -> None:
        """Add all files below a folder, as any program may look them up, even the standard library."""
        count, seen = 0, set()
        for place, names, files in os.walk(folder, followlinks=True):
            names[:] = [name for name in names if name not in _NOT_SEARCHED]
            if (real := os.path.realpath(place)) in seen or not _is_below(Path(real), self._project):
                names.clear()
                continue
            seen.add(real)
            for path in (Path(place, name) for name in files):
                count += 1
                if count > MAX_FOUND:
                    raise OverflowError
                data = self._add(path)
                if data is not None and path.suffix == ".py":
                    self._add_compiled(path)

    def _add_with_imports(self, chain: Sequence[Module], folder: Path) -> None:
        """Add modules and all that they import from a folder; raises OverflowError if that cannot be known."""
        folder = Path(os.path.realpath(folder))
        beside = () if folder in self._beside else _replacing(folder, self._project)
        self._beside.add(folder)
        found = imported((*chain, *beside), self._project, (folder, *self.search))
        for module in (*chain, *beside, *found.modules):
            if module.path is None or module.name == _CODE:
                continue
            if module.is_below(self._project) and not module.is_installed:
                self._add_content(module.path, module.data)
                self._add_compiled(module.path)
        if not found.is_whole:
            raise OverflowError

    def _add_compiled(self, path: Path) -> None:
        """Add compiled modules that Python loads without comparing them to their source by time and size.

        Others are ignored, because servers do not look for compiled modules in the project.
        """
        for compiled in path.parent.glob(f"__pycache__/{glob.escape(path.stem)}.*.pyc"):
            data = self._read(compiled)
            if data is not None and data[4:5] and data[4] & _HASH_BASED:
                self._add_content(compiled, data)

    def _add(self, path: Path) -> bytes | None:
        data = self._read(path)
        if data is not None:
            self._add_content(path, data)
        return data

    def _read(self, path: Path) -> bytes | None:
        """Return a file's content; None if it cannot be read, and so cannot be started either."""
        try:
            with open_file(path, None) as file:
                return file.read(MAX_SIZE + 1)
        except OSError:
            return None

    def _add_content(self, path: Path, data: bytes) -> None:
        name = os.path.abspath(path)  # noqa: PTH100 - must not resolve symlinks
        self._size += len(data) - len(self.files.get(name, b""))
        self.files[name] = data
        if self._size > MAX_SIZE:
            raise OverflowError


def _replacing(folder: Path, project: Path) -> Sequence[Module]:
    """Return the modules beside a script that any import of theirs finds in place of installed ones."""
    places = [str(place) for place in project.glob(".venv/lib/python*/site-packages")]
    installed = {one.name for one in pkgutil.iter_modules(places)}
    found = []
    for name in [one.name for one in pkgutil.iter_modules([str(folder)])] if folder.is_dir() else ():
        if name in sys.stdlib_module_names or name in _OPTIONAL or name in installed or _is_installed(name, project):
            module = find_in_project(name, None, project, (folder,))
            found += [module] if module is not None else []
    return found


def _is_installed(name: str, project: Path) -> bool:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return False
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.origin else [])]
    return spec is not None and not any(_is_below(Path(place), project) for place in places)


def _is_below(path: Path, project: Path) -> bool:
    """Return whether a path is in the project, before or after resolving symlinks."""
    roots: Iterable[str] = (os.path.abspath(project), os.path.realpath(project))  # noqa: PTH100 - as above
    names = (os.path.abspath(path), os.path.realpath(path))  # noqa: PTH100 - as above
    return any(Path(name).is_relative_to(root) for name in names for root in roots)
