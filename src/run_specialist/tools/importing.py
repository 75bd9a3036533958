"""Import project modules from the exact bytes that were inspected."""

import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    SOURCE_SUFFIXES,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import ClassVar

from run_specialist.tools.modules import CannotImport, Module, is_same, module_of, spec_in


def load(chain: Sequence[Module], root: Path, neighbours: Iterable[Module] = ()) -> ModuleType:
    """Import the last module of a chain; modules that are already loaded are not reloaded.

    neighbours: other inspected modules; whenever they are imported, the inspected bytes are executed.
    Raises CannotImport if a different module with one of these names is loaded, and any exception of the modules.
    """
    for module in chain:
        _check_loaded(module)
    if not chain[-1].is_below(root):
        # Installed modules may need their own loaders.
        return importlib.import_module(chain[-1].name)
    _ProjectFinder.register(root)
    _PinnedFinder.add(neighbours)
    finder = _ChainFinder({module.name: module for module in chain})
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module(chain[-1].name)
    finally:
        sys.meta_path.remove(finder)


def _check_loaded(module: Module) -> None:
    loaded = sys.modules.get(module.name)
    if loaded is None:
        return
    spec = getattr(loaded, "__spec__", None)
    if spec is None or not is_same(module, spec):
        where = getattr(loaded, "__file__", None) or "elsewhere"
        raise CannotImport(
            f"another module named {module.name} is already loaded from {where}; rename one of them, or use them in "
            "separate processes"
        )


class _ChainFinder(MetaPathFinder):
    """Finds the modules of a chain before any other finder."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of the chain, or None."""
        del path, target
        module = self._modules.get(fullname)
        return None if module is None else _pinned_spec(module)


def _pinned_spec(module: Module) -> ModuleSpec | None:
    """Return a spec that loads a module from its inspected bytes."""
    if module.path is None:
        spec = ModuleSpec(module.name, None, is_package=True)
        spec.submodule_search_locations = list(module.folders or ())
        return spec
    if module.path.suffix not in (*SOURCE_SUFFIXES, *BYTECODE_SUFFIXES):
        return spec_from_file_location(module.name, module.path)
    folders = None if module.folders is None else list(module.folders)
    pinned = _PinnedLoader if module.path.suffix in SOURCE_SUFFIXES else _PinnedCompiled
    loader = pinned(module.name, str(module.path), module.data)
    return spec_from_file_location(module.name, module.path, loader=loader, submodule_search_locations=folders)


class _PinnedLoader(SourceFileLoader):
    """Executes the inspected bytes, since the file and its compiled copy may have changed in the meantime."""

    def __init__(self, fullname: str, path: str, data: bytes) -> None:
        super().__init__(fullname, path)
        self._data = data

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled source."""
        return self.source_to_code(self._data, self.get_filename(fullname))


class _PinnedCompiled(SourcelessFileLoader):
    """Executes the inspected bytes of a compiled module without source."""

    def __init__(self, fullname: str, path: str, data: bytes) -> None:
        super().__init__(fullname, path)
        self._data = data

    def get_data(self, path: str) -> bytes:
        """Return the inspected bytes."""
        del path
        return self._data


class _ProjectFinder(MetaPathFinder):
    """Finds modules in a project's root, including those imported only when a function is called.

    It comes last, so that a project cannot shadow the standard library or installed packages.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    @classmethod
    def register(cls, root: Path) -> None:
        """Register a finder for a project's root, once."""
        real_root = os.path.realpath(root)
        if not any(isinstance(installed, cls) and installed.root == real_root for installed in sys.meta_path):
            sys.meta_path.append(cls(real_root))

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a top-level module in the root; packages find their own submodules."""
        del target
        if path is not None:
            return None
        return _PinnedFinder.spec(fullname, [self.root]) or _from_source(fullname, [self.root], self.root)


class _PinnedFinder(MetaPathFinder):
    """Finds submodules of a project before Python can load a compiled copy of them."""

    inspected: ClassVar[dict[str, Module]] = {}
    """Inspected modules by resolved file path."""

    @classmethod
    def add(cls, modules: Iterable[Module]) -> None:
        """Register modules to be loaded from their inspected bytes."""
        cls.inspected |= {os.path.realpath(module.path): module for module in modules if module.path is not None}
        if not any(isinstance(installed, cls) for installed in sys.meta_path):
            sys.meta_path.insert(0, cls())

    @classmethod
    def spec(cls, name: str, folders: Iterable[str]) -> ModuleSpec | None:
        """Return the spec of a module in one of the folders; None if it was not inspected."""
        leaf = name.rpartition(".")[2]
        for folder in folders:
            for file_name in (f"{leaf}/__init__.py", f"{leaf}.py"):
                module = cls.inspected.get(os.path.realpath(os.path.join(folder, file_name)))  # noqa: PTH118 - may be any text
                if module is not None and module.name == name:
                    return _pinned_spec(module)
        return None

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a submodule; a top-level module must come after installed ones."""
        del target
        if path is None:
            return None
        roots = [finder.root for finder in sys.meta_path if isinstance(finder, _ProjectFinder)]
        return self.spec(fullname, path) or next(
            (found for root in roots if (found := _from_source(fullname, path, root)) is not None), None
        )


def _from_source(name: str, folders: Iterable[str], root: str) -> ModuleSpec | None:
    """Return a spec of a project module that was not inspected, because its name is computed; None if there is none.

    Its source is executed, never a compiled copy, which anyone may have put beside it.
    """
    below = [folder for folder in folders if Path(os.path.realpath(folder)).is_relative_to(root)]
    spec = spec_in(below, name) if below else None
    if spec is None:
        return None
    try:
        module = module_of(spec)
    except CannotImport:
        return None
    return None if module.is_installed else _pinned_spec(module)
