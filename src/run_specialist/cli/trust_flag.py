"""Trust on the command line: the flag that gives it, and what `specialists show` says of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from run_specialist.specialist.fields import Specialist
    from run_specialist.specialist.loader import SpecialistFile

TrustFlag = Annotated[
    bool,
    typer.Option("--trust", help="Let it start and import what its file names, now and later, until that changes."),
]


def trust_told(file: "SpecialistFile", settings: "Specialist", root: Path) -> tuple[bool | None, str]:
    """Return whether a file is trusted, None where it needs no trust, and that in a line, empty then."""
    if not settings.python_tools and not settings.mcp_servers:
        return None, ""
    from run_specialist.errors import UsageError  # noqa: PLC0415 - likewise
    from run_specialist.spawning.extra_tools import wanted_by  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.trust import Trust  # noqa: PLC0415 - likewise

    try:
        claim = wanted_by(file, settings, root).claim
    except UsageError as error:
        return False, f"not trusted: {error}"
    if not claim.demands:
        return None, ""
    words = ", ".join(demand.action for demand in claim.demands)
    if Trust().is_known(claim):
        return True, f"trusted: it may {words}"
    return False, f"not trusted: it would {words}; to allow that, run it once with --trust"
