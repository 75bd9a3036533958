"""Replace Python arguments in the library's messages by the flags of the commands."""

import re

_ARGUMENT = re.compile(r"`(root|dir|model|store|trust|force|at)(?:=([^`]*))?`")
"""An argument in backticks, alone or with its value."""


def with_flags(text: str) -> str:
    """Return a message with flags: `--model` for `model`, `--model haiku` for `model=haiku`, and so on."""
    return _ARGUMENT.sub(_flag, text)


def _flag(argument: re.Match[str]) -> str:
    name, value = argument.groups()
    return f"--{name}" if value in {None, "True"} else f"--{name} {value}"
