"""Give the tool `fetch` to a specialist whose file names it, if it may have it."""

from dataclasses import dataclass
from pathlib import Path

from run_specialist.installation import adding
from run_specialist.spawning.trust import Claim, Demand, Trust, is_own
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.registry import project_root
from run_specialist.specialist.tool_names import names_tool
from run_specialist.tools.base import Tool
from run_specialist.tools.web.downloads import Downloads
from run_specialist.tools.web.fetch import EXTRA, NAME, fetch_tool, is_installed


@dataclass(frozen=True, slots=True)
class WebTools:
    """The tools for web pages, or why there are none."""

    tools: tuple[Tool, ...] = ()
    withheld: str = ""
    """Why the file does not get the tool that it names; empty if it names none, or gets it."""
    warnings: tuple[str, ...] = ()


def web_tools(  # noqa: PLR0913 - the context of a run
    file: SpecialistFile, settings: Specialist, root: Path, trust: Trust, *, resumed: bool, by_program: bool
) -> WebTools:
    """Return the tools for web pages that a file names; a pattern such as `*` names none of them.

    A project's file needs trust, because its prompt could have what was read sent away; without it, the run has one
    tool less.
    resumed: whether the settings are those stored with the run.
    by_program: whether the specialist was created in Python and so needs no trust.
    """
    if not names_tool(settings.tools, NAME) or names_tool(settings.disallowed_tools, NAME):
        return WebTools()
    if not is_installed():
        return _withheld(file, f"it needs the extra `{EXTRA}`; {adding(EXTRA)}")
    claim = _claim(file, settings, root, own=by_program or _is_own(file, settings, root, resumed=resumed))
    if not trust.allows(claim):
        return _withheld(file, f"it would {claim.demands[0].action}; allow it once, with --trust")
    tool = fetch_tool(Downloads(settings.allowed_domains), settings.tool_result_limit)
    return WebTools((tool,), warnings=trust.check(claim))


def _withheld(file: SpecialistFile, reason: str) -> WebTools:
    return WebTools(withheld=reason, warnings=(f"{file.place('tools')}: tools: `{NAME}` is not offered: {reason}",))


def _is_own(file: SpecialistFile, settings: Specialist, root: Path, *, resumed: bool) -> bool:
    # Others may have written to the store, so stored settings are trusted only if they equal those of the file.
    now = file.specialist
    as_written = now is not None and (now.tools, now.allowed_domains) == (settings.tools, settings.allowed_domains)
    return (as_written or not resumed) and is_own(file.path, project_root(root))


def _claim(file: SpecialistFile, settings: Specialist, root: Path, *, own: bool) -> Claim:
    where = ", ".join(settings.allowed_domains) or "any web site"
    demand = Demand(f"{file.place('tools')}: tools", f"fetch pages of {where}", f"fetch {where}")
    return Claim(file.path, file.digest, project_root(root), () if own else (demand,))
