"""What the .gitignore files of a tree hide."""

import os
import re
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from run_specialist.safe_open import Folder
from run_specialist.tools.globs import tamed

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

COMPILING = threading.Lock()
"""Held while patterns are compiled without the warnings that `re` has for them."""
_LARGEST = 1_000_000


def spec_of(lines: Iterable[str]) -> "GitIgnoreSpec":
    """Compile gitignore patterns; one that cannot be read is left out, as git does."""
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - a heavy import that many runs never need
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - likewise

    patterns: list[GitIgnoreSpecPattern] = []
    # The list of warning filters is shared by all threads, and classes such as `[[:alpha:]]` make `re` warn.
    with COMPILING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for line in lines:
            try:
                found = GitIgnoreSpec.from_lines([line]).patterns
                patterns += [
                    pattern
                    if pattern.regex is None
                    else GitIgnoreSpecPattern(re.compile(tamed(pattern.regex.pattern)), pattern.include)
                    for pattern in found
                ]
            except (ValueError, re.error):
                continue
    return GitIgnoreSpec(patterns)


@dataclass(frozen=True)
class IgnoreRules:
    """The .gitignore files from the root down to one folder; the nearest that says anything wins."""

    files: tuple[tuple[str, "GitIgnoreSpec"], ...] = ()
    """Each after the folder it lies in, relative to the root and ending in `/`; empty for the root."""

    def within(self, folder: Folder, relative: str) -> Self:
        """Return the rules that hold inside a folder.

        relative: the same folder as seen from the root; empty for the root itself.
        """
        lines = _read(folder)
        if not lines:
            return self
        return type(self)((*self.files, (f"{relative}/" if relative else "", spec_of(lines))))

    def hide(self, relative: str, *, is_folder: bool) -> bool:
        """Tell whether the entry is ignored, given that no folder above it is."""
        for base, spec in reversed(self.files):
            name = relative[len(base) :] + "/" * is_folder
            for pattern in reversed(list(spec.patterns)):
                if pattern.regex is not None and any(_means(match, name) for match in pattern.regex.finditer(name)):
                    return pattern.include is True
        return False


def _means(match: re.Match[str], name: str) -> bool:
    """Tell whether a pattern means the entry itself; what it says of a folder above was heeded there."""
    if match.groupdict().get("ps_d"):
        return match.end() == len(name)
    # `folder/**` is about what the folder holds.
    return not (name.endswith("/") and match[0] == name)


def _read(folder: Folder) -> list[str]:
    try:
        # It may be a FIFO, or a link out of the tree; git follows no link here either.
        with folder.file(".gitignore") as file:
            if os.fstat(file.fileno()).st_size > _LARGEST:
                return []
            return file.read(_LARGEST).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
