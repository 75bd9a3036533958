"""The `--trust` option, and the trust status that `specialists show` prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from run_specialist.specialist.fields import Specialist
    from run_specialist.specialist.loader import SpecialistFile

TrustFlag = Annotated[
    bool,
    typer.Option("--trust", help="Allow the commands and imports this file declares; remembered until they change."),
]


def trust_status(file: "SpecialistFile", settings: "Specialist", root: Path) -> tuple[bool | None, str]:
    """Return whether a file is trusted, and the status as a line; `(None, "")` if the file needs no trust."""
    if not settings.python_tools and not settings.mcp_servers:
        return None, ""
    from run_specialist.errors import UsageError  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.extra_tools import wanted_by  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.trust import Trust  # noqa: PLC0415 - fast `--help`

    try:
        claim = wanted_by(file, settings, root).claim
    except UsageError as error:
        return False, f"not trusted: {error}"
    if not claim.demands:
        return None, ""
    demands = ", ".join(demand.action for demand in claim.demands)
    if Trust().is_known(claim):
        return True, f"trusted: it may {demands}"
    return False, f"not trusted: it would {demands}; to allow this, run it once with --trust"
