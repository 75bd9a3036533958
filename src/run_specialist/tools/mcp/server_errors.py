"""What goes wrong with an MCP server, in one line each."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from run_specialist.redaction import redact
from run_specialist.specialist.problems import shown

if TYPE_CHECKING:
    from pydantic import ValidationError

CLOSED = "Connection closed"
"""What the library says of a server that just went away."""

Hide = Callable[[str], str]
"""Masks what is secret; before anything is cut, for a part of a key would not be known again."""

_LONGEST = 300
_LECTURE = re.compile(r":\s*\d+ validation errors? for .*", re.DOTALL)


class Unreachable(Exception):
    """A server cannot be had; `str(error)` says why, in one line."""


def first_line(words: Iterable[str], hide: Hide = redact) -> str:
    """Return the first words that are not empty, printable, on one line, without keys and a validator's lecture."""
    one = next((word for word in words if word.strip()), "")
    return shown(" ".join(hide(_LECTURE.sub("", one)).split()), _LONGEST)


def misfit(what: str, error: "ValidationError", hide: Hide, *, within: int = 0) -> str:
    """Return where an answer of the server breaks the protocol.

    what: with its verb.
    within: how many parts of the place `what` tells.
    """
    wrong = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in wrong["loc"][within:])
    return first_line([": ".join(filter(None, [f"{what} not what the protocol wants", place, wrong["msg"]]))], hide)


def cause(error: BaseException) -> BaseException:
    """Return the first error of a group, which the library's tasks make of any."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def told(error: BaseException, hide: Hide) -> str:
    """Return in one line what went wrong; empty where the other side just went away."""
    error = cause(error)
    text = first_line([str(error)], hide)
    if text == CLOSED:
        return ""
    if isinstance(error, FileNotFoundError):
        return f"there is no program {first_line([str(error.filename)], hide)}"
    if isinstance(error, OSError) and error.filename:
        return f"{first_line([str(error.filename)], hide)} cannot be started: {error.strerror}"
    if isinstance(error, Unreachable | ValueError) or type(error).__name__ == "MCPError":
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
