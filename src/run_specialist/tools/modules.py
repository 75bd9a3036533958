"""Modules of a project: found without running any code, then imported from the very bytes that were looked at."""

import hashlib
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
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
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

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
        above = chain[-1]
        full = f"{above.name}.{part}"
        spec = _spec_in(above.folders or (), full)
        if spec is None:
            raise CannotImport(f"there is no module {full} in {', '.join(above.folders or ()) or above.path}")
        chain.append(_module(spec))
    return tuple(chain)


def load(chain: Sequence[Module], root: Path) -> ModuleType:
    """Import a module that was found; one that is loaded already stays as it is.

    Raises CannotImport where another module of one of these names is loaded, and whatever the modules raise.
    """
    for module in chain:
        _check_loaded(module)
    if not chain[-1].is_below(root):
        # Installed modules may have loaders of their own.
        return importlib.import_module(chain[-1].name)
    _Siblings.of(root)
    named = _Named({module.name: module for module in chain})
    sys.meta_path.insert(0, named)
    try:
        return importlib.import_module(chain[-1].name)
    finally:
        sys.meta_path.remove(named)


def _outermost(name: str, root: Path) -> Module:
    here = _spec_in([str(root)], name)
    try:
        installed = find_spec(name)
    except (ImportError, ValueError):
        installed = None
    if here is None and installed is None:
        raise CannotImport(f"there is no module {name} in {root}, nor among what is installed")
    if here is None or (_is_folder(here) and installed is not None and not _is_folder(installed)):
        # A folder alone never hides a package: so it is in Python itself.
        return _module(installed)  # type: ignore[arg-type] # one of them is there
    if installed is not None and not _is_folder(installed) and not _same(_module(here), installed):
        raise CannotImport(
            f"{name} is the name of another module too, {installed.origin}; rename the one in {root}, or install it "
            "so that both are the same"
        )
    return _module(here)


def _spec_in(folders: Sequence[str], name: str) -> ModuleSpec | None:
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


def _check_loaded(module: Module) -> None:
    loaded = sys.modules.get(module.name)
    if loaded is None:
        return
    spec = getattr(loaded, "__spec__", None)
    if spec is None or not _same(module, spec):
        where = getattr(loaded, "__file__", None) or "elsewhere"
        raise CannotImport(
            f"{module.name} from {where} is loaded already, and one program cannot have two modules of that name; "
            "rename one of them, or run them in programs of their own"
        )


def _is_folder(spec: ModuleSpec) -> bool:
    """Say whether it is a folder without `__init__.py`, or several."""
    return spec.origin is None and spec.submodule_search_locations is not None


def _same(module: Module, spec: ModuleSpec) -> bool:
    if module.path is None:
        loaded = {os.path.realpath(folder) for folder in spec.submodule_search_locations or ()}
        return not spec.has_location and {os.path.realpath(folder) for folder in module.folders or ()} <= loaded
    return spec.origin is not None and os.path.realpath(module.path) == os.path.realpath(spec.origin)


class _Named(MetaPathFinder):
    """Answers for modules that were found, before anybody else does."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how one of them is loaded."""
        del path, target
        module = self._modules.get(fullname)
        if module is None:
            return None
        if module.path is None:
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = list(module.folders or ())
            return spec
        if module.path.suffix not in SOURCE_SUFFIXES:
            return spec_from_file_location(fullname, module.path)
        folders = None if module.folders is None else list(module.folders)
        loader = _Looked(fullname, str(module.path), module.data)
        return spec_from_file_location(fullname, module.path, loader=loader, submodule_search_locations=folders)


class _Looked(SourceFileLoader):
    """Runs the bytes that were looked at: the file may be another one meanwhile, and so may its compiled copy."""

    def __init__(self, fullname: str, path: str, data: bytes) -> None:
        super().__init__(fullname, path)
        self._data = data

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled source."""
        return self.source_to_code(self._data, self.get_filename(fullname))


class _Siblings(MetaPathFinder):
    """Finds what the modules of a project import from beside them, also at their first call.

    It is asked last: nothing in a project can stand in the place of Python's own modules or of what is installed.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    @classmethod
    def of(cls, root: Path) -> None:
        """Have the modules of a project found from now on."""
        wanted = os.path.realpath(root)
        if not any(isinstance(one, cls) and one.root == wanted for one in sys.meta_path):
            sys.meta_path.append(cls(wanted))

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how a module in the root is loaded; those inside of packages are found by the packages."""
        del target
        return _spec_in([self.root], fullname) if path is None else None
