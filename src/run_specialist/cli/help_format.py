"""Format help texts and usage errors: wrapped between words in any terminal, without the names of Python types."""

import re
import shutil
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from typer.core import TyperCommand

from run_specialist.cli.usage_errors import wrap_usage_error

if TYPE_CHECKING:
    from typer._click import Context as _Context
    from typer._click import HelpFormatter as _HelpFormatter
else:
    # Part of click, or of a copy of click inside typer.
    _Context = TyperCommand.context_class
    _HelpFormatter = _Context.formatter_class

_LEAST_OF_BASE = 50
"""Minimum width of a help text in the base class [columns]."""
_LEAST = 24
"""Minimum width of a help text here [columns]."""
_NARROW = 60
"""Width below which long options get a line of their own [columns]."""
_PYTHON_TYPE = re.compile(r"^(\w+) <(?:str|list\[\w+\])>$")
_REQUIRED = re.compile(r"\{(\w+)\}")
_HYPHEN_IN_WORD = re.compile(r"(?<=\w)-(?=\w)")
_UNBROKEN = "\N{NON-BREAKING HYPHEN}"


class HelpFormatter(_HelpFormatter):
    """A formatter for any width; its base class writes at least 50 columns, so that narrower terminals break words."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        """Set the width; None = that of the terminal, at most `max_width`."""
        super().__init__(indent_increment, width, max_width)
        available = shutil.get_terminal_size().columns - 2
        if width is None and available < _LEAST_OF_BASE:
            self.width = max(available, _LEAST)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Write the usage line, with a required argument as `NAME` instead of `{NAME}`."""
        super().write_usage(prog, _REQUIRED.sub(r"\1", args), prefix)

    def write_text(self, text: str) -> None:
        """Write a paragraph, wrapped between words and not at hyphens."""
        super().write_text(_HYPHEN_IN_WORD.sub(_UNBROKEN, text))

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and descriptions in two columns; in a narrow terminal each below the other if names are long."""
        named = [(_PYTHON_TYPE.sub(r"\1", name), _HYPHEN_IN_WORD.sub(_UNBROKEN, text)) for name, text in rows]
        longest = max((len(name) for name, _ in named), default=0)
        is_stacked = self.width < _NARROW and longest > self.width // 3
        super().write_dl(named, 2 if is_stacked else col_max, col_spacing)

    def getvalue(self) -> str:
        """Return the help text."""
        return super().getvalue().replace(_UNBROKEN, "-")


class HelpContext(_Context):
    """The context of a command whose help text is written by `HelpFormatter`, and whose usage errors are wrapped."""

    formatter_class = HelpFormatter

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_value: BaseException | None, tb: TracebackType | None
    ) -> bool | None:
        """Leave the context; a usage error that passes through is wrapped for the terminal."""
        if exc_value is not None:
            wrap_usage_error(exc_value)
        return super().__exit__(exc_type, exc_value, tb)
