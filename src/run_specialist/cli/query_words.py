"""The question of a run: the words of the command line, standard input, or both."""

import os
import stat
import sys
from array import array
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from run_specialist.cli.console import fail, say
from run_specialist.cli.help_format import HelpContext

STDIN = "-"
"""The word that is replaced by the text on standard input."""
LARGEST = 10 * 1024 * 1024
"""Maximum size of the text on standard input [bytes]; no model has room for a longer one."""

_PATIENCE = 1.0
"""Time without any input after which a message explains what the command is waiting for [s]."""
_NAME_AND_QUESTION = 2

QueryWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="QUERY",
        show_default=False,
        help="The question, in quotes or as several words; `-` means the text on standard input, which is also "
        "read if there is no QUERY.",
    ),
]
MoreWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="QUERY",
        show_default=False,
        help="An additional question, in quotes or as several words; `-` means the text on standard input.",
    ),
]


class WordsCommand(TyperCommand):
    """A command whose last argument is a question in words, some of which may look like options."""

    context_class = HelpContext

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - click's context
        """Parse the arguments; the error for an unknown option says how to ask a question that contains it."""
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class of this error is part of click, or of a copy of click inside typer.
            option = getattr(error, "option_name", None)
            if option and _follows_a_question(option, given):
                error.message = f"{error.format_message()}\n{_HINT}"  # type: ignore[attr-defined]
                error.possibilities = None  # type: ignore[attr-defined]
            raise


_HINT = "If it belongs to the question, quote the question, or put `--` before it."


def _follows_a_question(option: str, args: Sequence[str]) -> bool:
    """Return whether an unknown option follows a name and at least one word of a question."""
    at = next((index for index, word in enumerate(args) if word.startswith(option)), 0)
    return sum(not word.startswith("-") for word in args[:at]) >= _NAME_AND_QUESTION


def question_from(words: Sequence[str] | None) -> str:
    """Return the question: the words joined by spaces, otherwise the text on standard input; exit if both are empty."""
    if words:
        return more_from(words) or ""
    if sys.stdin is None or sys.stdin.isatty():
        program = "run-specialist NAME"
        fail(f"there is no question; use: {program} 'why does it stop?', or from a pipe: git diff | {program}")
    _say_if_waiting()
    text = _read()
    if not text.strip():
        fail("there is no question: QUERY is missing, and standard input is empty")
    return text


def more_from(words: Sequence[str] | None) -> str | None:
    """Return the words joined by spaces, with `-` replaced by the text on standard input; None without words.

    The text is a separate paragraph between the words before and after it.
    """
    if not words:
        return None
    if STDIN not in words:
        return " ".join(words)
    if words.count(STDIN) > 1:
        fail("`-` means standard input, which can be read only once; put the question in quotes")
    if sys.stdin is None:
        fail("standard input is closed; pass the question as QUERY instead of `-`")
    if sys.stdin.isatty():
        say("type the text, then press Ctrl-D on an empty line")
    text = _read()
    if len(words) == 1:
        return text
    at = [*words].index(STDIN)
    parts = (" ".join(words[:at]), text.strip("\r\n"), " ".join(words[at + 1 :]))
    return "\n\n".join(part for part in parts if part)


def unread_input() -> bool:
    """Return whether standard input is a pipe, a socket or a file with unread text.

    An open but empty pipe, as programs often pass it to their children, has none.
    """
    try:
        descriptor = sys.stdin.fileno()
        info = os.fstat(descriptor)
        if stat.S_ISREG(info.st_mode):
            return os.lseek(descriptor, 0, os.SEEK_CUR) < info.st_size
        is_pipe = stat.S_ISFIFO(info.st_mode) or stat.S_ISSOCK(info.st_mode)
        return is_pipe and _waiting_bytes(descriptor) > 0
    except (OSError, ValueError, AttributeError, ImportError):
        return False  # closed, replaced by the calling program, or a system without these calls


def _waiting_bytes(descriptor: int) -> int:
    import fcntl  # noqa: PLC0415 - does not exist on Windows
    import termios  # noqa: PLC0415 - as above

    number = array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, number)
    return number[0]


def _say_if_waiting() -> None:
    """Print that the question is read from standard input, if nothing arrives there for a while."""
    import select  # noqa: PLC0415 - not needed for a question in words

    try:
        ready = select.select([sys.stdin], [], [], _PATIENCE)[0]
    except (OSError, ValueError):
        return  # replaced by the calling program, or no pipe on Windows
    if not ready:
        say("waiting for the question on standard input; to ask without it: run-specialist NAME QUERY")


def _read() -> str:
    try:
        data = sys.stdin.buffer.read(LARGEST + 1)
    except OSError as error:
        fail(f"standard input cannot be read: {error.strerror or error}")
    if len(data) > LARGEST:
        fail(f"standard input is longer than {LARGEST // 1024**2} MiB; ask about a file of the project instead")
    return data.decode("utf-8", "replace")
