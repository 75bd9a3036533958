"""Provide built-in tools that need trust to the specialists that ask for them, if they are allowed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.spawning.server_offers import NO_CONSENT, SEARCH_OFFER
from run_specialist.spawning.trust import Claim, Trust, demanded
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.origins import ValueOrigins
from run_specialist.specialist.registry import project_root
from run_specialist.specialist.tool_names import NEEDS_WRITABLE
from run_specialist.tools.base import Tool
from run_specialist.tools.editing.edit_tools import editing_offers
from run_specialist.tools.editing.working_copy import WorkingCopy
from run_specialist.tools.offer import Offer
from run_specialist.tools.shell.shell_offer import SHELL
from run_specialist.tools.web.fetch_offer import FETCH

OFFERS: Sequence[Offer] = (FETCH, SHELL)


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """The requested tools that a file gets, and why it does not get others."""

    tools: tuple[Tool, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Requested tools that the file does not get, with the reasons."""
    warnings: tuple[str, ...] = ()


def asks_for_any(settings: Specialist, offers: Sequence[Offer] = OFFERS) -> bool:
    """Return whether a file asks for any of these tools."""
    return any(offer.is_wanted(settings) for offer in offers)


def offered_tools(  # noqa: PLR0913, PLR0917 - the context of a run
    file: SpecialistFile,
    settings: Specialist,
    root: Path,
    trust: Trust,
    origins: ValueOrigins,
    offers: Sequence[Offer] = OFFERS,
) -> OfferedTools:
    """Return the tools that a file asks for.

    A project's file needs trust for each of them, because others may have written its prompt; without it, the run has
    fewer tools, with a warning.
    origins: those of the settings.
    """
    tools: list[Tool] = []
    withheld: dict[str, str] = {}
    warnings: list[str] = []
    for offer in offers:
        if not offer.is_wanted(settings):
            continue
        claim = _claim(offer, file, settings, root, origins)
        if reason := offer.lacking(settings, root):
            withheld[offer.name] = reason
        elif why := trust.why_not(claim):
            withheld[offer.name] = why
        else:
            tools.append(offer.make(settings, root))
            warnings += trust.check(claim)
    reported = " ".join(problem.text for problem in file.problems)
    is_told = any(problem.key == "server_tools" for problem in file.problems)
    warnings += [
        f"{file.place('tools')}: tools: `{name}` is not offered: {why}"
        for name, why in withheld.items()
        # The check of the file says so already.
        if (NEEDS_WRITABLE not in why or NEEDS_WRITABLE not in reported) and not (why is NO_CONSENT and is_told)
    ]
    return OfferedTools(tuple(tools), withheld, tuple(warnings))


def offer_claims(
    file: SpecialistFile, settings: Specialist, root: Path, origins: ValueOrigins
) -> Iterator[tuple[str, Claim]]:
    """Yield each requested tool with the permission that it needs."""
    for offer in (*OFFERS, *editing_offers(WorkingCopy(root)), *([SEARCH_OFFER] if settings.server_tools else [])):
        if offer.is_wanted(settings):
            yield offer.name, _claim(offer, file, settings, root, origins)


def _claim(offer: Offer, file: SpecialistFile, settings: Specialist, root: Path, origins: ValueOrigins) -> Claim:
    values = [getattr(settings, key) for key in offer.keys]
    demands = demanded(
        origins,
        ("tools", "disallowed_tools", *offer.keys),
        f"{file.place('tools')}: tools",
        offer.action(settings),
        f"{offer.name} {values}",
    )
    return Claim(file.path, file.digest, project_root(root), demands)
