"""Walk what a sandbox lets be seen."""

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
from run_specialist.tools.sandbox.sandbox import Sandbox, shown
from run_specialist.tools.threads import check_cancelled

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_MOST_STARS = 12
_NEAR_AMONG = 20_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, folder or link that may be seen."""

    relative: str
    """As seen from the root, in `/`."""
    kind: str
    """`file`, `folder`, `link` or `special` (FIFO, socket, device)."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.relative.rpartition("/")[2]


def entries(sandbox: Sandbox, relative: str) -> list[Entry]:
    """Return what is directly in a folder, sorted by name.

    Raises OSError when the folder cannot be listed.
    """
    return _inside(sandbox, relative, _rules_above(sandbox, relative), check_cancelled)[0]


def _inside(
    sandbox: Sandbox, relative: str, rules: IgnoreRules, check: Callable[[], None]
) -> tuple[list[Entry], IgnoreRules]:
    """Return what is directly in a folder, and what is ignored there.

    rules: what is ignored in the folder above.
    """
    seen: list[Entry] = []
    with sandbox.folder(relative) as folder:
        rules = rules.within(folder, relative)
        with folder.listing() as found:
            for item in found:
                check()
                entry = Entry(f"{relative}/{item.name}" if relative else item.name, _kind(item))
                if _may_be_seen(sandbox, entry, rules):
                    seen.append(entry)
    seen.sort(key=lambda entry: entry.relative)
    return seen, rules


def _may_be_seen(sandbox: Sandbox, entry: Entry, rules: IgnoreRules) -> bool:
    is_folder = entry.kind == "folder"
    return (
        entry.name.casefold() != ".git"
        and sandbox.reaches(entry.relative)
        and sandbox.asked(entry.relative, is_folder=is_folder)
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

    Links are not followed: what they lead to inside the root is found where it lies. Folders that cannot be
    listed are left out.
    check: called for each entry, also those that are not yielded; ends the walk by raising an exception.
    Raises ToolError when the folder to begin with cannot be listed.
    """
    if relative and not (sandbox.root / relative).is_dir():
        yield relative
        return
    try:
        waiting = [(Entry(relative, "folder"), _rules_above(sandbox, relative))]
    except OSError:
        return
    while waiting:
        entry, rules = waiting.pop()
        if entry.kind == "file":
            yield entry.relative
        elif entry.kind == "folder":
            check()
            try:
                inside, here = _inside(sandbox, entry.relative, rules, check)
            except OSError as error:
                if entry.relative == relative:
                    raise ToolError(f"{shown(relative) or 'the root'} cannot be listed: {error.strerror}") from error
                continue
            waiting += [(item, here) for item in reversed(inside)]


def holds_any(sandbox: Sandbox) -> bool:
    """Tell whether any file may be seen, and look no further than to the first one."""
    return any(next(files(sandbox, start), None) is not None for start in sandbox.starts())


def pattern_spec(pattern: str) -> "GitIgnoreSpec":
    """Compile a glob: without a `/` it matches names at any depth, else paths from the root; `{a,b}` works.

    Raises ToolError for one that leads upwards, or has so many stars that matching could take for ever.
    """
    # Each pair of braces doubles them.
    alternatives = list(islice(_braces(pattern.removeprefix("./")), _MOST_STARS + 1))
    if ".." in PurePosixPath(pattern).parts:
        raise ToolError(f"the glob {pattern!r} leads out of the folder that you may read; leave out `..`")
    if any(item.count("*") > _MOST_STARS for item in alternatives) or len(alternatives) > _MOST_STARS:
        raise ToolError(f"the glob {pattern!r} has too many wildcards; at most {_MOST_STARS} are understood")
    return spec_of(f"\\{item}" if item.startswith(("!", "#")) else item for item in alternatives)


def _braces(pattern: str) -> Iterator[str]:
    head, opened, rest = pattern.partition("{")
    middle, closed, tail = rest.partition("}")
    if not (opened and closed and "," in middle):
        yield pattern
        return
    for choice in middle.split(","):
        for end in _braces(tail):
            yield f"{head}{choice}{end}"


def near(sandbox: Sandbox, relative: str) -> str:
    """Word a hint that names files whose path or name resembles one that does not exist; may be empty."""
    known = list(islice(files(sandbox), _NEAR_AMONG))
    wanted = relative.rpartition("/")[2].casefold()
    names: dict[str, list[str]] = {}
    for path in known:
        names.setdefault(path.rpartition("/")[2].casefold(), []).append(path)
    alike = difflib.get_close_matches(wanted, names, n=3, cutoff=0.6)
    found = [path for name in alike for path in names[name]][:3]
    return f"; did you mean {' or '.join(map(shown, found))}?" if found else ""
