"""What both commands share: printing, failing, completing names."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from run_specialist.errors import ProviderError, RunSpecialistError


def print_line(text: str) -> None:
    """Print to standard output, whatever its encoding; end quietly when nobody reads it."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at its end; give it somewhere to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Not typer's own exit: this one passes through task groups as it is.
        raise SystemExit(0) from None


def say(text: str) -> None:
    """Print a line of our own to standard error."""
    program = Path(sys.argv[0]).name
    typer.echo(f"{program}: {text}", err=True)


def fail(text: str, code: int = 2) -> NoReturn:
    """Print why it cannot go on and leave."""
    say(text)
    raise typer.Exit(code)


def print_json(value: object, indent: int | None = 2) -> None:
    """Print a value as JSON; where the output cannot hold every character, all beyond ASCII is escaped."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    print_line(json.dumps(value, ensure_ascii=plain, indent=indent))


def limit_text(text: str | None) -> str | None:
    """Let the text of a limit pass: a whole number from 0 up, or `none`; None is no text."""
    if text is not None and text != "none" and not (text.isascii() and text.isdigit()):
        raise typer.BadParameter(f"{text!r} is neither a whole number from 0 up nor `none`")
    return text


@contextmanager
def guarded() -> Iterator[None]:
    """Turn what goes wrong on purpose into one line and the right exit code."""
    try:
        yield
    except RunSpecialistError as error:
        fail(str(error), 3 if isinstance(error, ProviderError) else 2)
    except KeyboardInterrupt:
        fail("interrupted", 130)


def complete_names(incomplete: str) -> list[str]:
    """Offer the names of specialists to a shell."""
    from run_specialist.specialist.registry import Registry, places, project_root  # noqa: PLC0415 - fast `--help`

    names = Registry(places(project_root(Path.cwd()), None)).names()
    return [name for name in names if name.startswith(incomplete)]
