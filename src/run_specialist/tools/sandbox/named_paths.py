"""The `paths` of a specialist, which select the visible entries of the root."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from run_specialist.tools.sandbox.ignore import spec_of
from run_specialist.tools.sandbox.secret_files import names_secret

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True, slots=True)
class NamedPath:
    """One of the `paths`: a folder, a file or a glob."""

    folder: str
    """Part before the first wildcard, relative to the root, with symlinks resolved."""
    rest: str
    """Part from the first wildcard on; empty if there is none."""
    written: Sequence[str]
    """Path components as written in the specialist's file."""

    @property
    def is_root(self) -> bool:
        """Whether it selects the entire root."""
        return not (self.folder or self.rest)

    @property
    def names_secret(self) -> bool:
        """Whether it explicitly names a file or folder that usually holds secrets.

        A symlink with another name to such a file does not count.
        """
        parts = [part for part in f"{self.folder}/{self.rest}".split("/") if part]
        written = {part.casefold() for part in self.written}
        return any(
            names_secret(above, part) and part.casefold() in written
            for above, part in zip(["", *parts], parts, strict=False)
        )


class NamedPaths:
    """A set of `paths`."""

    def __init__(self, paths: Sequence[NamedPath]) -> None:
        """Create the set; patterns are compiled when first needed."""
        self.paths = paths

    def select(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether any path selects this entry or a folder above it, or, for a folder, may select its entries."""
        if is_folder and any(
            f"{path.folder}/".startswith(f"{relative}/")
            or not relative
            or (path.rest and _is_at_or_below(relative, path.folder))
            for path in self.paths
        ):
            return True
        return bool(self.paths) and self._spec.match_file(relative + "/" * is_folder)

    @cached_property
    def _spec(self) -> "GitIgnoreSpec":
        return spec_of(_as_pattern(path.folder, path.rest) for path in self.paths)


def _is_at_or_below(relative: str, folder: str) -> bool:
    return not folder or relative == folder or relative.startswith(f"{folder}/")


def _as_pattern(folder: str, rest: str) -> str:
    literal = re.sub(r"([*?\[\]\\! #])", r"\\\1", folder)
    return "/" + "/".join(part for part in (literal, rest) if part)
