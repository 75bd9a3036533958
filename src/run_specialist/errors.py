"""Exceptions of this package.

    RunSpecialistError
    ├── UsageError              caller's mistake: wrong flag or file, missing credentials (exit code 2)
    │   ├── SpecialistNotFound  no specialist has this name; the message suggests similar names
    │   ├── SpecialistUnusable  the specialist's file has errors
    │   ├── NoCredentials       a model is named, and neither a key nor a base URL for it is set
    │   ├── NothingToRead       no file under the root matches the specialist's `paths`
    │   ├── StoreUnusable       the store cannot be read or written, is too new, or is not a run-specialist store
    │   │   └── StoreMissing    the store does not exist yet; reading does not create it
    │   ├── RunNotFound         no stored run matches the id, or several do
    │   ├── NotTrusted          the file would start or import something that is not allowed yet
    │   └── NotResumable        the run cannot be resumed; the message gives the reason
    │       └── AtWork          somebody is at work on the run, in this process or another
    ├── ProviderError           the model request failed or the reply was invalid (exit code 3)
    │   ├── Unavailable         the endpoint cannot answer now; the same request may succeed later
    │   ├── ChoiceRefused       the endpoint rejects how a landing constrains the reply; the next rung follows
    │   │   ├── ForcingRefused  it rejects a forced `tool_choice`
    │   │   └── SchemaRefused   it rejects a JSON Schema for the reply
    │   └── ContextExceeded     the transcript exceeds the context window; the run ends with the gathered material
    └── ToolError               a tool call failed; the model receives the message as an error result

A spent budget is an outcome, not an exception.
"""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

ProviderErrorKind = Literal[
    "rate_limited",
    "overloaded",
    "quota",
    "credentials",
    "model_missing",
    "connection",
    "server_error",
    "invalid_request",
    "context_exceeded",
]
"""The kind of failure of a ProviderError, so that a program can decide whether to wait, to retry or to stop."""


class RunSpecialistError(Exception):
    """Base of all errors of this package; `str(error)` is one line that names the problem and the fix."""


class UsageError(RunSpecialistError):
    """A flag, a file or the environment is wrong; no request was sent to a model."""


class SpecialistNotFound(UsageError):
    """None of the searched folders contains a specialist with this name."""


class SpecialistUnusable(UsageError):
    """The specialist's file has an error and cannot be run."""


class NoCredentials(UsageError):
    """A model is named, and neither a key nor a base URL for it is set."""


class NothingToRead(UsageError):
    """No file under the root matches the specialist's `paths`."""


class StoreUnusable(UsageError):
    """The store cannot be read or written, is too new, or is not a run-specialist store; it was left unchanged."""


class StoreMissing(StoreUnusable):
    """The store does not exist yet; the first run creates it."""


class RunNotFound(UsageError):
    """No stored run matches this id, or several match this prefix."""


class NotTrusted(UsageError):
    """The file would start a command, import code or contact a server, and this has not been allowed yet."""


class NotResumable(UsageError):
    """The run cannot be resumed as requested."""


class AtWork(NotResumable):
    """Another run object, in this process or another, works on the run with this id; only one may."""


class ProviderError(RunSpecialistError):
    """The model request failed, or the reply could not be parsed."""

    default_kind: ProviderErrorKind = "server_error"

    def __init__(
        self, message: str, *, kind: ProviderErrorKind | None = None, retry_after: float | None = None
    ) -> None:
        """Describe the failure in one line.

        kind: None for the `default_kind` of the class.
        retry_after: the wait that the server requests [s]; None if it requests none.
        """
        super().__init__(message)
        self.kind: ProviderErrorKind = kind or self.default_kind
        # An infinite number is not valid in JSON, and no wait that a program could plan.
        self.retry_after = None if retry_after is None or math.isinf(retry_after) else retry_after

    def as_final(self, message: str | None = None) -> "ProviderError":
        """Return the failure as an error that is not retried.

        message: another text; None keeps the text.
        """
        return ProviderError(str(self) if message is None else message, kind=self.kind, retry_after=self.retry_after)


class Unavailable(ProviderError):
    """The endpoint cannot answer now: it is busy, broken or unreachable; the same request may succeed later."""

    default_kind = "connection"

    def __init__(  # noqa: PLR0913 - keyword arguments, all optional
        self,
        reason: str,
        advice: str = "",
        *,
        kind: ProviderErrorKind | None = None,
        status: int | None = None,
        wait: float | None = None,
        may_have_run: bool = False,
    ) -> None:
        """Describe the failure in one line, `reason; advice`.

        kind: None for `connection`, or `server_error` if there is a status.
        status: the HTTP status; None if the connection failed.
        wait: the wait that the server requests [s]; infinite for a malicious one, None if it requests none.
        may_have_run: the server may have worked on the request, and may bill each repetition.
        """
        kind = kind or (None if status is None else "server_error")
        super().__init__(f"{reason}; {advice}" if advice else reason, kind=kind, retry_after=wait)
        self.reason = reason
        self.advice = advice
        self.status = status
        self.wait = wait
        self.may_have_run = may_have_run


class ChoiceRefused(ProviderError):
    """The endpoint refused a request because of how it constrains the reply."""

    default_kind = "invalid_request"


class ForcingRefused(ChoiceRefused):
    """The endpoint refused a request because its `tool_choice` forces a tool."""


class SchemaRefused(ChoiceRefused):
    """The endpoint refused a request because it constrains the reply to a JSON Schema."""


class ContextExceeded(ProviderError):
    """The transcript exceeds the model's context window."""

    default_kind = "context_exceeded"


class ToolError(RunSpecialistError):
    """A tool call failed; the model reads the message and can react to it."""


@contextmanager
def errors_as(kind: type[Exception], what: str, *errors: type[Exception], advice: str = "") -> Iterator[None]:
    """Within the block, raise these errors as another kind: with what failed, the reason, and perhaps advice."""
    try:
        yield
    except errors as error:
        # The text of the operating system, without the number and the path.
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise kind(f"{what}: {reason}{advice and f'; {advice}'}") from error


@contextmanager
def on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Within the block, call a function before an error is passed on."""
    try:
        yield
    except BaseException:
        undo()
        raise


# An argument in backticks, alone or with its value.
_ARGUMENT = r"`(root|dir|model|store|trust|force|at)(?:=([^`]*))?`"


def with_flags(text: str) -> str:
    """Return a message with flags: `--model` for `model`, `--model haiku` for `model=haiku`, and so on."""
    return re.sub(_ARGUMENT, lambda one: f"--{one[1]}" if one[2] in {None, "True"} else f"--{one[1]} {one[2]}", text)
