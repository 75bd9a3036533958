"""Functions shared by all commands: output, error handling, and shell completion of names."""

import json
import os
import re
import signal
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, TextIO, cast

import typer

from run_specialist.api.flag_names import with_flags
from run_specialist.cli.wrapping import stderr_width, wrapped
from run_specialist.errors import ProviderError, RunSpecialistError

_HARMLESS = frozenset("\n\t\u200c\u200d")
"""Line break, tab, and the joiners used in emoji and Persian text."""
# Control characters, bidirectional controls, invisible characters and surrogates; JSON escapes the others itself.
_NOT_FOR_TERMINALS = re.compile(
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
    text = json.dumps(value, ensure_ascii=plain, indent=indent)
    return _NOT_FOR_TERMINALS.sub(lambda match: json.dumps(match[0])[1:-1], text)


def printable(text: str) -> str:
    """Return the text with U+FFFD for each character that could control the terminal."""
    return "".join(character if _is_harmless(character) else "\ufffd" for character in text)


def _is_harmless(character: str) -> bool:
    # `isprintable` is false for all space characters except U+0020.
    return character.isprintable() or character in _HARMLESS or unicodedata.category(character) == "Zs"


def say(text: str, *, dim: bool = False, command: str | None = None) -> None:
    """Print a message to standard error, if it is open; wrapped at words on a terminal.

    dim: print it dimmed on a terminal.
    command: a part of the text that is not wrapped, so that it can be copied.
    """
    line = labelled(text)
    if is_terminal(sys.stderr):
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
    from run_specialist.specialist.registry import Registry, places, project_root  # noqa: PLC0415 - fast `--help`

    names = Registry(places(project_root(Path.cwd()), None)).names()
    return [name for name in names if name.startswith(incomplete) and name.isprintable()]
