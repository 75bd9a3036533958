"""Static analysis of imports: the project modules that other modules import; nothing is executed."""

import ast
import pkgutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from run_specialist.tools.modules import Module, find_in_project

MAX_MODULES = 1_000
"""Maximum number of modules to follow; a user cannot have reviewed more."""
MAX_SOURCE = 32 * 1024 * 1024
"""Maximum total size of the source to follow [bytes]."""

_PARSING = threading.Lock()
"""Parsers of Python 3.11 share a counter between threads: two concurrent ones may raise SystemError."""
_ALL_SUBMODULES = ".*"
_IMPORT_FUNCTIONS = frozenset({"__import__", "import_module", "run_module"})
_OTHER_IMPORTS = frozenset({"run_path", "spec_from_file_location", "load_module", "load_source", "load_dynamic"})
"""Functions that execute a file by its path."""


@dataclass(frozen=True, slots=True)
class ImportedModules:
    """Project modules imported by some modules, directly or indirectly."""

    modules: tuple[Module, ...] = ()
    """Imported modules sorted by name, without the starting modules."""
    is_whole: bool = True
    """Whether all imports were followed.

    False above the limits, for source too deeply nested to parse, for compiled and native modules, and for names that
    are computed when the code runs.
    """


class _Computed(Exception):
    """A module imports by a name that is known only when it runs."""


def imported(chain: Sequence[Module], root: Path, folders: Sequence[Path] = ()) -> ImportedModules:
    """Follow the imports of modules within a project: at top level, in functions and under `TYPE_CHECKING`.

    folders: folders with top-level modules, in the order of the search; none = the root.
    """
    start = [module for module in chain if module.is_below(root) and not module.is_installed]
    found: dict[str, Module | None] = {module.name: module for module in chain}
    queue, count, size, is_whole = start, 0, 0, True
    while queue:
        module = queue.pop()
        size += len(module.data)
        count += 1
        if count > MAX_MODULES or size > MAX_SOURCE:
            return ImportedModules(is_whole=False)
        if not module.has_source:
            is_whole = False
            continue
        try:
            names = [*_imported_names(module)]
        except _Computed:
            is_whole = False
            continue
        except (RecursionError, MemoryError):
            return ImportedModules(is_whole=False)
        queue += _unseen(names, found, root, folders)
    named = {module.name for module in chain}
    others = [one for name, one in sorted(found.items()) if one is not None and name not in named]
    return ImportedModules(tuple(one for one in others if one.path is not None), is_whole=is_whole)


def _unseen(
    names: Iterable[str], found: dict[str, Module | None], root: Path, folders: Sequence[Path]
) -> Iterator[Module]:
    """Look up modules and their parent packages, and yield those not seen before."""
    for name in names:
        parent: Module | None = None
        parts = name.removesuffix(_ALL_SUBMODULES).split(".")
        for end in range(1, len(parts) + 1):
            full = ".".join(parts[:end])
            if full not in found:
                found[full] = module = find_in_project(full, parent, root, folders)
                if module is not None:
                    yield module
            parent = found[full]
            if parent is None:
                break
        if parent is not None and name.endswith(_ALL_SUBMODULES):
            # `__all__` may name any submodule.
            submodules = (f"{parent.name}.{one.name}" for one in pkgutil.iter_modules(parent.folders or ()))
            yield from _unseen(submodules, found, root, folders)


def _imported_names(module: Module) -> Iterator[str]:
    """Yield the full names that a module imports; `from` imports may name submodules.

    Raises _Computed for a name that is known only when the module runs.
    """
    if module.path is None:
        return
    try:
        with _PARSING:
            tree = ast.parse(module.data, str(module.path))
    except (SyntaxError, ValueError):
        # It cannot be imported either.
        return
    package = module.name if module.folders is not None else module.name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), package)
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and (name := _name_in_call(node)):
            yield _absolute(name, package)


def _absolute(name: str, package: str) -> str:
    """Resolve a relative name, with its leading dots, against a package."""
    inner = name.lstrip(".")
    level = len(name) - len(inner)
    if not level:
        return name
    parts = package.split(".")
    parent = parts[: len(parts) - level + 1]
    return ".".join([*parent, inner] if inner else parent)


def _name_in_call(node: ast.Call) -> str:
    """Return the name in calls such as `import_module("name")`; empty for other calls.

    Raises _Computed for any other argument.
    """
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0] if node.args else None
    if name in _OTHER_IMPORTS:
        raise _Computed
    if name not in _IMPORT_FUNCTIONS:
        return ""
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    raise _Computed
