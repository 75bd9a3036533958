"""The `paths` of a specialist: which entries of the root they let be seen."""

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
    """One of them: a folder, a file or a glob."""

    folder: str
    """The part before the first wildcard, links resolved, as seen from the root."""
    rest: str
    """The part from the first wildcard on; empty for none."""
    written: Sequence[str]
    """The parts as they are written in the specialist's file."""

    @property
    def is_root(self) -> bool:
        """Tell whether everything is named."""
        return not (self.folder or self.rest)

    @property
    def names_secret(self) -> bool:
        """Tell whether it names a file or folder that usually holds secrets, in so many words.

        Leading to one through a link of another name does not count.
        """
        parts = [part for part in f"{self.folder}/{self.rest}".split("/") if part]
        written = {part.casefold() for part in self.written}
        return any(
            names_secret(above, part) and part.casefold() in written
            for above, part in zip(["", *parts], parts, strict=False)
        )


class NamedPaths:
    """Several of them together."""

    def __init__(self, paths: Sequence[NamedPath]) -> None:
        """Take them as they are; patterns are compiled when they are first needed."""
        self.paths = paths

    def hold(self, relative: str, *, is_folder: bool) -> bool:
        """Tell whether any of them means this entry, or one above it; of a folder also, whether one may lie in it."""
        if is_folder and any(
            f"{path.folder}/".startswith(f"{relative}/")
            or not relative
            or (path.rest and _under(relative, path.folder))
            for path in self.paths
        ):
            return True
        return bool(self.paths) and self._spec.match_file(relative + "/" * is_folder)

    @cached_property
    def _spec(self) -> "GitIgnoreSpec":
        return spec_of(_anchored(path.folder, path.rest) for path in self.paths)


def _under(relative: str, folder: str) -> bool:
    return not folder or relative == folder or relative.startswith(f"{folder}/")


def _anchored(folder: str, rest: str) -> str:
    literal = re.sub(r"([*?\[\]\\! #])", r"\\\1", folder)
    return "/" + "/".join(part for part in (literal, rest) if part)
