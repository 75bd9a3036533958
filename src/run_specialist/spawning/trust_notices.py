"""Notices about tools that a file gets only after the user has allowed them, for `specialists check`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from run_specialist.spawning.agent_memory import memory_claim
from run_specialist.spawning.offered_tools import offer_claims
from run_specialist.spawning.trust import Claim, Trust
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
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
        for name, key, claim in _claims(file, settings, root)
        if not trust.is_known(claim)
    )
    return file.with_problems((*file.problems, *notices)) if notices else file


def _claims(file: SpecialistFile, settings: Specialist, root: Path) -> Iterator[tuple[str, str, Claim]]:
    """Yield each tool that a file asks for, with the key that names it, and the permission that it needs."""
    for name, claim in offer_claims(file, settings, root):
        yield name, "tools", claim
    if notes := memory_claim(file, settings, root):
        yield MEMORY, "memory", notes
