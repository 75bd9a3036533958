"""Find, analyse and import the modules of a project, from the bytes that were inspected."""

import ast
import glob
import hashlib
import importlib
import itertools
import os
import pkgutil
import re
import shlex
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import machinery
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, resolve_name, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import ClassVar

from run_specialist.errors import errors_as
from run_specialist.safety.safe_files import open_file
from run_specialist.specialist.mcp_servers import ServerConfig

_INSTALL_FOLDERS = {"site-packages", "dist-packages"}
_STDLIB_FOLDERS = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
_LOADERS = (
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
)
_COMPILED = frozenset(
    {*machinery.BYTECODE_SUFFIXES, *(f".{suffix.rpartition('.')[2]}" for suffix in machinery.EXTENSION_SUFFIXES)}
)


class CannotImport(Exception):
    """A module is missing or ambiguous; `str(error)` gives its name and the reason."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module, or one of the packages that contain it."""

    name: str
    path: Path | None
    """Source file; None for a namespace package or a built-in or frozen module."""
    data: bytes = b""
    """Content of the file."""
    folders: tuple[str, ...] | None = None
    """Search paths for submodules; None if it is not a package."""

    @property
    def digest(self) -> str:
        """SHA-256 of the file's content."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def is_installed(self) -> bool:
        """Whether it is in the standard library or installed, e.g. in a project's `.venv`."""
        return any(
            _INSTALL_FOLDERS & {*Path(place).parts} or place.startswith(_STDLIB_FOLDERS) for place in self._places
        )

    def is_below(self, root: Path) -> bool:
        """Return whether it is in a project."""
        top = os.path.realpath(root)
        return any(Path(os.path.realpath(place)).is_relative_to(top) for place in self._places)

    def is_own(self, root: Path) -> bool:
        """Return whether it is in a project and not installed there."""
        return self.is_below(root) and not self.is_installed

    @property
    def _places(self) -> Sequence[str]:
        return self.folders or () if self.path is None else (str(self.path),)


def find(name: str, root: Path) -> tuple[Module, ...]:
    """Return a module preceded by its parent packages, outermost first; no code is executed.

    The root is searched first, then installed modules.
    Raises CannotImport.
    """
    top, *inner = itertools.accumulate(name.split("."), "{}.{}".format)
    chain = [_top_level(top, root)]
    for full in inner:
        chain.append(_submodule(chain[-1], full))
    return tuple(chain)


def _find_in_project(name: str, parent: Module | None, root: Path, folders: Sequence[Path] = ()) -> Module | None:
    """Return the module that a project's code would import by a full name, or None if it is not in the project.

    parent: its parent package; None for a top-level module.
    folders: folders with top-level modules, in the order of the search; none = the root.
    """
    # What cannot be found here, the import will not find either.
    with suppress(CannotImport, ValueError):
        if parent is not None:
            return _submodule(parent, name)
        local = _spec_in([str(folder) for folder in folders or (root,)], name)
        module = _module_of(local) if local else _top_level(name, folders[0] if folders else root)
        return module if module.is_own(root) else None
    return None


def _submodule(parent: Module, name: str) -> Module:
    spec = _spec_in(parent.folders or (), name)
    if spec is None:
        raise CannotImport(f"no module {name} in {', '.join(parent.folders or ()) or parent.path}")
    return _module_of(spec)


def _top_level(name: str, root: Path) -> Module:
    local, installed = _spec_in([str(root)], name), None
    with suppress(ImportError, ValueError):
        installed = find_spec(name)
    # As in Python itself, a namespace package never shadows a regular one.
    is_regular = installed is not None and not _is_namespace(installed)
    if local is None or (_is_namespace(local) and is_regular):
        if installed is None:
            raise CannotImport(f"no module {name} in {root} or among the installed packages")
        return _module_of(installed)
    module = _module_of(local)
    if installed is not None and is_regular and not _is_same(module, installed):
        raise CannotImport(
            f"{name} is ambiguous: it is also the name of {installed.origin}; rename the module in {root}, or install "
            "it so that both are the same"
        )
    return module


def _spec_in(folders: Iterable[str], name: str) -> ModuleSpec | None:
    """Return the spec of a module in some folders; namespace portions are combined."""
    portions: list[str] = []
    for folder in folders:
        spec = machinery.FileFinder(folder, *_LOADERS).find_spec(name)
        if spec is not None and spec.loader is not None:
            return spec
        if spec is not None:
            portions += spec.submodule_search_locations or ()
    return _namespace(name, portions) if portions else None


def _namespace(name: str, folders: Iterable[str]) -> ModuleSpec:
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [*folders]
    return spec


def _is_namespace(spec: ModuleSpec) -> bool:
    return spec.origin is None and spec.submodule_search_locations is not None


def _module_of(spec: ModuleSpec) -> Module:
    """Return a module with the content of its file; raises CannotImport if that cannot be read."""
    folders = None if spec.submodule_search_locations is None else tuple(spec.submodule_search_locations)
    if not spec.has_location or spec.origin is None:
        return Module(spec.name, None, folders=folders)
    path = Path(spec.origin)
    with errors_as(CannotImport, f"{path} cannot be read", OSError):
        return Module(spec.name, path, path.read_bytes(), folders)


def _is_same(module: Module, spec: ModuleSpec) -> bool:
    """Return whether a spec would load the same file or folders as a module."""
    if module.path is None:
        loaded = {os.path.realpath(folder) for folder in spec.submodule_search_locations or ()}
        return not spec.has_location and {os.path.realpath(folder) for folder in module.folders or ()} <= loaded
    return spec.origin is not None and os.path.realpath(module.path) == os.path.realpath(spec.origin)


MAX_PATHS = 10_000
"""Maximum number of paths tried for one command: each of its words in each folder it names."""
MAX_SIZE = 64 * 1024 * 1024
"""Maximum total size of the files of one command [bytes]."""

MAX_FOUND = 2_000
"""Maximum number of files in one folder of a search path."""

_NOT_SEARCHED = frozenset({"__pycache__", ".git", ".venv", "node_modules"})
# Extensions of data files that servers write themselves.
_DATA = frozenset(
    ".csv .db .duckdb .json .jsonl .log .md .ndjson .parquet .pdf .sqlite .sqlite3 .tsv .txt".split()  # noqa: SIM905
)
# Options and variables that name such a file, e.g. `--db-path` and `MEMORY_FILE_PATH`.
_DATA_NAME = re.compile(
    r"-{0,2}([a-z0-9]+[-_])*(db|database|sqlite|duckdb|logs?|logfile|memory|history|cache|storage|output)"
    r"([-_](path|file|name|uri|url))*",
    re.IGNORECASE,
)
_INTERPRETER = re.compile(
    r"(python|pypy|perl|ruby|php|lua|luajit|tclsh|wish|expect)w?[\d.]*|node|nodejs|bun|deno|tsx|ts-node|\w{0,4}sh|rscript"
    r"|r|julia|java|groovy|scala|guile|racket|osascript|powershell|cmd|[gmn]?awk|sed|busybox",
    re.IGNORECASE,
)
# Variables with folders in which programs look up what they execute.
_SEARCH_PATHS = frozenset(
    "PYTHONPATH PYTHONHOME PYTHONUSERBASE NODE_PATH RUBYLIB PERL5LIB PERLLIB LUA_PATH LUA_CPATH CLASSPATH GEM_PATH "  # noqa: SIM905
    "GEM_HOME LD_LIBRARY_PATH DYLD_LIBRARY_PATH PHP_INI_SCAN_DIR GIT_EXEC_PATH PATH".split()
)
# Files of a folder that an interpreter executes, or reads to know what to execute, when it is given the folder.
_STARTED_IN_FOLDERS = ("__main__.py", "index.js", "index.mjs", "package.json")
# Files that a script of JavaScript imports by a relative path, and commands and sourced files of a shell script.
_NAMED_IN_SCRIPT = re.compile(
    rb"""\b(?:require\s{0,9}\(|from|import\s{0,9}\(?)\s{0,9}["'`](\.{1,2}/[^"'`\n]{1,300})["'`]"""
    rb"""|(?:^|[;&|(])[ \t]{0,99}(?:(?:then|do|else|if|while|exec)[ \t]{1,9}){0,5}"""
    rb"""(?:(?:\.|source|sh|bash|python3?|node)[ \t]{1,9})?"""
    rb"""["']?([\w./$+@-]{1,300})""",
    re.MULTILINE,
)
# What Node.js and its relatives add to the name of an imported file.
_EXTENSIONS = ("", ".js", ".mjs", ".cjs", ".ts", ".json", "/index.js", "/index.ts", "/package.json")
# Modules that the standard library tries to import.
_OPTIONAL = frozenset({"sitecustomize", "usercustomize", "org", "java"})
_CODE = "<argument>"


def started_files(server: ServerConfig, project: Path) -> tuple[str, ...] | None:
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
    folder, command = project / (server.cwd or ""), server.command or ("",)
    # A command without a folder is looked up in PATH.
    words = [command[0]] if os.path.dirname(command[0]) else []  # noqa: PTH120 - it may not be a path
    for word in (*command[1:], *(value for _, value in server.env)):
        words += [word, *word.split(os.pathsep), *_shell_split(word)]
    candidates = [*dict.fromkeys([*words, *(word.partition("=")[2] for word in words)])]
    variables = [*server.env, *((word.partition("=")[0], word.partition("=")[2]) for word in words)]
    named = [folder / word for word in candidates if os.path.isdir(folder / word)]  # noqa: PTH112 - may be any text, even with NUL
    folders = dict.fromkeys([folder, *named])
    if len(folders) * len(candidates) > MAX_PATHS:
        return None
    data = _data_words(command, server.env)
    paths = [word for word in candidates if not (word in data and Path(word).suffix.lower() in _DATA)]
    # Lua's paths have patterns, Java's wildcards; an empty part is the working folder.
    looked_up = [
        base / re.split(r"[?*]", one)[0].removesuffix("/")
        for base in folders
        for name, value in variables
        if name in _SEARCH_PATHS
        for one in value.split(os.pathsep)
    ]
    search = [one for one in looked_up if os.path.isdir(one) and _is_below(one, project)]  # noqa: PTH112 - as above
    found = _Files(project, search)
    try:
        for path in [
            *(base / word for base in folders for word in paths),
            *(base / name for base in named for name in _STARTED_IN_FOLDERS),
        ]:
            if os.path.isfile(path) and _is_below(path, project):  # noqa: PTH113 - as above
                found.add_file(path)
        for base in found.search:
            found.add_folder(base)
        for word in candidates:
            if "import" in word:
                # Python code as an argument, as after `-c`.
                found.add_modules((Module(_CODE, folder / _CODE, word.encode(errors="replace")),), folder)
        for word, following in itertools.pairwise([*command, ""]):
            name = word[2:] or following
            if word.startswith("-m") and all(part.isidentifier() for part in name.split(".")):
                for base in folders:
                    found.add_started(name, base)
    except OverflowError:
        return None
    return tuple(f"{path}:{hashlib.sha256(data).hexdigest()}" for path, data in sorted(found.files.items()))


def _data_words(command: Sequence[str], env: Sequence[tuple[str, str]]) -> set[str]:
    """Return the paths that only options and variables for data name, after the script if an interpreter runs one."""
    # Without the options of interpreters that take no value.
    words = [word for word in command if not re.fullmatch(r"-[uBOsPq]+", word)]
    is_script_unknown = any(
        _INTERPRETER.fullmatch(os.path.basename(one)) and (not after or re.match(r"-(?!m)", after))  # noqa: PTH119 - as above
        for one, after in itertools.pairwise([*words, ""])
    )
    data, others = set[str](), {command[0]}
    for name, value in env:
        (data if _DATA_NAME.fullmatch(name) else others).add(value)
    for before, word in itertools.pairwise(command):
        name, _, value = word.partition("=") if word.startswith("-") and "=" in word else (before, "", word)
        if name.startswith("-") and _DATA_NAME.fullmatch(name) and not is_script_unknown:
            data.add(value)
        else:
            others |= {word, word.partition("=")[2], *_shell_split(word)}
    return data - others


def _shell_split(line: str) -> list[str]:
    with suppress(ValueError):
        return shlex.split(line)
    return line.split()


class _Files:
    """The files of a project that a command executes; its methods raise OverflowError if they cannot be known."""

    def __init__(self, project: Path, search: Iterable[Path]) -> None:
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
                self.add_modules((Module("__main__", real, data),), real.parent)
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
            relative = re.sub(r"^\$\w+/", "", name)  # `$HERE/`, the folder of the script
            for extension in _EXTENSIONS if name.startswith(".") else ("",):
                for base in dict.fromkeys((folder, self._project)):
                    path = base / f"{relative}{extension}"
                    if os.path.isfile(path) and _is_below(path, self._project):  # noqa: PTH113 - any text
                        yield path

    def add_started(self, name: str, folder: Path) -> None:
        """Add a module that is started by its name, and what it imports."""
        chain: list[Module] = []
        for full in itertools.accumulate([*name.split("."), "__main__"], "{}.{}".format):
            parent = chain[-1] if chain else None
            module = _find_in_project(full, parent, self._project, (folder, *self.search))
            if module is None:
                break
            chain.append(module)
        self.add_modules(chain, folder)

    def add_folder(self, folder: Path) -> None:
        """Add all files below a folder, as any program may look them up, even the standard library."""
        count, seen = 0, set()
        for place, names, files in os.walk(folder, followlinks=True):
            names[:] = [name for name in names if name not in _NOT_SEARCHED]
            if (real := os.path.realpath(place)) in seen or not _is_below(Path(real), self._project):
                names.clear()
                continue
            seen.add(real)
            count += len(files)
            if count > MAX_FOUND:
                raise OverflowError
            for name in files:
                if self._add(Path(place, name)) is not None and name.endswith(".py"):
                    self._add_compiled(Path(place, name))

    def add_modules(self, chain: Sequence[Module], folder: Path) -> None:
        """Add modules, all that they import from a folder, and the modules there that replace installed ones."""
        folder = Path(os.path.realpath(folder))
        beside = () if folder in self._beside else [*_replacing(folder, self._project)]
        self._beside.add(folder)
        found, is_whole = imported((*chain, *beside), self._project, (folder, *self.search))
        if not is_whole:
            raise OverflowError
        for module in (*chain, *beside, *found):
            if module.path is not None and module.name != _CODE and module.is_own(self._project):
                self._add(module.path, module.data)
                self._add_compiled(module.path)

    def _add_compiled(self, path: Path) -> None:
        """Add compiled modules that Python loads without comparing them to their source by time and size.

        Others are ignored, because servers do not look for compiled modules in the project.
        """
        for compiled in path.parent.glob(f"__pycache__/{glob.escape(path.stem)}.*.pyc"):
            with suppress(OSError), open_file(compiled, None) as file:
                # The fifth byte says whether Python compares the source by its hash, or not at all.
                if file.read(5)[4:] > b"\0":
                    self._add(compiled)

    def _add(self, path: Path, data: bytes | None = None) -> bytes | None:
        """Add a file and return its content; None if it cannot be read, and so cannot be started either."""
        if data is None:
            with suppress(OSError), open_file(path, None) as file:
                data = file.read(MAX_SIZE + 1)
        if data is None:
            return None
        name = os.path.abspath(path)  # noqa: PTH100 - must not resolve symlinks
        self._size += len(data) - len(self.files.get(name, b""))
        self.files[name] = data
        if self._size > MAX_SIZE:
            raise OverflowError
        return data


def _replacing(folder: Path, project: Path) -> Iterator[Module]:
    """Yield the modules beside a script that any import of theirs finds in place of installed ones."""
    installed = [str(place) for place in project.glob(".venv/lib/python*/site-packages")]
    installed += [place for place in sys.path if not _is_below(Path(place), project)]
    for name in [one.name for one in pkgutil.iter_modules([str(folder)])] if folder.is_dir() else ():
        if name in sys.stdlib_module_names or name in _OPTIONAL or machinery.PathFinder.find_spec(name, installed):
            module = _find_in_project(name, None, project, (folder,))
            if module is not None:
                yield module


def _is_below(path: Path, project: Path) -> bool:
    """Return whether a path is in the project, before or after resolving symlinks."""
    roots, names = ((os.path.abspath(one), os.path.realpath(one)) for one in (project, path))  # noqa: PTH100 - as above
    return any(Path(name).is_relative_to(root) for name in names for root in roots)


MAX_MODULES = 1_000
"""Maximum number of modules to follow; a user cannot have reviewed more."""
MAX_SOURCE = 32 * 1024 * 1024
"""Maximum total size of the source to follow [bytes]."""

# Parsers of Python 3.11 share a counter between threads: two concurrent ones may raise SystemError.
_PARSING = threading.Lock()
_ALL_SUBMODULES = ".*"
_IMPORT_FUNCTIONS = frozenset({"__import__", "import_module", "run_module"})
# Functions that execute a file by its path.
_OTHER_IMPORTS = frozenset({"run_path", "spec_from_file_location", "load_module", "load_source", "load_dynamic"})


class _Unknown(Exception):
    """The imports of a module cannot be read, or have names that are known only when it runs."""


def imported(chain: Sequence[Module], root: Path, folders: Sequence[Path] = ()) -> tuple[tuple[Module, ...], bool]:
    """Follow the imports of modules within a project: at top level, in functions and under `TYPE_CHECKING`.

    Returns the imported modules sorted by name, without the starting ones, and whether all imports were followed. They
    were not above the limits, for source too deeply nested to parse, for compiled and native modules, and for names
    that are computed when the code runs.
    folders: folders with top-level modules, in the order of the search; none = the root.
    """
    queue = [module for module in chain if module.is_own(root)]
    found: dict[str, Module | None] = {module.name: module for module in chain}
    count, size, is_whole = 0, 0, True

    def look_up(name: str) -> None:
        """Look up a module and its parent packages, and follow those not seen before."""
        parent: Module | None = None
        parts = name.removesuffix(_ALL_SUBMODULES).split(".")
        for full in itertools.accumulate(parts, "{}.{}".format):
            if full not in found:
                found[full] = module = _find_in_project(full, parent, root, folders)
                queue.extend([module] if module is not None else [])
            parent = found[full]
            if parent is None:
                return
        if parent is not None and name.endswith(_ALL_SUBMODULES):
            # `__all__` may name any submodule.
            for one in pkgutil.iter_modules(parent.folders or ()):
                look_up(f"{parent.name}.{one.name}")

    while queue:
        module = queue.pop()
        size += len(module.data)
        count += 1
        if count > MAX_MODULES or size > MAX_SOURCE:
            return (), False
        try:
            for name in [*_imported_names(module)]:
                look_up(name)
        except _Unknown:
            is_whole = False
    for module in chain:
        found.pop(module.name, None)
    others = (one for _, one in sorted(found.items()) if one is not None and one.path is not None)
    return tuple(others), is_whole


def _imported_names(module: Module) -> Iterator[str]:
    """Yield the full names that a module imports; `from` imports may name submodules. Raises _Unknown."""
    if module.path is None:
        return
    if module.path.suffix in _COMPILED:
        raise _Unknown
    try:
        with _PARSING:
            tree = ast.parse(module.data, str(module.path))
    except (SyntaxError, ValueError):
        # It cannot be imported either.
        return
    except (RecursionError, MemoryError):
        raise _Unknown from None
    package = module.name if module.folders is not None else module.name.rpartition(".")[0]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names = [f"{base}{'.' if node.module else ''}{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            match node.args:
                case [ast.Constant(value=str(name)), *_] if function in _IMPORT_FUNCTIONS:
                    names = [name]
                case _ if function in _IMPORT_FUNCTIONS or function in _OTHER_IMPORTS:
                    raise _Unknown
        for name in names:
            with suppress(ImportError):  # beyond the top level
                yield resolve_name(name, package)


def load(chain: Sequence[Module], root: Path, neighbours: Iterable[Module] = ()) -> ModuleType:
    """Import the last module of a chain; modules that are already loaded are not reloaded.

    neighbours: other inspected modules; whenever they are imported, the inspected bytes are executed.
    Raises CannotImport if a different module with one of these names is loaded, and any exception of the modules.
    """
    for module in chain:
        loaded = sys.modules.get(module.name)
        spec = getattr(loaded, "__spec__", None)
        if loaded is not None and (spec is None or not _is_same(module, spec)):
            where = getattr(loaded, "__file__", None) or "elsewhere"
            raise CannotImport(
                f"another module named {module.name} is already loaded from {where}; rename one of them, or use them "
                "in separate processes"
            )
    if not chain[-1].is_below(root):
        # Installed modules may need their own loaders.
        return importlib.import_module(chain[-1].name)
    _ProjectFinder.add(os.path.realpath(root), neighbours)
    _ProjectFinder.chains.insert(0, chain)
    try:
        return importlib.import_module(chain[-1].name)
    finally:
        _ProjectFinder.chains.remove(chain)


def _pinned_spec(module: Module) -> ModuleSpec | None:
    """Return a spec that loads a module from its inspected bytes; compiled and native modules from their files."""
    if module.path is None:
        return _namespace(module.name, module.folders or ())
    if module.path.suffix not in machinery.SOURCE_SUFFIXES:
        return spec_from_file_location(module.name, module.path)
    folders = None if module.folders is None else list(module.folders)
    loader = _PinnedLoader(module)
    return spec_from_file_location(module.name, module.path, loader=loader, submodule_search_locations=folders)


class _PinnedLoader(machinery.SourceFileLoader):
    """Executes the inspected bytes, since the file and its compiled copy may have changed in the meantime."""

    def __init__(self, module: Module) -> None:
        super().__init__(module.name, str(module.path))
        self._data = module.data

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled source."""
        return self.source_to_code(self._data, self.get_filename(fullname))


class _ProjectFinder(MetaPathFinder):
    """Finds modules in the roots of projects, including those imported only when a function is called.

    Its first instance finds the modules of chains, and submodules before Python can load a compiled copy of them. Its
    last one finds other top-level modules, so that a project cannot shadow the standard library or installed packages.
    """

    # Chains that are being imported; their modules come before any others of their names.
    chains: ClassVar[list[Sequence[Module]]] = []
    # Inspected modules by resolved file path.
    inspected: ClassVar[dict[str, Module]] = {}
    roots: ClassVar[list[str]] = []

    def __init__(self, *, is_first: bool) -> None:
        self._is_first = is_first

    @classmethod
    def add(cls, root: str, modules: Iterable[Module]) -> None:
        """Add a project's root, and modules to be loaded from their inspected bytes."""
        cls.inspected |= {os.path.realpath(module.path): module for module in modules if module.path is not None}
        others = [finder for finder in sys.meta_path if not isinstance(finder, cls)]
        sys.meta_path[:] = [cls(is_first=True), *others, cls(is_first=False)]
        if root not in cls.roots:
            cls.roots.append(root)

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        """Return the spec of a submodule or of a top-level module, always of its source."""
        pinned = (module for chain in self.chains for module in chain if module.name == fullname)
        if self._is_first and (module := next(pinned, None)):
            return _pinned_spec(module)
        if self._is_first == (path is None):
            return None
        found = (_spec_in_project(fullname, [root] if path is None else path, root) for root in self.roots)
        return next(filter(None, found), None)


def _spec_in_project(name: str, folders: Iterable[str], root: str) -> ModuleSpec | None:
    """Return the spec of an inspected module, or of another one of the project, because its name is computed.

    Its source is executed, never a compiled copy, which anyone may have put beside it.
    """
    leaf = name.rpartition(".")[2]
    for place in (Path(folder, end) for folder in folders for end in (f"{leaf}/__init__.py", f"{leaf}.py")):
        module = _ProjectFinder.inspected.get(os.path.realpath(place))
        if module is not None and module.name == name:
            return _pinned_spec(module)
    spec = _spec_in([one for one in folders if Path(os.path.realpath(one)).is_relative_to(root)], name)
    with suppress(CannotImport):
        if spec is not None and not (module := _module_of(spec)).is_installed:
            return _pinned_spec(module)
    return None
