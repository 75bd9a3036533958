"""Everything that this package raises on purpose.

    RunSpecialistError
    ├── UsageError              the caller's doing: a flag, a file, missing credentials (exit code 2)
    │   ├── SpecialistNotFound  no file of that name, near names are told
    │   ├── SpecialistUnusable  the file is there and cannot be run
    │   ├── StoreUnusable       the store cannot be opened or written, is newer than this program, or is not ours
    │   │   └── StoreMissing    there is none yet, and who only looks makes none
    │   ├── RunNotFound         no run of that id is stored, or several are
    │   ├── NotTrusted          the file would start or import something, and nobody has allowed it yet
    │   └── NotResumable        the run cannot go on as it is asked to; the reason is told
    ├── ProviderError           the model could not be asked, or answered nonsense (exit code 3)
    │   ├── ForcingRefused      the endpoint does not take a forced `tool_choice`; the landing goes on without
    │   └── ContextExceeded     the transcript no longer fits; the run ends with what was gathered
    └── ToolError               a tool call failed; its text goes to the model as an error result

A spent budget is an outcome, not an exception.
"""


class RunSpecialistError(Exception):
    """Base of all errors of this package; `str(error)` is one line that says what to do."""


class UsageError(RunSpecialistError):
    """A flag, a file or the environment is not right; nothing was asked of a model."""


class SpecialistNotFound(UsageError):
    """No place that was searched holds a specialist of that name."""


class SpecialistUnusable(UsageError):
    """The specialist's file has an error that forbids running it."""


class StoreUnusable(UsageError):
    """The store cannot be opened or written, is newer than this program, or is not ours; it was not touched."""


class StoreMissing(StoreUnusable):
    """There is no store yet; the first run makes it."""


class RunNotFound(UsageError):
    """No run of that id is stored, or its beginning fits several."""


class NotTrusted(UsageError):
    """The file would start a command, import code or talk to a server, and nobody has allowed it yet."""


class NotResumable(UsageError):
    """The run cannot go on as it is asked to."""


class ProviderError(RunSpecialistError):
    """The model could not be asked, or its reply could not be read."""


class ForcingRefused(ProviderError):
    """The endpoint refused a request because its `tool_choice` forces a tool."""


class ContextExceeded(ProviderError):
    """The transcript is longer than the model's context."""


class ToolError(RunSpecialistError):
    """A tool call failed in a way that the model can do something about."""
