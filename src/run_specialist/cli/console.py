"""Print lines, errors and problems of files; wrap text; write output files."""

import io
import os
import re
import shutil
import signal
import stat
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO, cast

import typer

from run_specialist.errors import ProviderError, RunSpecialistError, errors_as, on_error, with_flags

if TYPE_CHECKING:
    from run_specialist.specialist.problems import Problem


# Line break, tab, and the joiners used in emoji and Persian text.
_HARMLESS = frozenset("\n\t\u200c\u200d")
# Control characters, bidirectional controls, invisible characters and surrogates; JSON escapes the others itself.
_NOT_FOR_TERMINALS = (
    "[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


_has_printed_json = False


def print_line(text: str, to: TextIO | None = None) -> None:
    """Print a line; control characters are replaced on a terminal, and unencodable characters are escaped.

    to: the stream; None for standard output.
    """
    print_styled(printable(text) if is_terminal(to) else text, to)


def print_styled(text: str, to: TextIO | None = None) -> None:
    """Print a line that contains ANSI colors; untrusted parts must have passed `printable`."""
    out = to or sys.stdout
    if out is None:
        return
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    out.flush()


def is_terminal(to: TextIO | None = None) -> bool:
    """Return whether the stream, or standard output, is a terminal."""
    out = to or sys.stdout
    return out is not None and out.isatty()


def has_colours(to: TextIO | None = None) -> bool:
    """Return whether the stream, or standard output, is a terminal that shows colors, and NO_COLOR is not set."""
    dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return is_terminal(to) and not dumb and not os.environ.get("NO_COLOR")


def print_json(value: object, indent: int | None = 2, to: TextIO | None = None) -> None:
    """Print a value as JSON, with terminal control characters escaped, also in pipes and files.

    If the stream's encoding is not UTF-8, all non-ASCII characters are escaped.
    """
    global _has_printed_json  # noqa: PLW0603 - as standard output, which there is once
    _has_printed_json = _has_printed_json or to in {None, sys.stdout}
    plain = (getattr(to or sys.stdout, "encoding", None) or "").lower().replace("-", "") != "utf8"
    print_line(as_json_text(value, indent, plain=plain), to)


def as_json_text(value: object, indent: int | None = 2, *, plain: bool = False) -> str:
    """Return a value as JSON, with terminal control characters escaped.

    plain: escape all non-ASCII characters.
    """
    import json  # noqa: PLC0415 - fast `--help`

    text = json.dumps(value, ensure_ascii=plain, indent=indent)
    return re.sub(_NOT_FOR_TERMINALS, lambda match: json.dumps(match[0])[1:-1], text)


def printable(text: str) -> str:
    """Return the text with U+FFFD for each character that could control the terminal."""
    if text.isprintable():
        return text
    # `isprintable` is false for all space characters except U+0020.
    return "".join(
        one if one.isprintable() or one in _HARMLESS or unicodedata.category(one) == "Zs" else "\ufffd" for one in text
    )


def say(text: str, *, dim: bool = False, command: str | None = None, follows: bool = False) -> None:
    """Print a message to standard error, if it is open; wrapped at words on a terminal.

    dim: print it dimmed on a terminal.
    command: a part of the text that is not wrapped, so that it can be copied.
    follows: on a terminal, indent it below the message before, as a part of that.
    """
    line = labelled(text)
    if is_terminal(sys.stderr):
        line = _INDENT + printable(text) if follows else line
        width, whole = stderr_width(), printable(command or "")
        line = "\n".join(part for one in line.split("\n") for part in wrapped(one, width, whole))
    try:
        typer.echo(typer.style(line, dim=True) if dim and has_colours(sys.stderr) else line, err=True)
    except OSError:
        redirect_to_null(sys.stderr)


def labelled(text: str) -> str:
    """Return a message prefixed with the command's name, without control characters."""
    return f"{Path(sys.argv[0]).name}: {printable(text)}"


def say_allowed(line: str) -> None:
    """Print what `--trust` has allowed; may be called from any thread."""
    say(with_flags(line))


ERROR_KINDS = {2: "usage", 3: "provider", 4: "no_answer", 130: "interrupted"}
"""Kinds of errors in JSON by exit code, for errors without a more precise kind."""


def fail(text: str, code: int = 2, kind: str | None = None) -> NoReturn:
    """Print an error message and exit; with --json it is also printed as an object on standard output.

    kind: the kind of the error in the object; None for that of the exit code.
    """
    say(text)
    if code:
        print_json_error(text, kind or ERROR_KINDS.get(code, "usage"))
    raise typer.Exit(code)


def print_json_error(text: str, kind: str) -> None:
    """Print `{"error": ...}` to standard output if the command line has --json, and nothing was printed yet."""
    words = sys.argv[1:]
    options = words[: words.index("--")] if "--" in words else words
    if "--json" not in options or _has_printed_json:
        return
    try:
        print_json({"error": {"kind": kind, "message": text}})
    except OSError:
        redirect_to_null(sys.stdout)


def require_extra(extra: str, who_needs: str, *packages: str) -> None:
    """Exit if one of the packages of an extra is not installed.

    who_needs: the beginning of the message, e.g. `a queue needs`.
    """
    if any(find_spec(one) is None for one in packages):
        from run_specialist.installation import adding  # noqa: PLC0415 - for errors only

        fail(f"{who_needs} the extra `{extra}`; {adding(extra)}")


def require_terminal(undone: str, *, yes: bool) -> None:
    """Exit if `confirm` could not ask, before what it asks about is shown; undone, yes: as there."""
    if not yes and (sys.stdin is None or not sys.stdin.isatty()):
        fail(f"--yes is required without a terminal; {undone}")


def confirm(question: str, undone: str, *, yes: bool, default: bool = False) -> None:
    """Ask for confirmation on the terminal; exit if it is denied, or cannot be asked for.

    undone: what was not done then, e.g. `nothing was deleted`.
    yes: do not ask.
    """
    require_terminal(undone, yes=yes)
    if not yes and not typer.confirm(question, default=default, err=True):
        fail(undone, 0)


@contextmanager
def guarded() -> Iterator[None]:
    """Convert exceptions to one-line messages and exit codes."""
    try:
        yield
    except RunSpecialistError as error:
        if isinstance(error, ProviderError):
            fail(with_flags(str(error)), 3, error.kind)
        fail(with_flags(str(error)))
    except BrokenPipeError:
        redirect_to_null(sys.stdout)
        raise typer.Exit(0) from None
    except OSError as error:
        redirect_to_null(sys.stdout)
        fail(f"{error.strerror or error}: {error.filename or 'current folder or standard output'}")
    except (KeyboardInterrupt, typer.Abort):
        # The latter after Ctrl-C, or at the end of the input, while a question waits for its answer.
        fail("interrupted", 130)


def redirect_to_null(stream: TextIO | None) -> None:
    """Redirect a broken stream to the null device, because the interpreter flushes its buffer again at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), cast("TextIO", stream).fileno())


@contextmanager
def as_program() -> Iterator[None]:
    """Exit without a traceback on Ctrl-C at any time, and if the output cannot be written.

    An error on standard output fails the command; an error on standard error does not change the exit code.
    """
    try:
        yield
    except KeyboardInterrupt:
        # Another Ctrl-C while the program exits must not change the exit code, nor wait for what is left.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        sys.exit(130)
    except BrokenPipeError:
        redirect_to_null(sys.stdout)
        sys.exit(0)
    except OSError as error:
        redirect_to_null(sys.stdout)
        say(f"{error.strerror or error}: standard output")
        sys.exit(2)
    finally:
        try:
            if sys.stderr is not None:
                sys.stderr.flush()
        except OSError:
            redirect_to_null(sys.stderr)


def complete_names(incomplete: str) -> list[str]:
    """Return the matching names of specialists for shell completion."""
    from run_specialist.specialist.project import places, project_root  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.registry import Registry  # noqa: PLC0415 - fast `--help`

    names = [file.name for file in Registry(places(project_root(Path.cwd()), None)).nearest()]
    return [name for name in names if name.startswith(incomplete) and name.isprintable()]


# Indentation of a message's further lines.
_INDENT = "  "
_USUAL_WIDTH = 80


def wrapped(text: str, width: int, command: str = "") -> list[str]:
    """Return a text as lines that break only between words; further lines are indented.

    width: [columns]; a longer word or command gets a separate line.
    command: a part of the text that counts as one word.
    """
    # The blanks of the command are replaced while the text is wrapped.
    whole = text.replace(command, command.replace(" ", "\0"))
    lines = textwrap.wrap(whole, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines] or [""]


def print_wrapped(line: str, color: str | None = None) -> None:
    """Print a line, wrapped at words on a terminal."""
    if not is_terminal():
        print_line(line)
        return
    for part in wrapped(printable(line), shutil.get_terminal_size().columns):
        print_styled(typer.style(part, color) if color and has_colours() else part)


def stderr_width() -> int:
    """Return the width of the terminal on standard error; standard output may be a pipe."""
    with suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", ""))) > 0:
            return columns
    with suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    return _USUAL_WIDTH


STDOUT = Path("-")


class OutputFile:
    """A file for the answer, or standard output if there is none."""

    def __init__(self, path: Path | None, option: str = "--output") -> None:
        """Check that the file can be written, before anything is spent on the answer; exit if not.

        path: None or `-` for standard output.
        option: names the file in errors.
        """
        self.path = None if path is None or path == STDOUT else path
        self._option = option
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
                write_file(self.path, content)
                self.is_written = True
        except OSError as error:
            if sys.stdout is not None:
                sys.stdout.write(buffer.getvalue().decode("utf-8"))
                sys.stdout.flush()
            self._fail(error, "; the answer was printed instead")

    def _fail(self, error: OSError, note: str = "") -> NoReturn:
        fail(f"{self._option} {self.path}: {error.strerror or error}{note}")


def try_writing(path: Path) -> None:
    """Raise OSError with the reason if the file cannot be written."""
    import tempfile  # noqa: PLC0415 - fast `--help`

    from run_specialist.specialist.project import result_path  # noqa: PLC0415 - as above

    target = result_path(path)
    if target.is_dir():
        raise OSError("it is a folder; name a file in it")
    if not target.parent.is_dir():
        reason = "is not a folder" if os.path.lexists(target.parent) else "does not exist; create it first"
        raise OSError(f"{target.parent} {reason}")
    if target.exists() and not os.access(target, os.W_OK):
        raise OSError("the file is read-only")
    if not _is_special(target):
        # Leaves no file behind, and also detects file systems that are full or read-only.
        refused = errors_as(OSError, f"cannot write to {target.parent}", OSError)
        with refused, tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(b"\0")


def write_file(path: Path, content: bytes, *, mode: int | None = None, overwrite: bool = True) -> None:
    """Write a file atomically; raises OSError with the path.

    The target of a symlink is replaced, not the symlink; special files such as `/dev/stderr` are written directly.
    mode: its permissions; None = those of the file that it replaces, otherwise the usual ones.
    overwrite: replace an existing file; otherwise FileExistsError is raised.
    """
    from run_specialist.specialist.project import result_path  # noqa: PLC0415 - fast `--help`

    try:
        if overwrite and _is_special(path):
            with path.open("wb") as file:
                file.write(content)
            return
        target = result_path(path) if overwrite else result_path(path.parent) / path.name
        if mode is None and target.exists():
            mode = stat.S_IMODE(target.stat().st_mode)
        elif mode is None:
            # The only way to read the umask is to set it.
            mask = os.umask(0o077)
            os.umask(mask)
            mode = 0o666 & ~mask
        temporary = temporary_file(target.parent, content, mode)
        with on_error(temporary.unlink):
            if not overwrite:
                # Reserve the name, so that a file created in the meantime is not replaced.
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
            temporary.replace(target)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def write_private(path: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a file that only its owner can read, because a report may contain secrets; as `write_file`."""
    write_file(path, content, mode=0o600, overwrite=overwrite)


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def temporary_file(folder: Path, content: bytes, mode: int) -> Path:
    """Create a hidden file with this content in a folder, and return its path; raises OSError.

    mode: its permissions, regardless of the umask.
    """
    import tempfile  # noqa: PLC0415 - fast `--help`

    descriptor, name = tempfile.mkstemp(prefix=".run-specialist-", dir=folder)
    path = Path(name)
    with on_error(path.unlink):
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        path.chmod(mode)
    return path


# Colors of the lines of a diff, by their first character.
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def print_diff(diff: str, to: TextIO | None = None) -> None:
    """Print a diff; on a terminal control characters are replaced, elsewhere it is printed unchanged.

    to: the stream; None for standard output.
    """
    text = diff.removesuffix("\n")
    if is_terminal(to):
        lines = [printable(line) for line in text.split("\n")]
        for place, line in enumerate(lines if has_colours(to) else ()):
            if line.startswith(("+++", "---", "diff ")):
                lines[place] = typer.style(line, bold=True)
            elif colour := _DIFF_COLOURS.get(line[:1]):
                lines[place] = typer.style(line, fg=colour)
        text = "\n".join(lines)
    if text:
        print_styled(text, to)


_COLORS = {"error": "red", "warning": "yellow"}


def project_folder(given: Path | None) -> Path:
    """Return the folder of `--root`, otherwise the current project; exit if the folder does not exist."""
    from run_specialist.specialist.project import project_root  # noqa: PLC0415 - fast `--help`

    if given is not None and not given.is_dir():
        fail(f"--root: {given} is not a folder")
    return given or project_root(Path.cwd())


def relative(path: Path) -> Path:
    """Return the path relative to the current folder if it is inside of it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def print_problems(problems: Sequence["Problem"]) -> None:
    """Print a line for each problem, with its level and the path relative to the current folder."""
    for problem in problems:
        text = replace(problem, path=relative(problem.path)).printed(f"{problem.level}: ")
        print_wrapped(with_flags(text), _COLORS.get(problem.level))


def one_line(text: str) -> str:
    """Return the text on one line, without control characters."""
    return printable(" ".join(text.split()))
