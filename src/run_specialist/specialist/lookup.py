"""Which file a name means among many."""

import difflib
from collections.abc import Sequence

from run_specialist.specialist.loader import SpecialistFile, stem


class NameLookup:
    """The names of some files; of two files with one name the nearer one is meant."""

    def __init__(self, files: Sequence[SpecialistFile]) -> None:
        """Take the files, near ones first."""
        far_first = [*reversed(files)]
        # What the file calls itself counts more than what the file is called, and that more than its letters' case.
        self._ways = [
            {file.name: file for file in far_first},
            {stem(file.path): file for file in far_first},
            {file.name.lower(): file for file in far_first},
        ]

    def find(self, name: str) -> SpecialistFile | None:
        """Return the file that is meant."""
        exact, stems, folded = self._ways
        return exact.get(name) or stems.get(name) or folded.get(name.lower())

    def near(self, name: str, cutoff: float = 0.5) -> list[str]:
        """Return the names that were probably meant.

        cutoff: how alike they must be, from 0 to 1.
        """
        return difflib.get_close_matches(name[:100], sorted(self._ways[0]), n=3, cutoff=cutoff)
