"""One-line descriptions of MCP server errors."""

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from run_specialist.redaction import redact
from run_specialist.specialist.problems import shown

if TYPE_CHECKING:
    from pydantic import ValidationError

CLOSED = "Connection closed"
"""Message of the library for a closed connection."""

Hide = Callable[[str], str]
"""Masks secrets; applied before truncation, since a truncated key would not be recognized."""

_LONGEST = 300
_VALIDATION_DETAILS = re.compile(r":\s*\d+ validation errors? for .*", re.DOTALL)


class Unreachable(Exception):
    """A server is unavailable; `str(error)` is the reason, on one line."""


def first_line(texts: Iterable[str], hide: Hide = redact) -> str:
    """Return the first nonempty text as one printable line, without secrets and validation details."""
    one = next((text for text in texts if text.strip()), "")
    return shown(" ".join(hide(_VALIDATION_DETAILS.sub("", one)).split()), _LONGEST)


def violation(what: str, error: "ValidationError", hide: Hide, *, within: int = 0) -> str:
    """Return where a response of the server violates the protocol.

    what: subject and verb of the sentence.
    within: number of leading location parts that `what` already names.
    """
    wrong = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in wrong["loc"][within:])
    return first_line([": ".join(filter(None, [f"{what} not what the protocol wants", place, wrong["msg"]]))], hide)


def cause(error: BaseException) -> BaseException:
    """Return the first error of nested exception groups, in which the library's tasks wrap errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def describe(error: BaseException, hide: Hide) -> str:
    """Return an error as one line; empty if the connection was merely closed."""
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
