"""Files of a project that the command of an MCP server names: trust in the command is trust in them."""

import hashlib
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from run_specialist.safe_open import open_file
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.tools.imports import imported
from run_specialist.tools.modules import Module, neighbour

MOST = 10_000
"""Paths that are tried for one command: each of its words in each of the folders that it names."""
LARGEST = 64 * 1024 * 1024
"""What the files of a command may hold together [bytes]."""

_DATA = frozenset(
    ".csv .db .duckdb .json .jsonl .log .md .ndjson .parquet .pdf .sqlite .sqlite3 .tsv .txt".split()  # noqa: SIM905
)
"""Endings of files that servers write themselves: they change all the time, and nothing in them is run."""


def started_files(server: ServerConfig, project: Path) -> tuple[str, ...] | None:
    """Return a digest for each file of a project that a server's command names, with its path.

    Looked at are the words of the command and the values of `env`, seen from the folder that it works in and from
    every folder that they name; modules after `-m`; and what Python files import from beside them.
    Returns None where there is more of it than is looked at.
    """
    if server.command is None:
        return ()
    with suppress(ValueError):  # with a variable that is not set it will not start
        server = server.expanded(os.environ)
    folder = project / (server.cwd or "")
    words = list(dict.fromkeys(_words(server)))
    folders = dict.fromkeys([folder, *(folder / word for word in words if os.path.isdir(folder / word))])  # noqa: PTH112 - any text, NUL included
    if len(folders) * len(words) > MOST:
        return None
    named = [place / word for place in folders for word in words if os.path.isfile(place / word)]  # noqa: PTH113 - likewise
    files: dict[str, bytes] = {}
    try:
        for path in named:
            if _is_below(path, project) and path.suffix.lower() not in _DATA:
                _add(path, project, files)
        for name in _modules(server.command or ()):
            for place in folders:
                _add_module(name, place, files, project)
    except OverflowError:
        return None
    return tuple(f"{path}:{hashlib.sha256(data).hexdigest()}" for path, data in sorted(files.items()))


def _words(server: ServerConfig) -> Iterator[str]:
    """Yield what may be a path: words, what follows `=` in them, and the words of a line for a shell."""
    program, *rest = server.command or ("",)
    if os.path.dirname(program):  # noqa: PTH120 - a word, which need not be a path
        yield program  # without a folder it is looked up in PATH
    for word in [*rest, *(value for _, value in server.env)]:
        yield from dict.fromkeys([word, word.partition("=")[2], *word.split(os.pathsep), *_split(word)])


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _modules(command: Sequence[str]) -> Iterator[str]:
    """Yield the names after `-m`."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        if word.startswith("-m"):
            name = word[2:] or following
            if all(part.isidentifier() for part in name.split(".")):
                yield name


def _add_module(name: str, folder: Path, files: dict[str, bytes], project: Path) -> None:
    chain: list[Module] = []
    for part in [*name.split("."), "__main__"]:
        module = neighbour(".".join([*(one.name for one in chain[-1:]), part]), chain[-1] if chain else None, folder)
        if module is None:
            break
        chain.append(module)
    _add_all(chain, folder, files, project)


def _add(path: Path, project: Path, files: dict[str, bytes]) -> None:
    try:
        with open_file(path, None) as file:
            data = file.read(LARGEST + 1)
    except OSError:
        return  # nor can it be started
    _keep(path, data, files)
    if path.suffix == ".py":
        # Python looks for modules beside what a link leads to.
        real = Path(os.path.realpath(path))
        _add_all((Module("__main__", real, data),), real.parent, files, project)


def _add_all(chain: Sequence[Module], folder: Path, files: dict[str, bytes], project: Path) -> None:
    """Take modules with all that they import from a folder; raises OverflowError for too much."""
    found = imported(chain, folder)
    if not found.is_whole:
        raise OverflowError
    for module in (*chain, *found.modules):
        if module.path is not None and module.is_below(project) and not module.is_installed:
            _keep(module.path, module.data, files)


def _keep(path: Path, data: bytes, files: dict[str, bytes]) -> None:
    files[os.path.abspath(path)] = data  # noqa: PTH100 - a link has to stay one
    if sum(map(len, files.values())) > LARGEST:
        raise OverflowError


def _is_below(path: Path, project: Path) -> bool:
    """Tell whether a path is the project's, by its name or by where it leads."""
    tops: Iterable[str] = (os.path.abspath(project), os.path.realpath(project))  # noqa: PTH100 - as above
    names = (os.path.abspath(path), os.path.realpath(path))  # noqa: PTH100 - likewise
    return any(Path(name).is_relative_to(top) for name in names for top in tops)
