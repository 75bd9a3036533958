"""Project files that the command of an MCP server names: trusting the command means trusting these files."""

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from run_specialist.safe_files.safe_open import open_file
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.imports import imported
from run_specialist.tools.modules import Module, find_in_project

MAX_PATHS = 10_000
"""Maximum number of paths tried for one command: each of its words in each folder it names."""
MAX_SIZE = 64 * 1024 * 1024
"""Maximum total size of the files of one command [bytes]."""

_DATA = frozenset(
    ".csv .db .duckdb .json .jsonl .log .md .ndjson .parquet .pdf .sqlite .sqlite3 .tsv .txt".split()  # noqa: SIM905
)
"""Extensions of data files that servers write themselves: they change often, and are not executed."""


def started_files(server: ServerConfig, project: Path) -> tuple[str, ...] | None:
    """Return `path:digest` for each project file that a server's command names.

    Candidates are the words of the command and the values of `env`, relative to the working folder and to every
    folder they name; modules after `-m`; and the project modules that Python files import.
    Returns None if there are more files than the limits allow.
    """
    if server.command is None:
        return ()
    with suppress(ValueError):  # a server with an unset variable does not start
        server = server.expanded(os.environ)
    folder = project / (server.cwd or "")
    candidates = list(dict.fromkeys(_path_candidates(server)))
    folders = dict.fromkeys([folder, *(folder / word for word in candidates if os.path.isdir(folder / word))])  # noqa: PTH112 - may be any text, even with NUL
    if len(folders) * len(candidates) > MAX_PATHS:
        return None
    paths = [base / word for base in folders for word in candidates if os.path.isfile(base / word)]  # noqa: PTH113 - as above
    files: dict[str, bytes] = {}
    try:
        for path in paths:
            if _is_below(path, project) and path.suffix.lower() not in _DATA:
                _add_file(path, project, files)
        for name in _module_names(server.command or ()):
            for base in folders:
                _add_module(name, base, files, project)
    except OverflowError:
        return None
    return tuple(f"{path}:{hashlib.sha256(data).hexdigest()}" for path, data in sorted(files.items()))


def _path_candidates(server: ServerConfig) -> Iterator[str]:
    """Yield strings that may be paths: words, the part after `=`, and the words of a shell command line."""
    program, *rest = server.command or ("",)
    if os.path.dirname(program):  # noqa: PTH120 - it may not be a path
        yield program  # without a folder, it is looked up in PATH
    for word in [*rest, *(value for _, value in server.env)]:
        yield from dict.fromkeys([word, word.partition("=")[2], *word.split(os.pathsep), *_shell_split(word)])


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


def _add_module(name: str, folder: Path, files: dict[str, bytes], project: Path) -> None:
    chain: list[Module] = []
    for part in [*name.split("."), "__main__"]:
        module = find_in_project(
            ".".join([*(one.name for one in chain[-1:]), part]), chain[-1] if chain else None, folder
        )
        if module is None:
            break
        chain.append(module)
    _add_with_imports(chain, folder, files, project)


def _add_file(path: Path, project: Path, files: dict[str, bytes]) -> None:
    try:
        with open_file(path, None) as file:
            data = file.read(MAX_SIZE + 1)
    except OSError:
        return  # an unreadable file cannot be started either
    _add_content(path, data, files)
    if path.suffix == ".py":
        # Python resolves a symlink to the script before it looks for modules beside it.
        real = Path(os.path.realpath(path))
        _add_with_imports((Module("__main__", real, data),), real.parent, files, project)


def _add_with_imports(chain: Sequence[Module], folder: Path, files: dict[str, bytes], project: Path) -> None:
    """Add modules and all they import from a folder; raises OverflowError above the limits."""
    found = imported(chain, folder)
    if not found.is_whole:
        raise OverflowError
    for module in (*chain, *found.modules):
        if module.path is not None and module.is_below(project) and not module.is_installed:
            _add_content(module.path, module.data, files)


def _add_content(path: Path, data: bytes, files: dict[str, bytes]) -> None:
    files[os.path.abspath(path)] = data  # noqa: PTH100 - must not resolve symlinks
    if sum(map(len, files.values())) > MAX_SIZE:
        raise OverflowError


def _is_below(path: Path, project: Path) -> bool:
    """Return whether a path is in the project, before or after resolving symlinks."""
    roots: Iterable[str] = (os.path.abspath(project), os.path.realpath(project))  # noqa: PTH100 - as above
    names = (os.path.abspath(path), os.path.realpath(path))  # noqa: PTH100 - as above
    return any(Path(name).is_relative_to(root) for name in names for root in roots)
