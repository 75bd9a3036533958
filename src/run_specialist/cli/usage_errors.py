"""Wrap the messages of usage errors on a terminal, between words like all other messages."""

import sys
from typing import Any

from run_specialist.cli.wrapping import stderr_width, wrapped

_LABEL = "Error: "


def wrap_usage_error(error: Any) -> None:  # noqa: ANN401 - its class is part of click, or of a copy of click in typer
    """Make the message of a usage error fit the terminal; do nothing for other exceptions, and without a terminal."""
    is_usage_error = hasattr(error, "format_message") and hasattr(error, "ctx")
    if not is_usage_error or "format_message" in vars(error) or sys.stderr is None or not sys.stderr.isatty():
        return
    lines = f"{_LABEL}{error.format_message()}".split("\n")
    text = "\n".join(part for line in lines for part in wrapped(line, stderr_width()))
    error.format_message = lambda: text.removeprefix(_LABEL)
