"""Look up specialist files by name."""

import difflib
from collections.abc import Sequence

from run_specialist.specialist.loader import SpecialistFile, stem


class NameLookup:
    """Index of files by name; if two files share a name, the nearer one wins."""

    def __init__(self, files: Sequence[SpecialistFile]) -> None:
        """Index the files, given nearest first."""
        far_first = [*reversed(files)]
        # In order of precedence: the `name` key, the file name, the `name` key in lower case.
        self._indexes = [
            {file.name: file for file in far_first},
            {stem(file.path): file for file in far_first},
            {file.name.lower(): file for file in far_first},
        ]

    def find(self, name: str) -> SpecialistFile | None:
        """Return the file with this name, or None."""
        exact, stems, folded = self._indexes
        return exact.get(name) or stems.get(name) or folded.get(name.lower())

    def near(self, name: str, cutoff: float = 0.5) -> list[str]:
        """Return up to three similar names.

        cutoff: Minimum similarity, from 0 to 1.
        """
        return difflib.get_close_matches(name[:100], sorted(self._indexes[0]), n=3, cutoff=cutoff)
