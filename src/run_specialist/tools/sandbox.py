"""What the file tools see below the root: listing folders, reading text."""

import io
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from run_specialist.errors import ToolError, UsageError, errors_as
from run_specialist.safety.credentials import lines_without_keys
from run_specialist.safety.redact import redact
from run_specialist.safety.safe_files import folder, place, way
from run_specialist.tools.ignore import IgnoreRules, compile_globs
from run_specialist.tools.scripts import DETECTION_SIZE, encoding_of, lines_of
from run_specialist.tools.secret_files import holds_cases, holds_notes, is_secret, names_secret
from run_specialist.tools.threads import check_cancelled


class _Selection:
    """Some of the `paths`, each as two parts: its folder, and what follows from the first wildcard on."""

    def __init__(self, paths: Sequence[tuple[str, str]]) -> None:
        self.paths = paths

    def select(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether any path selects this entry or a folder above it, or, for a folder, may select its entries."""
        if is_folder and any(
            f"{folder}/".startswith(f"{relative}/")
            or not relative
            or (
                (not folder or f"{relative}/".startswith(f"{folder}/"))
                # Without a wildcard for folders, a pattern does not match below its own depth.
                and ("**" in rest or relative.count("/") < f"{folder}/{rest}".strip("/").count("/"))
            )
            for folder, rest in self.paths
        ):
            return True
        return bool(self.paths) and bool(self._regex.fullmatch(f"/{relative}{'/' * is_folder}"))

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        literals = ((re.sub(r"([*?\[\]\\! #])", r"\\\1", folder), rest) for folder, rest in self.paths)
        return compile_globs("/" + "/".join(filter(None, both)) for both in literals)


# Maximum length of a path on Linux, and at most that elsewhere [bytes].
_LONGEST = 4096
_SEPARATOR = re.compile(r":(?=\d+: )")
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

_CLOSED = "is closed: such files hold secrets, and only `paths` in the specialist's file opens them, by name"
_CLOSED_CASES = "is closed: it holds the expected answers of an eval; `paths` in the specialist's file can name it"
_CLOSED_NOTES = "is closed: it holds notes of specialists; `paths` in the specialist's file can name it"
_UNFINISHED = "is hidden while a batch writes its answers there"
# Ends the name of a file with the rows that a batch has so far, beside the file that they will replace.
_PART = ".part"


def escape_path(path: str) -> str:
    """Escape a path so that it is valid text on one line; `unescape_path` reverses this.

    It also escapes the separator of `path:line: text`, so that a file name cannot fake a hit in another file.
    """
    for character, escape in _ESCAPES.items():
        path = path.replace(character, escape)
    path = _SEPARATOR.sub(r"\\x3a", path)
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def unescape_path(path: str) -> str:
    """Unescape a path that `escape_path` has escaped."""
    for character, escape in _ESCAPES.items():
        path = path.replace(escape, character)
    path = path.replace(r"\x3a", ":")
    return re.sub(r"\\x([89a-f][0-9a-f])", lambda match: chr(0xDC00 + int(match[1], 16)), path)


ELSE = "else"
"""Separates alternatives in `paths`."""


class Sandbox:
    """Root folder that paths cannot leave; ignored, unselected and secret entries are hidden."""

    def __init__(self, root: Path, paths: Sequence[str] = (), key: str = "paths") -> None:
        """Create a sandbox for a root folder, which need not exist yet.

        paths: folders, files or globs under the root, as in a specialist's file; if given, other entries are hidden.
        key: key of the file that gives them.
        Raises UsageError for a path outside the root.
        """
        self.root = Path(os.path.realpath(root))
        named, secrets = [], []
        for path in chosen(root, paths):
            parts = Path(path).parts
            plain = next((i for i, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))
            folder = self.relative(self._resolve(str(Path(*parts[:plain]))))
            if folder is None or ".." in parts[plain:]:
                raise UsageError(f"{key}: {path!r} is outside the root {self.root}; use a path under it")
            named.append((folder, "/".join(parts[plain:])))
            # A symlink with another name to a secret file does not name it.
            written = {part.casefold() for part in parts}
            real = [*filter(None, folder.split("/")), *parts[plain:]]
            pairs = pairwise(["", *real])
            if any(names_secret(above, part) and part.casefold() in written for above, part in pairs):
                secrets.append(named[-1])
        self._named = _Selection(named)
        self._sees_all = not named or ("", "") in named
        self._named_secrets = _Selection(secrets)

    @property
    def names_secrets(self) -> bool:
        """Whether its paths open files that usually hold secrets."""
        return bool(self._named_secrets.paths)

    def _resolve(self, path: str) -> Path:
        with errors_as(ToolError, f"{escape_path(path)!r} is no usable path", OSError, ValueError):
            return Path(os.path.realpath(self.root / path))

    def resolve(self, path: str) -> Path:
        """Return the real path of a path given as it is, or as `escape_path` returns it; it may be outside the root.

        Raises ToolError if it cannot be a path.
        """
        real = self._resolve(path)
        if not os.path.lexists(real) and unescape_path(path) != path:
            real = self._resolve(unescape_path(path))
        return real

    def relative(self, real: Path) -> str | None:
        """Return a resolved path relative to the root; empty for the root itself, None outside it."""
        return "/".join(real.relative_to(self.root).parts) if real.is_relative_to(self.root) else None

    def locate(self, path: str) -> str:
        """Resolve the symlinks of a path and return it relative to the root; it need not exist.

        Raises ToolError if the result is outside the root or hidden.
        """
        self.require_root()
        real = self.resolve(path)
        relative = self.relative(real)
        if relative is None:
            raise ToolError(f"{escape_path(path)!r} is outside the root; use ls or glob to see what you may read")
        if os.path.lexists(real) and (reason := self._hidden(relative, is_folder=real.is_dir())):
            raise ToolError(f"{escape_path(path)!r} {reason}; use ls or glob to see what you may read")
        return relative

    def require_root(self) -> None:
        """Raise ToolError if the root is not, or no longer, a folder."""
        if not self.root.is_dir():
            raise ToolError(f"the root folder {self.root} does not exist (any more); no file can be read")

    def _hidden(self, relative: str, *, is_folder: bool) -> str | None:
        if not self.is_selected(relative, is_folder=is_folder):
            return "is not among the paths that you may read"
        parts = relative.split("/") if relative else []
        try:
            for depth, rules in enumerate(self.rules_above(relative)):
                if parts[depth].casefold() == ".git":
                    return "belongs to git"
                if rules.hide("/".join(parts[: depth + 1]), is_folder=is_folder or depth < len(parts) - 1):
                    return "is hidden by .gitignore"
        except OSError as error:
            # It is unknown whether it is ignored.
            return f"cannot be reached: {error.strerror}"
        if not is_folder and os.path.lexists(self.root / f"{relative.removesuffix('.new').removesuffix(_PART)}{_PART}"):
            return _UNFINISHED
        if self.is_closed(relative, is_folder=is_folder):
            return _CLOSED_NOTES if holds_notes(relative) else _CLOSED_CASES if holds_cases(relative) else _CLOSED
        return None

    def rules_above(self, relative: str) -> Iterator[IgnoreRules]:
        """Yield the ignore rules of each folder from the root down to a path's parent; nothing for the root itself.

        Raises OSError.
        """
        if not relative:
            return
        rules, above = IgnoreRules(), ""
        with closing(way(self.root, relative.rpartition("/")[0])) as steps:
            for here, name in zip(steps, relative.split("/"), strict=True):
                rules = rules.within(here, above)
                yield rules
                above = f"{above}/{name}" if above else name

    def parent_rules(self, relative: str) -> IgnoreRules:
        """Return the ignore rules of a path's parent folder; none for the root itself. Raises OSError."""
        return [IgnoreRules(), *self.rules_above(relative)][-1]

    def is_short_enough(self, relative: str) -> bool:
        """Return whether a path is short enough for system calls."""
        return len(os.fsencode(f"{self.root}/{relative}")) < _LONGEST

    def is_selected(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether `paths` selects this entry or, for a folder, may select its entries."""
        return self._sees_all or self._named.select(relative, is_folder=is_folder)

    def is_closed(self, relative: str, *, is_folder: bool) -> bool:
        """Return whether an entry usually holds secrets and is not named explicitly in `paths`."""
        return is_secret(relative) and not self._named_secrets.select(relative, is_folder=is_folder)

    def starts(self) -> Iterator[str]:
        """Yield the existing, visible folders and files with which `paths` begin."""
        for start in [""] if self._sees_all else dict.fromkeys(start for start, _ in self._named.paths):
            path = self.root / start
            is_folder = os.path.isdir(path)  # noqa: PTH112 - pathlib raises for inaccessible paths
            if (is_folder or os.path.isfile(path)) and not self._hidden(start, is_folder=is_folder):  # noqa: PTH113 - as above
                yield start

    def open(self, relative: str) -> BinaryIO:
        """Open a located regular file for reading, without following symlinks; other files are never opened.

        Raises OSError.
        """
        with place(self.root, relative) as (here, name):
            return here.file(name)

    def size(self, relative: str) -> int:
        """Return the size of a located file [bytes]; raises OSError."""
        with place(self.root, relative) as (here, name):
            return here.info(name).st_size


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
    return _list_folder(sandbox, relative, sandbox.parent_rules(relative), check_cancelled)[0]


def _list_folder(
    sandbox: Sandbox, relative: str, rules: IgnoreRules, check: Callable[[], None]
) -> tuple[list[Entry], IgnoreRules]:
    """Return the visible entries of a folder, and the ignore rules that apply in it.

    rules: ignore rules of the parent folder.
    """
    visible: list[Entry] = []
    unfinished: set[str] = set()
    with folder(sandbox.root, relative) as here, here.listing() as found:
        rules = rules.within(here, relative)
        for item in found:
            check()
            if item.name.endswith(_PART):
                target = item.name.removesuffix(_PART)
                unfinished |= {item.name, target, f"{target}.new"}
            is_folder = item.is_dir(follow_symlinks=False)
            is_file = not is_folder and item.is_file(follow_symlinks=False)
            kind = "folder" if is_folder else "file" if is_file else "link" if item.is_symlink() else "special"
            entry = Entry(f"{relative}/{item.name}" if relative else item.name, kind)
            if (
                item.name.casefold() != ".git"
                and sandbox.is_short_enough(entry.relative)
                and sandbox.is_selected(entry.relative, is_folder=is_folder)
                and not sandbox.is_closed(entry.relative, is_folder=is_folder)
                and not rules.hide(entry.relative, is_folder=is_folder)
            ):
                visible.append(entry)
    # The answers of a batch must not become evidence for its other answers.
    shown = (one for one in visible if one.kind == "folder" or one.name not in unfinished)
    return sorted(shown, key=lambda one: one.relative), rules


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
    pending: list[tuple[Entry, IgnoreRules]] = []
    with suppress(OSError):
        pending = [(Entry(relative, "folder"), sandbox.parent_rules(relative))]
    while pending:
        entry, rules = pending.pop()
        if entry.kind == "file":
            yield entry.relative
        elif entry.kind == "folder":
            check()
            try:
                listed, inner_rules = _list_folder(sandbox, entry.relative, rules, check)
            except OSError as error:
                if entry.relative != relative:
                    continue
                raise ToolError(f"{escape_path(relative) or 'the root'} cannot be listed: {error.strerror}") from error
            pending += [(item, inner_rules) for item in reversed(listed)]


def holds_any(sandbox: Sandbox) -> bool:
    """Return whether any file is visible; stops at the first one."""
    return any(next(files(sandbox, start), None) is not None for start in sandbox.starts())


def chosen(root: Path, paths: Sequence[str]) -> Sequence[str]:
    """Return those of a file's `paths` that count: the ones before the word `else`, or if no file matches, after it."""
    at = paths.index(ELSE) if ELSE in paths[1:-1] else 0
    if not at or holds_any(Sandbox(root, paths[:at])):
        return paths[: at or None]
    return chosen(root, paths[at + 1 :])


CLIP = 500
"""Maximum length of a line shown among others; longer ones are clipped [characters]."""
TIMEOUT = 20.0
"""Timeout for reading one file [s]."""
Lines = Iterator[tuple[str, int]]
"""Lines of a text, each with its original length [characters]."""


@contextmanager
def _opened(sandbox: Sandbox, relative: str, content: bytes | None = None) -> Iterator[tuple[BinaryIO, str]]:
    """Open a text file, and return it with its encoding; as `text_lines`."""
    readable = errors_as(ToolError, f"{escape_path(relative)} cannot be read", OSError)
    with readable, sandbox.open(relative) if content is None else io.BytesIO(content) as file:
        encoding = encoding_of(file.read(DETECTION_SIZE) or b"")
        if encoding is None:
            raise ToolError(f"{escape_path(relative)} is a binary file; only text can be read")
        file.seek(0)
        yield file, encoding


@contextmanager
def text_lines(sandbox: Sandbox, relative: str, content: bytes | None = None) -> Iterator[tuple[Lines, int]]:
    """Open a text file and return its lines and its size [bytes].

    content: its content if that is known already.
    Raises ToolError if the file cannot be read or is not text.
    """
    with _opened(sandbox, relative, content) as (file, encoding):
        lines = lines_of(file, encoding, time.monotonic() + TIMEOUT)
        yield _masked(lines), os.fstat(file.fileno()).st_size if content is None else len(content)


def _masked(lines: Iterable[tuple[str, int]]) -> Lines:
    """Mask secrets of which a result might show an unrecognizable part: private keys, and secrets in long lines."""
    for line, length in lines_without_keys(lines):
        if length > CLIP:
            masked = redact(line)
            yield masked, length - len(line) + len(masked)
        else:
            yield line, length


def read_text(sandbox: Sandbox, relative: str, most: int) -> tuple[str, int] | None:
    """Return the text of a file and its size [bytes]; None if the size exceeds `most`.

    Raises ToolError if the file cannot be read or is not text.
    """
    content = bytearray()
    with _opened(sandbox, relative) as (file, encoding):
        # Read to the end, since the reported size may be outdated, or 0 for virtual files.
        while len(content) <= most and (chunk := file.read(65_536)):
            content += chunk
    if len(content) > most:
        return None
    lines = content.decode(encoding, "replace").split("\n")
    return "\n".join(line for line, _ in _masked((line, len(line)) for line in lines)), len(content)


def fit(lines: Iterable[str], limit: int, note: Callable[[int], str]) -> str:
    """Join as many lines as fit within a limit, and append a note.

    limit: maximum length including the note [characters].
    note: returns a note on the omitted lines, given the number of lines taken; may be empty.
    """
    remaining = max(limit - len(note(0)) - 40, limit // 2)
    taken: list[str] = []
    for line in lines:
        if len(line) + 1 > remaining:
            if not taken:
                taken.append(line[: max(0, remaining)])
            break
        remaining -= len(line) + 1
        taken.append(line)
    parts = ("\n".join(taken), note(len(taken)))
    return "\n".join(part for part in parts if part)[:limit]
