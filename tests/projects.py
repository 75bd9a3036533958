"""Projects with their own modules, whose names no other test uses."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_numbers = itertools.count(1)


@dataclass
class Project:
    """A folder with a `.git`, specialists and modules."""

    root: Path
    package: str
    """A name for a package or a module that no other project uses."""

    def write(self, path: str, *lines: str) -> Path:
        """Write a file; `PKG` in its path and lines is replaced by the package name."""
        file = self.root / path.replace("PKG", self.package)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([*lines, ""]).replace("PKG", self.package))
        return file

    def specialist(self, *lines: str, name: str = "finder", folder: str = "specialists") -> Path:
        """Write a specialist's file with these keys, which begin on line 4."""
        return self.write(
            f"{folder}/{name}.md", "---", f"name: {name}", "description: Finds.", *lines, "---", "You find notes."
        )


@contextmanager
def project(root: Path) -> Iterator[Project]:
    """Create a project; at the end unload all modules that were imported from it."""
    for folder in (".git", "specialists"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    finders, known = list(sys.meta_path), set(sys.modules)
    made = Project(root, f"app{next(_numbers)}x")
    try:
        yield made
    finally:
        sys.meta_path[:] = finders
        for name in set(sys.modules) - known:
            if name.partition(".")[0].startswith(made.package):
                del sys.modules[name]
