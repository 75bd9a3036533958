"""Import modules of a project from the very bytes that were looked at."""

import importlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import ClassVar

from run_specialist.tools.modules import CannotImport, Module, is_same, spec_in


def load(chain: Sequence[Module], root: Path, neighbours: Iterable[Module] = ()) -> ModuleType:
    """Import a module that was found; one that is loaded already stays as it is.

    neighbours: what else was looked at; when it is imported, now or later, those bytes are run.
    Raises CannotImport where another module of one of these names is loaded, and whatever the modules raise.
    """
    for module in chain:
        _check_loaded(module)
    if not chain[-1].is_below(root):
        # Installed modules may have loaders of their own.
        return importlib.import_module(chain[-1].name)
    _Siblings.of(root)
    _Neighbours.add(neighbours)
    named = _Named({module.name: module for module in chain})
    sys.meta_path.insert(0, named)
    try:
        return importlib.import_module(chain[-1].name)
    finally:
        sys.meta_path.remove(named)


def _check_loaded(module: Module) -> None:
    loaded = sys.modules.get(module.name)
    if loaded is None:
        return
    spec = getattr(loaded, "__spec__", None)
    if spec is None or not is_same(module, spec):
        where = getattr(loaded, "__file__", None) or "elsewhere"
        raise CannotImport(
            f"{module.name} from {where} is loaded already, and one program cannot have two modules of that name; "
            "rename one of them, or run them in programs of their own"
        )


class _Named(MetaPathFinder):
    """Answers for modules that were found, before anybody else does."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how one of them is loaded."""
        del path, target
        module = self._modules.get(fullname)
        return None if module is None else _as_looked_at(module)


def _as_looked_at(module: Module) -> ModuleSpec | None:
    """Return how a module is loaded from the bytes that were looked at."""
    if module.path is None:
        spec = ModuleSpec(module.name, None, is_package=True)
        spec.submodule_search_locations = list(module.folders or ())
        return spec
    if module.path.suffix not in SOURCE_SUFFIXES:
        return spec_from_file_location(module.name, module.path)
    folders = None if module.folders is None else list(module.folders)
    loader = _Looked(module.name, str(module.path), module.data)
    return spec_from_file_location(module.name, module.path, loader=loader, submodule_search_locations=folders)


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
        if path is not None:
            return None
        return _Neighbours.spec(fullname, [self.root]) or spec_in([self.root], fullname)


class _Neighbours(MetaPathFinder):
    """Answers for modules inside of packages that were looked at, ahead of what a compiled copy of them may hold."""

    looked: ClassVar[dict[str, Module]] = {}
    """By the path of the file, without links."""

    @classmethod
    def add(cls, modules: Iterable[Module]) -> None:
        """Have these modules loaded from the bytes that were looked at, from now on."""
        cls.looked |= {os.path.realpath(module.path): module for module in modules if module.path is not None}
        if not any(isinstance(one, cls) for one in sys.meta_path):
            sys.meta_path.insert(0, cls())

    @classmethod
    def spec(cls, name: str, folders: Iterable[str]) -> ModuleSpec | None:
        """Return how a module in one of some folders is loaded; None for one that was not looked at."""
        leaf = name.rpartition(".")[2]
        for folder in folders:
            for tail in (f"{leaf}/__init__.py", f"{leaf}.py"):
                module = cls.looked.get(os.path.realpath(os.path.join(folder, tail)))  # noqa: PTH118 - any text
                if module is not None and module.name == name:
                    return _as_looked_at(module)
        return None

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return how a module of a package is loaded; an outermost one has to come after what is installed."""
        del target
        return None if path is None else self.spec(fullname, path)
