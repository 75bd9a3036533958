"""Modules of a project, found without running any code of theirs."""

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

_INSTALLED = {"site-packages", "dist-packages"}
_PYTHONS = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
_KINDS = (
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (SourceFileLoader, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
)


class CannotImport(Exception):
    """A module is not there, or not the one that is meant; `str(error)` says which and why."""


@dataclass(frozen=True, slots=True)
class Module:
    """One module on the way to the one that is named, that one included."""

    name: str
    path: Path | None
    """Its file; None for a folder without `__init__.py`, and for what is part of Python itself."""
    data: bytes = b""
    """What the file holds."""
    folders: tuple[str, ...] | None = None
    """Where the modules below it are; None where it is no package."""

    @property
    def digest(self) -> str:
        """SHA-256 of what the file holds."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def is_installed(self) -> bool:
        """Whether it lies where Python itself or an installer puts modules, in a project's `.venv` too."""
        places = self.folders or () if self.path is None else (str(self.path),)
        return any(_INSTALLED & {*Path(place).parts} or place.startswith(_PYTHONS) for place in places)

    def is_below(self, root: Path) -> bool:
        """Say whether it lies in a project."""
        places = self.folders or () if self.path is None else (str(self.path),)
        return any(Path(os.path.realpath(place)).is_relative_to(os.path.realpath(root)) for place in places)


def find(name: str, root: Path) -> tuple[Module, ...]:
    """Return a module behind the packages that hold it, the outermost first; no code of any of them is run.

    It is looked for in the root, then among what is installed.
    Raises CannotImport.
    """
    top, *inner = name.split(".")
    chain = [_outermost(top, root)]
    for part in inner:
        chain.append(_inside(chain[-1], f"{chain[-1].name}.{part}"))
    return tuple(chain)


def neighbour(name: str, above: Module | None, root: Path) -> Module | None:
    """Return a module that one of a project's would import, if it is the project's; no code is run.

    name: its full name.
    above: the package that holds it; None for an outermost one.
    """
    try:
        if above is not None:
            return _inside(above, name)
        here = spec_in([str(root)], name)
        module = _module(here) if here else _outermost(name, root)
    except (CannotImport, ValueError):
        # Nor will it be found when it is imported.
        return None
    return module if module.is_below(root) and not module.is_installed else None


def _inside(above: Module, name: str) -> Module:
    spec = spec_in(above.folders or (), name)
    if spec is None:
        raise CannotImport(f"there is no module {name} in {', '.join(above.folders or ()) or above.path}")
    return _module(spec)


def _outermost(name: str, root: Path) -> Module:
    here = spec_in([str(root)], name)
    try:
        installed = find_spec(name)
    except (ImportError, ValueError):
        installed = None
    if here is None and installed is None:
        raise CannotImport(f"there is no module {name} in {root}, nor among what is installed")
    if here is None or (_is_folder(here) and installed is not None and not _is_folder(installed)):
        # A folder alone never hides a package: so it is in Python itself.
        return _module(installed)  # type: ignore[arg-type] # one of them is there
    if installed is not None and not _is_folder(installed) and not is_same(_module(here), installed):
        raise CannotImport(
            f"{name} is the name of another module too, {installed.origin}; rename the one in {root}, or install it "
            "so that both are the same"
        )
    return _module(here)


def spec_in(folders: Sequence[str], name: str) -> ModuleSpec | None:
    """Return how a module is loaded; of folders without `__init__.py` all together."""
    parts: list[str] = []
    for folder in folders:
        spec = FileFinder(folder, *_KINDS).find_spec(name)
        if spec is not None and spec.loader is not None:
            return spec
        if spec is not None:
            parts += spec.submodule_search_locations or ()
    if not parts:
        return None
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = parts
    return spec


def _module(spec: ModuleSpec) -> Module:
    folders = None if spec.submodule_search_locations is None else tuple(spec.submodule_search_locations)
    if not spec.has_location or spec.origin is None:
        return Module(spec.name, None, folders=folders)
    path = Path(spec.origin)
    try:
        return Module(spec.name, path, path.read_bytes(), folders)
    except OSError as error:
        raise CannotImport(f"{path} cannot be read: {error.strerror or error}") from None


def _is_folder(spec: ModuleSpec) -> bool:
    """Say whether it is a folder without `__init__.py`, or several."""
    return spec.origin is None and spec.submodule_search_locations is not None


def is_same(module: Module, spec: ModuleSpec) -> bool:
    """Tell whether a spec would load the file, or the folders, of a module."""
    if module.path is None:
        loaded = {os.path.realpath(folder) for folder in spec.submodule_search_locations or ()}
        return not spec.has_location and {os.path.realpath(folder) for folder in module.folders or ()} <= loaded
    return spec.origin is not None and os.path.realpath(module.path) == os.path.realpath(spec.origin)
