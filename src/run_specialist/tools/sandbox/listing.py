"""Listing of the visible files and folders of a sandbox."""

import difflib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from run_specialist.errors import ToolError
from run_specialist.tools.sandbox.ignore import spec_of
from run_specialist.tools.sandbox.ignore_rules import IgnoreRules
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path
from run_specialist.tools.threads import check_cancelled

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MAX_WILDCARDS = 12
_MAX_COMPARED = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A visible file, folder or symlink."""

    relative: str
    """Path relative to the root, separated by `/`."""
    kind: str
    """`file`, `folder`, `link` or `special` (FIFO, socket, device)."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.relative.rpartition("/")[2]


def entries(sandbox: Sandbox, relative: str) -> list[Entry]:
    """Return the visible entries of a folder, sorted by name.

    Raises OSError if the folder cannot be listed.
    """
    return _list_folder(sandbox, relative, _rules_above(sandbox, relative), check_cancelled)[0]


def _list_folder(
    sandbox: Sandbox, relative: str, rules: IgnoreRules, check: Callable[[], None]
) -> tuple[list[Entry], IgnoreRules]:
    """Return the visible entries of a folder, and the ignore rules that apply in it.

    rules: ignore rules of the parent folder.
    """
    visible: list[Entry] = []
    with sandbox.folder(relative) as folder:
        rules = rules.within(folder, relative)
        with folder.listing() as found:
            for item in found:
                check()
                entry = Entry(f"{relative}/{item.name}" if relative else item.name, _kind(item))
                if _is_visible(sandbox, entry, rules):
                    visible.append(entry)
    visible.sort(key=lambda entry: entry.relative)
    return visible, rules


def _is_visible(sandbox: Sandbox, entry: Entry, rules: IgnoreRules) -> bool:
    is_folder = entry.kind == "folder"
    return (
        entry.name.casefold() != ".git"
        and sandbox.is_short_enough(entry.relative)
        and sandbox.is_selected(entry.relative, is_folder=is_folder)
        and not sandbox.is_closed(entry.relative, is_folder=is_folder)
        and not rules.hide(entry.relative, is_folder=is_folder)
    )


def _kind(item: "os.DirEntry[str]") -> str:
    if item.is_symlink():
        return "link"
    if item.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if item.is_file(follow_symlinks=False) else "special"


def _rules_above(sandbox: Sandbox, relative: str) -> IgnoreRules:
    last = IgnoreRules()
    for rules in sandbox.rules_above(relative):
        last = rules
    return last


def files(sandbox: Sandbox, relative: str = "", check: Callable[[], None] = check_cancelled) -> Iterator[str]:
    """Yield every regular file at or below a located path, in order of path.

    Symlinks are not followed; their targets inside the root are found at their own paths. Folders that cannot be
    listed are skipped.
    check: called for each entry, including those not yielded; stops the walk by raising an exception.
    Raises ToolError if the first folder cannot be listed.
    """
    if relative and not (sandbox.root / relative).is_dir():
        yield relative
        return
    try:
        pending = [(Entry(relative, "folder"), _rules_above(sandbox, relative))]
    except OSError:
        return
    while pending:
        entry, rules = pending.pop()
        if entry.kind == "file":
            yield entry.relative
        elif entry.kind == "folder":
            check()
            try:
                listed, inner_rules = _list_folder(sandbox, entry.relative, rules, check)
            except OSError as error:
                if entry.relative == relative:
                    raise ToolError(
                        f"{escape_path(relative) or 'the root'} cannot be listed: {error.strerror}"
                    ) from error
                continue
            pending += [(item, inner_rules) for item in reversed(listed)]


def holds_any(sandbox: Sandbox) -> bool:
    """Return whether any file is visible; stops at the first one."""
    return any(next(files(sandbox, start), None) is not None for start in sandbox.starts())


def pattern_spec(pattern: str) -> "GitIgnoreSpec":
    """Compile a glob: without a `/` it matches names at any depth, else paths from the root; `{a,b}` works.

    Raises ToolError for a glob with `..`, or with so many stars that matching could take too long.
    """
    # Braces multiply: each pair may double the alternatives.
    alternatives = list(islice(_expand_braces(pattern.removeprefix("./")), _MAX_WILDCARDS + 1))
    if ".." in PurePosixPath(pattern).parts:
        raise ToolError(f"the glob {pattern!r} leads out of the folder that you may read; leave out `..`")
    if any(item.count("*") > _MAX_WILDCARDS for item in alternatives) or len(alternatives) > _MAX_WILDCARDS:
        raise ToolError(f"the glob {pattern!r} has too many wildcards; at most {_MAX_WILDCARDS} are understood")
    return spec_of(f"\\{item}" if item.startswith(("!", "#")) else item for item in alternatives)


def _expand_braces(pattern: str) -> Iterator[str]:
    head, opened, rest = pattern.partition("{")
    middle, closed, tail = rest.partition("}")
    if not (opened and closed and "," in middle):
        yield pattern
        return
    for choice in middle.split(","):
        for end in _expand_braces(tail):
            yield f"{head}{choice}{end}"


def similar_hint(sandbox: Sandbox, relative: str) -> str:
    """Return a hint with files whose names resemble that of a missing file; may be empty."""
    known = list(islice(files(sandbox), _MAX_COMPARED))
    wanted = relative.rpartition("/")[2].casefold()
    names: dict[str, list[str]] = {}
    for path in known:
        names.setdefault(path.rpartition("/")[2].casefold(), []).append(path)
    similar = difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)
    found = [path for name in similar for path in names[name]][:3]
    return f"; did you mean {' or '.join(map(escape_path, found))}?" if found else ""
