"""The option `--output FILE`: write the answer to a file instead of standard output, as `curl --output` does."""

import io
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import typer

from run_specialist.cli.console import fail
from run_specialist.cli.temporary_file import temporary_file
from run_specialist.specialist.project import result_path

STDOUT = Path("-")

OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        readable=False,  # its old content does not matter
        help="Write the answer to FILE instead of standard output: as Markdown, or as JSON with --json.",
    ),
]


class OutputFile:
    """A file for the answer, or standard output if there is none."""

    def __init__(self, path: Path | None) -> None:
        """Check that the file can be written, before anything is spent on the answer; exit if not.

        path: None or `-` for standard output.
        """
        self.path = None if path is None or path == STDOUT else path
        self.is_written = False
        """Whether the answer was written to the file."""
        if self.path is not None:
            try:
                try_writing(self.path)
            except OSError as error:
                self._fail(error)

    @contextmanager
    def opened(self) -> Iterator[TextIO | None]:
        """Return a context with the stream for the answer; the file is written at the end, if it has any content.

        If the file can no longer be written, the answer is printed instead, and the command exits.
        """
        if self.path is None:
            yield sys.stdout
            return
        buffer = io.BytesIO()
        stream = io.TextIOWrapper(buffer, encoding="utf-8", newline="\n")
        yield stream
        stream.flush()
        try:
            if content := buffer.getvalue():
                _write(self.path, content)
                self.is_written = True
        except OSError as error:
            _print(buffer.getvalue())
            self._fail(error, "; the answer was printed instead")

    def _fail(self, error: OSError, note: str = "") -> NoReturn:
        fail(f"--output {self.path}: {error.strerror or error}{note}")


def try_writing(path: Path) -> None:
    """Raise OSError with the reason if the file cannot be written."""
    target = result_path(path)
    if target.is_dir():
        raise OSError("it is a folder; name a file in it")
    if not target.parent.is_dir():
        reason = "is not a folder" if os.path.lexists(target.parent) else "does not exist; create it first"
        raise OSError(f"{target.parent} {reason}")
    if target.exists() and not os.access(target, os.W_OK):
        raise OSError("the file is read-only")
    if not _is_special(target):
        try:
            # Leaves no file behind, and also detects file systems that are full or read-only.
            with tempfile.TemporaryFile(dir=target.parent) as probe:
                probe.write(b"\0")
        except OSError as error:
            raise OSError(f"cannot write to {target.parent}: {error.strerror or error}") from None


def _write(path: Path, content: bytes) -> None:
    """Write the file; the target of a symlink is replaced, special files such as `/dev/stderr` are written directly."""
    target = result_path(path)
    if _is_special(path):
        with path.open("wb") as file:
            file.write(content)
        return
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask()
    temporary = temporary_file(target.parent, content, mode)
    try:
        temporary.replace(target)
    except BaseException:
        temporary.unlink()
        raise


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _umask() -> int:
    # The only way to read it is to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _print(content: bytes) -> None:
    if sys.stdout is not None:
        sys.stdout.write(content.decode("utf-8"))
        sys.stdout.flush()
