"""Give `fetch` and `web_search` to a specialist whose file names them, if it may have them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.installation import adding
from run_specialist.spawning.server_share import server_tools, too_dear
from run_specialist.spawning.trust import Claim, Demand, Trust, is_own
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.registry import project_root
from run_specialist.specialist.tool_names import SEARCH, names_tool
from run_specialist.tools.base import Tool
from run_specialist.tools.web.downloads import Downloads
from run_specialist.tools.web.fetch import EXTRA, NAME, fetch_tool, is_installed

_NO_CONSENT = "the API would run and bill it; allow that with `server_tools: true`"
_NO_SERVER = "only the Messages API runs it, and this endpoint does not"
_AS_JSON = "the API runs it only with `tool_calls: native`"
_TOO_DEAR = "the searches of one request could exceed an eighth of cost_limit"
_TOO_FEW = "tool_calls_limit leaves no call for it"


@dataclass(frozen=True, slots=True)
class WebTools:
    """The tools for the web, or why there are none."""

    tools: tuple[Tool, ...] = ()
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Why the file does not get a tool that it names, by the name of the tool."""
    warnings: tuple[str, ...] = ()


def web_tools(  # noqa: PLR0913 - the context of a run
    file: SpecialistFile,
    settings: Specialist,
    root: Path,
    trust: Trust,
    *,
    resumed: bool,
    by_program: bool,
    on_server: bool = False,
) -> WebTools:
    """Return the tools for the web that a file names; a pattern such as `*` names none of them.

    A project's file needs trust, because its prompt could have what was read sent away; without it, the run has one
    tool less.
    resumed: whether the settings are those stored with the run.
    by_program: whether the specialist was created in Python and so needs no trust.
    on_server: whether the endpoint may run tools itself.
    """
    named = [name for name in (SEARCH, NAME) if is_named(settings, name)]
    if not named:
        return WebTools()
    withheld = dict(_reasons(named, settings, on_server=on_server))
    wanted = [name for name in named if name not in withheld]
    trust_warnings: tuple[str, ...] = ()
    if wanted:
        own = by_program or _is_own(file, settings, root, resumed=resumed)
        claim = _claim(file, settings, root, wanted, own=own)
        if trust.allows(claim):
            trust_warnings = trust.check(claim)
        else:
            demands = zip(wanted, claim.demands, strict=True)
            withheld |= {name: f"it would {one.action}; allow it once, with --trust" for name, one in demands}
            wanted = []
    local = fetch_tool(Downloads(settings.allowed_domains), settings.tool_result_limit) if is_installed() else None
    if settings.server_tools and on_server:
        tools = server_tools(wanted, settings, local)
        offered = {NAME if tool.on_server and tool.name != SEARCH else tool.name for tool in tools}
        withheld |= {name: _TOO_FEW for name in wanted if name not in offered}
    else:
        tools = (local,) if local and NAME in wanted else ()
    return WebTools(tools, withheld, (*_warnings(file, settings, withheld), *trust_warnings))


def is_named(settings: Specialist, name: str) -> bool:
    """Return whether a file names a tool, and does not disallow it."""
    return names_tool(settings.tools, name) and not names_tool(settings.disallowed_tools, name)


def _reasons(named: Sequence[str], settings: Specialist, *, on_server: bool) -> Mapping[str, str]:
    """Return why tools cannot be had here at all, whatever the user trusts."""
    found = {}
    if SEARCH in named:
        if not settings.server_tools:
            found[SEARCH] = _NO_CONSENT
        elif settings.tool_calls == "json":
            found[SEARCH] = _AS_JSON
        elif not on_server:
            found[SEARCH] = _NO_SERVER
        elif too_dear(settings):
            found[SEARCH] = _TOO_DEAR
    if NAME in named and not is_installed() and not (settings.server_tools and on_server):
        found[NAME] = f"it needs the extra `{EXTRA}`; {adding(EXTRA)}"
    return found


def _warnings(file: SpecialistFile, settings: Specialist, withheld: Mapping[str, str]) -> tuple[str, ...]:
    # A file that does not allow the API to bill has a warning of its own.
    is_told = not settings.server_tools and file.specialist is not None and not file.specialist.server_tools
    place = file.place("tools")
    return tuple(
        f"{place}: tools: `{name}` is not offered: {reason}"
        for name, reason in withheld.items()
        if not (is_told and reason is _NO_CONSENT)
    )


def _is_own(file: SpecialistFile, settings: Specialist, root: Path, *, resumed: bool) -> bool:
    # Others may have written to the store, so stored settings are trusted only if they equal those of the file.
    now = file.specialist
    as_written = now is not None and _asks(now) == _asks(settings)
    return (as_written or not resumed) and is_own(file.path, project_root(root))


def _asks(settings: Specialist) -> tuple[object, ...]:
    return settings.tools, settings.allowed_domains, settings.server_tools


def _claim(file: SpecialistFile, settings: Specialist, root: Path, wanted: Sequence[str], *, own: bool) -> Claim:
    where = ", ".join(settings.allowed_domains) or "any web site"
    place = f"{file.place('tools')}: tools"
    demands = {
        SEARCH: Demand(place, f"search {where} through the API, which bills each search", f"search {where}"),
        NAME: Demand(place, f"fetch pages of {where}", f"fetch {where}"),
    }
    return Claim(file.path, file.digest, project_root(root), () if own else tuple(demands[name] for name in wanted))
