"""Copy a specialist's file, as it was at a commit, into a folder from which it can be run."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.evals.git_files import Commit, NoFile
from run_specialist.specialist.problems import Problems
from run_specialist.specialist.raw_fields import take_values
from run_specialist.specialist.reading.frontmatter import read
from run_specialist.store.location import default_folder

FOLDER = "baselines"


def past_file(commit: Commit, path: str, keep: Path | None = None) -> Path:
    """Return the path of a copy of a specialist's file at a commit, and of the schema that it names, beside each other.

    path: relative to the top of the work tree, with `/`.
    keep: folder for all copies; None for one in the user's data directory.
    The same content always has the same path, so that stored runs of it can be resumed. Raises NoFile, or UsageError
    if the copy cannot be written.
    """
    contents = {path: commit.read(path)}
    schema = _schema(contents[path], path)
    if schema is not None:
        # A schema that is missing is reported with its line when the copy is loaded.
        with suppress(NoFile):
            contents[schema] = commit.read(schema)
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(b"%d %d " % (len(os.fsencode(name)), len(content)) + os.fsencode(name) + content)
    folder = (keep or default_folder() / FOLDER) / digest.hexdigest()[:16]
    try:
        # The paths in the file must not lead out of the copy, as they must not lead out of a project.
        for name, content in {".git": b"", **contents}.items():
            _write(folder / name, content)
    except OSError as error:
        raise UsageError(f"the copy {folder} cannot be written: {error.strerror or error}") from None
    return folder / path


def _schema(content: bytes, path: str) -> str | None:
    """Return the path of the schema that a file names, relative to the work tree; None if it is outside."""
    problems = Problems(Path(path))
    value = take_values(read(content, problems), problems).get("output_schema")
    if not isinstance(value, str) or os.path.isabs(value):  # noqa: PTH117 - a text
        return None
    inside = os.path.normpath(os.path.join(os.path.dirname(path), value))  # noqa: PTH118, PTH120 - same
    return None if inside.startswith("..") else inside.replace(os.sep, "/")


def _write(path: Path, content: bytes) -> None:
    with suppress(OSError):
        if path.read_bytes() == content and not path.is_symlink():
            return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
