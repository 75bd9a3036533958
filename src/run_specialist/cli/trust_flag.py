"""The `--trust` option, and the trust status that `specialists show` prints."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.providers.local.local_servers import prefix_of

if TYPE_CHECKING:
    from run_specialist.specialist.fields import Specialist
    from run_specialist.specialist.loader import SpecialistFile

TrustFlag = Annotated[
    bool,
    typer.Option("--trust", help="Allow the commands and imports this file declares; remembered until they change."),
]


def trust_status(file: "SpecialistFile", settings: "Specialist", root: Path) -> tuple[bool | None, str]:
    """Return whether a file is trusted, and the status as a line; `(None, "")` if the file needs no trust."""
    is_local = any(map(prefix_of, (settings.model or "", *settings.fallback_models)))
    if not (settings.python_tools or settings.mcp_servers or settings.skills or settings.paths or is_local):
        return None, ""
    from run_specialist.errors import UsageError  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.extra_tools import wanted_by  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.model_trust import model_claims  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.prompt_texts import skills_claim  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.trust import Trust, origins_of  # noqa: PLC0415 - fast `--help`

    try:
        claims = [wanted_by(file, settings, root).claim, *model_claims(file, settings, root)]
        claims.append(skills_claim(file, settings, root, origins_of(file)))
    except UsageError as error:
        return False, f"not trusted: {error}"
    demands = ", ".join(demand.action for claim in claims for demand in claim.demands)
    if not demands:
        return None, ""
    if all(Trust().is_known(claim) for claim in claims):
        return True, f"trusted: it may {demands}"
    return False, f"not trusted: it would {demands}; to allow this, run it once with --trust"
