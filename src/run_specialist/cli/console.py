"""What both commands share: printing, failing, completing names."""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, TextIO, cast

import typer

from run_specialist.errors import ProviderError, RunSpecialistError

_HARMLESS = frozenset("\n\t\u200c\u200d")
"""The joiners hold emoji and Persian words together."""
# Controls, what turns the direction of writing, what is not seen, and halves of signs; JSON itself escapes the others.
_NOT_FOR_TERMINALS = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def print_line(text: str, to: TextIO | None = None) -> None:
    """Print to standard output, whatever its encoding; a terminal gets no control characters.

    to: in place of standard output.
    """
    print_styled(printable(text) if is_terminal(to) else text, to)


def print_styled(text: str, to: TextIO | None = None) -> None:
    """Print what has colours of ours; whatever of it comes from outside went through `printable`."""
    out = to or sys.stdout
    if out is None:
        return
    encoding = out.encoding or "utf-8"
    out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    out.flush()


def is_terminal(to: TextIO | None = None) -> bool:
    """Tell whether somebody looks at standard output."""
    out = to or sys.stdout
    return out is not None and out.isatty()


def has_colours() -> bool:
    """Tell whether what is printed may have colours."""
    return is_terminal() and not os.environ.get("NO_COLOR")


def print_json(value: object, indent: int | None = 2, to: TextIO | None = None) -> None:
    """Print a value as JSON; what a terminal would act on is escaped, whoever reads it.

    Where the output cannot hold every character, all beyond ASCII is.
    """
    plain = (getattr(to or sys.stdout, "encoding", None) or "").lower().replace("-", "") != "utf8"
    text = json.dumps(value, ensure_ascii=plain, indent=indent)
    print_line(_NOT_FOR_TERMINALS.sub(lambda match: json.dumps(match[0])[1:-1], text), to)


def printable(text: str) -> str:
    """Return the text without what could move the cursor, change the title or clear the screen."""
    return "".join(sign if _is_harmless(sign) else "\ufffd" for sign in text)


def _is_harmless(sign: str) -> bool:
    # Of the blanks Python calls only the plain one printable.
    return sign.isprintable() or sign in _HARMLESS or unicodedata.category(sign) == "Zs"


def say(text: str, *, dim: bool = False) -> None:
    """Print a line of our own to standard error, if there is one.

    dim: less bright on a terminal.
    """
    line = labelled(text)
    try:
        typer.echo(typer.style(line, dim=True) if dim else line, err=True)
    except OSError:
        _hush(sys.stderr)


def labelled(text: str) -> str:
    """Return a line of our own as it is printed: behind the name of the command, without control characters."""
    return f"{Path(sys.argv[0]).name}: {printable(text)}"


def fail(text: str, code: int = 2) -> NoReturn:
    """Print why it cannot go on and leave."""
    say(text)
    raise typer.Exit(code)


@contextmanager
def guarded() -> Iterator[None]:
    """Turn what goes wrong into one line and the right exit code."""
    try:
        yield
    except RunSpecialistError as error:
        fail(str(error), 3 if isinstance(error, ProviderError) else 2)
    except BrokenPipeError:
        _hush(sys.stdout)
        raise typer.Exit(0) from None
    except OSError as error:
        _hush(sys.stdout)
        fail(f"{error.strerror or error}: {error.filename or 'the current folder, or the output'}")
    except KeyboardInterrupt:
        fail("interrupted", 130)


def _hush(stream: TextIO | None) -> None:
    """Give what is still buffered somewhere to go: the interpreter flushes once more at its end."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), cast("TextIO", stream).fileno())


@contextmanager
def as_program() -> Iterator[None]:
    """End without a traceback when Ctrl-C strikes before or after the work, or when the output takes nothing more.

    What cannot be written to standard output is a failure; what is lost on standard error changes no exit code.
    """
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _hush(sys.stdout)
        sys.exit(0)
    except OSError as error:
        _hush(sys.stdout)
        say(f"{error.strerror or error}: the output")
        sys.exit(2)
    finally:
        try:
            if sys.stderr is not None:
                sys.stderr.flush()
        except OSError:
            _hush(sys.stderr)


def complete_names(incomplete: str) -> list[str]:
    """Offer the names of specialists to a shell."""
    from run_specialist.specialist.registry import Registry, places, project_root  # noqa: PLC0415 - fast `--help`

    names = Registry(places(project_root(Path.cwd()), None)).names()
    return [name for name in names if name.startswith(incomplete) and name.isprintable()]
