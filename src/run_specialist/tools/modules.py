"""Lookup of project modules without executing their code."""

import hashlib
import os
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import find_spec
from pathlib import Path

_INSTALL_FOLDERS = {"site-packages", "dist-packages"}
_STDLIB_FOLDERS = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
_LOADERS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)
_COMPILED = frozenset({*BYTECODE_SUFFIXES, *(f".{suffix.rpartition('.')[2]}" for suffix in EXTENSION_SUFFIXES)})


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
    def has_source(self) -> bool:
        """Whether its imports can be read: False for native and for compiled modules without source."""
        return self.path is None or self.path.suffix not in _COMPILED

    @property
    def is_installed(self) -> bool:
        """Whether it is in the standard library or installed, e.g. in a project's `.venv`."""
        places = self.folders or () if self.path is None else (str(self.path),)
        return any(_INSTALL_FOLDERS & {*Path(place).parts} or place.startswith(_STDLIB_FOLDERS) for place in places)

    def is_below(self, root: Path) -> bool:
        """Return whether it is in a project."""
        places = self.folders or () if self.path is None else (str(self.path),)
        return any(Path(os.path.realpath(place)).is_relative_to(os.path.realpath(root)) for place in places)


def find(name: str, root: Path) -> tuple[Module, ...]:
    """Return a module preceded by its parent packages, outermost first; no code is executed.

    The root is searched first, then installed modules.
    Raises CannotImport.
    """
    top, *inner = name.split(".")
    chain = [_top_level(top, root)]
    for part in inner:
        chain.append(_submodule(chain[-1], f"{chain[-1].name}.{part}"))
    return tuple(chain)


def find_in_project(name: str, parent: Module | None, root: Path, folders: Sequence[Path] = ()) -> Module | None:
    """Return the module that a project's code would import by a name, or None if it is not in the project.

    No code is executed.
    name: full name.
    parent: its parent package; None for a top-level module.
    folders: folders with top-level modules, in the order of the search; none = the root.
    """
    try:
        if parent is not None:
            return _submodule(parent, name)
        local = spec_in([str(folder) for folder in folders or (root,)], name)
        module = module_of(local) if local else _top_level(name, folders[0] if folders else root)
    except (CannotImport, ValueError):
        # The import will not find it either.
        return None
    return module if module.is_below(root) and not module.is_installed else None


def _submodule(parent: Module, name: str) -> Module:
    spec = spec_in(parent.folders or (), name)
    if spec is None:
        raise CannotImport(f"no module {name} in {', '.join(parent.folders or ()) or parent.path}")
    return module_of(spec)


def _top_level(name: str, root: Path) -> Module:
    local = spec_in([str(root)], name)
    try:
        installed = find_spec(name)
    except (ImportError, ValueError):
        installed = None
    if local is None and installed is None:
        raise CannotImport(f"no module {name} in {root} or among the installed packages")
    if local is None or (_is_namespace(local) and installed is not None and not _is_namespace(installed)):
        # As in Python itself, a namespace package never shadows a regular one.
        return module_of(installed)  # type: ignore[arg-type] # one of the two was found
    if installed is not None and not _is_namespace(installed) and not is_same(module_of(local), installed):
        raise CannotImport(
            f"{name} is ambiguous: it is also the name of {installed.origin}; rename the module in {root}, or install "
            "it so that both are the same"
        )
    return module_of(local)


def spec_in(folders: Sequence[str], name: str) -> ModuleSpec | None:
    """Return the spec of a module in some folders; namespace portions are combined."""
    portions: list[str] = []
    for folder in folders:
        spec = FileFinder(folder, *_LOADERS).find_spec(name)
        if spec is not None and spec.loader is not None:
            return spec
        if spec is not None:
            portions += spec.submodule_search_locations or ()
    if not portions:
        return None
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec


def module_of(spec: ModuleSpec) -> Module:
    """Return a module with the content of its file; raises CannotImport if that cannot be read."""
    folders = None if spec.submodule_search_locations is None else tuple(spec.submodule_search_locations)
    if not spec.has_location or spec.origin is None:
        return Module(spec.name, None, folders=folders)
    path = Path(spec.origin)
    try:
        return Module(spec.name, path, path.read_bytes(), folders)
    except OSError as error:
        raise CannotImport(f"{path} cannot be read: {error.strerror or error}") from None


def _is_namespace(spec: ModuleSpec) -> bool:
    """Return whether a spec is that of a namespace package."""
    return spec.origin is None and spec.submodule_search_locations is not None


def is_same(module: Module, spec: ModuleSpec) -> bool:
    """Return whether a spec would load the same file or folders as a module."""
    if module.path is None:
        loaded = {os.path.realpath(folder) for folder in spec.submodule_search_locations or ()}
        return not spec.has_location and {os.path.realpath(folder) for folder in module.folders or ()} <= loaded
    return spec.origin is not None and os.path.realpath(module.path) == os.path.realpath(spec.origin)
