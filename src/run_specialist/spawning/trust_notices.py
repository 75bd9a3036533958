"""The powers that a file asks for: notices for `specialists check`, and those of a specialist that another may ask."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.spawning.agent_memory import memory_claim
from run_specialist.spawning.extra_tools import wanted_by
from run_specialist.spawning.offered_tools import offer_claims
from run_specialist.spawning.trust import Claim, Trust, origins_of
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.specialist.problems import Problem
from run_specialist.tools.memory.memory_tool import NAME as MEMORY


def with_trust_noted(files: Sequence[SpecialistFile], root: Path, trust: Trust) -> list[SpecialistFile]:
    """Return files with a notice for each tool that needs trust, and does not have it yet."""
    return [_noted(file, file.specialist, root, trust) if file.specialist else file for file in files]


def _noted(file: SpecialistFile, settings: Specialist, root: Path, trust: Trust) -> SpecialistFile:
    notices = tuple(
        Problem(
            file.path,
            file.lines.get(key, 1),
            1,
            key,
            f"`{name}` is offered once it is allowed with --trust: it would {claim.demands[0].action}",
            "notice",
        )
        for name, key, claim in _claims(file, settings, root, origins_of(file))
        if not trust.is_known(claim)
    )
    return file.with_problems((*file.problems, *notices)) if notices else file


def powers(file: SpecialistFile, settings: Specialist, root: Path, trust: Trust) -> list[str]:
    """Return what a specialist may do beyond reading its project, as far as it is allowed that itself."""
    found: list[str] = []
    # A file of a project needs a permission for each power.
    for_project = ValueOrigins(dict.fromkeys(Specialist.model_fields, "project"))
    asked, needed = (_all_claims(file, settings, root, one) for one in (for_project, origins_of(file)))
    for power, claim in zip(asked, needed, strict=True):
        if trust.allows(claim):
            found += [demand.action for demand in power.demands]
    return found


def _all_claims(file: SpecialistFile, settings: Specialist, root: Path, origins: ValueOrigins) -> list[Claim]:
    claims = [claim for _, _, claim in _claims(file, settings, root, origins)]
    with suppress(UsageError):  # without its module it cannot run
        claims.append(wanted_by(file, settings, root, origins).claim)
    return claims


def _claims(
    file: SpecialistFile, settings: Specialist, root: Path, origins: ValueOrigins
) -> Iterator[tuple[str, str, Claim]]:
    """Yield each tool that a file asks for, with the key that names it, and the permission that it needs."""
    for name, claim in offer_claims(file, settings, root, origins):
        yield name, "tools", claim
    if notes := memory_claim(file, settings, root, origins):
        yield MEMORY, "memory", notes
