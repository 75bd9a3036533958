"""The messages of usage errors: wrapped between words on a terminal, like all other messages, and as JSON."""

import sys
from typing import Any

from run_specialist.cli.console import print_json_error
from run_specialist.cli.wrapping import stderr_width, wrapped

_LABEL = "Error: "


def wrap_usage_error(error: Any) -> None:  # noqa: ANN401 - its class is part of click, or of a copy of click in typer
    """Make the message of a usage error fit the terminal, and print it as JSON if that was asked for.

    Do nothing for other exceptions.
    """
    is_usage_error = hasattr(error, "format_message") and hasattr(error, "ctx")
    if not is_usage_error or "format_message" in vars(error):
        return
    print_json_error(error.format_message(), "usage")
    if sys.stderr is None or not sys.stderr.isatty():
        return
    lines = f"{_LABEL}{error.format_message()}".split("\n")
    text = "\n".join(part for line in lines for part in wrapped(line, stderr_width()))
    error.format_message = lambda: text.removeprefix(_LABEL)
