"""Files as items: each file that matches a glob, with the digest of its content."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from run_specialist.batch.item import InputRecord
from run_specialist.batch.items.decoded_lines import OnBad
from run_specialist.batch.items.source import Source
from run_specialist.errors import ToolError, UsageError
from run_specialist.tools.sandbox.listing import files, pattern_spec
from run_specialist.tools.sandbox.sandbox import Sandbox, escape_path

_PART = 1024**2
_WILD = re.compile(r"[*?\[{\\]")


def files_source(pattern: str, root: Path, paths: Sequence[str] = ()) -> Source:
    """Return the files below a root that match a glob, sorted by path, as the file tools see them.

    Each has the fields `path` (relative to the root), `name` and `stem`; its content is not part of the question, but
    of its key. Symlinks are not followed; ignored and secret files are left out.
    pattern: `**` spans folders; without a `/` it matches names in every folder.
    paths: of the specialist; if given, other files are left out.
    Raises UsageError if the pattern is invalid or no file matches.
    """
    sandbox = Sandbox(root, paths)
    try:
        found = [*_matching(pattern, sandbox)]
    except ToolError as error:
        raise UsageError(str(error)) from None
    if not found:
        raise UsageError(
            f"no file below {root} matches {pattern!r}; `**` spans folders, and ignored, secret and linked files are "
            "left out"
        )

    def read(bad: OnBad) -> Iterator[InputRecord]:
        for relative in found:
            where = escape_path(relative)
            try:
                content = _digest(sandbox, relative)
            except OSError as error:
                bad(UsageError(f"{where} cannot be read: {error.strerror or error}"))
            else:
                path = PurePosixPath(where)
                yield InputRecord({"path": where, "name": path.name, "stem": path.stem}, where, content)

    return Source(f"{sandbox.root}: {pattern}", pattern, read, is_repeatable=True)


def _matching(pattern: str, sandbox: Sandbox) -> Iterator[str]:
    """Yield the files that match; the walk begins in the folder that the pattern names before its first wildcard."""
    sandbox.require_root()
    pattern = pattern.removeprefix(f"{sandbox.root.as_posix()}/").removeprefix("./")
    if not pattern.strip("/ "):
        raise UsageError("the glob for the files is empty; use one such as 'docs/**/*.md'")
    spec = pattern_spec(pattern)
    return (file for file in files(sandbox, _start(pattern, sandbox)) if spec.match_file(file))


def _start(pattern: str, sandbox: Sandbox) -> str:
    folders = pattern.strip("/").split("/")[:-1]
    plain = next((index for index, name in enumerate(folders) if _WILD.search(name)), len(folders))
    start = "/".join(folders[:plain])
    # Below a symlink or a hidden folder there is nothing to find; searching from the root says so in the same words.
    with suppress(ToolError):
        if start and (sandbox.root / start).is_dir() and sandbox.locate(start) == start:
            return start
    return ""


def _digest(sandbox: Sandbox, relative: str) -> str:
    digest = hashlib.sha256()
    with sandbox.open(relative) as file:
        while part := file.read(_PART):
            digest.update(part)
    return digest.hexdigest()
