"""Modules of a project that others of it import, found by reading their source; nothing is imported."""

import ast
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path

from run_specialist.tools.modules import Module, neighbour

MOST = 1_000
"""Modules that are followed; with more of them nobody can have looked at what is imported."""
LARGEST = 32 * 1024 * 1024
"""Source that is followed [bytes]."""

_ALL = ".*"
_BY_NAME = frozenset({"__import__", "import_module"})


@dataclass(frozen=True, slots=True)
class Imported:
    """What some modules import of their project, directly and through one another."""

    modules: tuple[Module, ...] = ()
    """Sorted by name, without those that the search began with."""
    is_whole: bool = True
    """False where there is more than is followed, or source that cannot be taken apart."""


def imported(chain: Sequence[Module], root: Path) -> Imported:
    """Follow the imports of some modules within a project: at the top of a file, in functions, and in `TYPE_CHECKING`.

    What is imported under a name that is only known at run time is not found.
    """
    begun = [module for module in chain if module.is_below(root) and not module.is_installed]
    found: dict[str, Module | None] = {module.name: module for module in chain}
    waiting, count, size = begun, 0, 0
    while waiting:
        module = waiting.pop()
        size += len(module.data)
        count += 1
        if count > MOST or size > LARGEST:
            return Imported(is_whole=False)
        try:
            names = [*_names(module)]
        except (RecursionError, MemoryError):
            return Imported(is_whole=False)
        waiting += _new(names, found, root)
    named = {module.name for module in chain}
    others = [one for name, one in sorted(found.items()) if one is not None and name not in named]
    return Imported(tuple(one for one in others if one.path is not None))


def _new(names: Iterable[str], found: dict[str, Module | None], root: Path) -> Iterator[Module]:
    """Look modules up with the packages that hold them, and yield those that were not met before."""
    for name in names:
        above: Module | None = None
        parts = name.removesuffix(_ALL).split(".")
        for end in range(1, len(parts) + 1):
            full = ".".join(parts[:end])
            if full not in found:
                found[full] = module = neighbour(full, above, root)
                if module is not None:
                    yield module
            above = found[full]
            if above is None:
                break
        if above is not None and name.endswith(_ALL):
            # `__all__` may name any module of a package.
            inside = (f"{above.name}.{one.name}" for one in pkgutil.iter_modules(above.folders or ()))
            yield from _new(inside, found, root)


def _names(module: Module) -> Iterator[str]:
    """Yield the full names that a module's source imports; what is imported from a module may be a module too."""
    if module.path is None or module.path.suffix not in SOURCE_SUFFIXES:
        return
    try:
        tree = ast.parse(module.data, str(module.path))
    except (SyntaxError, ValueError):
        # Nor can it be imported.
        return
    package = module.name if module.folders is not None else module.name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), package)
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and (name := _imported_by_call(node)):
            yield _absolute(name, package)


def _absolute(name: str, package: str) -> str:
    """Return a name seen from a package, with as many points before it as in the source, as a full name."""
    inner = name.lstrip(".")
    level = len(name) - len(inner)
    if not level:
        return name
    parts = package.split(".")
    above = parts[: len(parts) - level + 1]
    return ".".join([*above, inner] if inner else above)


def _imported_by_call(node: ast.Call) -> str:
    """Return the name in `import_module("name")` and the like; empty for another call."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    first = node.args[0] if node.args else None
    if name in _BY_NAME and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return ""
