"""Print why specialists cannot work here, for `specialists list` and `specialists show`."""

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from run_specialist.api.flag_names import with_flags
from run_specialist.cli.console import is_terminal, print_line

if TYPE_CHECKING:
    from run_specialist.specialist.fields import Specialist
    from run_specialist.specialist.loader import SpecialistFile

BLOCKED = "blocked"
"""Status in the list, in place of `ok` or `warning`."""


def unavailable(files: "Sequence[SpecialistFile]", root: Path, default: str | None) -> Mapping[Path, str]:
    """Return why specialists cannot work in a folder with this environment, by the path of their file.

    default: the model of a config file.
    """
    from run_specialist.spawning.availability import obstacles, without_credentials, without_model  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.model_rule import ModelRule  # noqa: PLC0415 - fast `--help`

    rule = ModelRule.of(None)

    def of_model(settings: "Specialist") -> str:
        return without_model(rule, settings, default) or without_credentials(settings, default)

    return obstacles(files, root, of_model)


def print_reasons(files: "Sequence[SpecialistFile]", reasons: Mapping[Path, str]) -> None:
    """Print an empty line, and one for each reason with the specialists that cannot work here; nothing without any.

    On a terminal, lines break between words.
    """
    from run_specialist.spawning.availability import sentences  # noqa: PLC0415 - fast `--help`

    for line in ["", *map(with_flags, sentences(files, reasons))] if reasons else ():
        columns = shutil.get_terminal_size().columns
        wrapped = textwrap.fill(line, columns, break_on_hyphens=False, break_long_words=False)
        print_line(wrapped if is_terminal() else line)
