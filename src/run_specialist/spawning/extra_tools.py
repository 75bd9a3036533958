"""What a specialist's file brings along beyond our own tools: functions of the project, tools of MCP servers."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.spawning.trust import Claim, Demand, Trust, is_own
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from run_specialist.specialist.mcp_servers.servers import servers_of
from run_specialist.specialist.registry import project_root
from run_specialist.specialist.tool_names import resolve_tools
from run_specialist.tools import python
from run_specialist.tools.base import Tool
from run_specialist.tools.command_files import started_files
from run_specialist.tools.mcp.clients import McpClients
from run_specialist.tools.threads import in_thread


@dataclass(frozen=True)
class ExtraTools:
    """The tools that a file brings along, ready to be called."""

    functions: tuple[Tool, ...] = ()
    """Of `python_tools`; not filtered by the file's `tools`."""
    served: tuple[Tool, ...] = ()
    """Of `mcp_servers`, as `mcp__server__tool`; filtered by the file's `tools`."""
    warnings: tuple[str, ...] = ()
    """Why some are missing."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Credentials that the servers are given."""


@dataclass(frozen=True)
class DeclaredTools:
    """What a file names, looked up; nothing of it is started or imported yet."""

    claim: Claim
    found: tuple[python.FoundFunction, ...]
    servers: Mapping[str, ServerConfig]
    warnings: tuple[str, ...] = ()


async def equip(  # noqa: PLR0913 - whose tools, where, by whose leave, and with what
    file: SpecialistFile,
    settings: Specialist,
    root: Path,
    trust: Trust,
    clients: McpClients,
    *,
    resumed: bool = False,
    by_program: bool = False,
) -> ExtraTools:
    """Import the functions and start the servers that a file names.

    file: as it is now.
    root: what the file tools see; functions come from the project that holds it.
    resumed: the settings are those of the run's beginning; a function that is gone costs itself, not the run.
    by_program: the settings are a value made in Python, whose program answers for it.
    Raises NotTrusted before anything is imported or started, and UsageError for a function that is not to be had.
    """
    if not settings.python_tools and not settings.mcp_servers:
        return ExtraTools()

    def prepare() -> tuple[DeclaredTools, tuple[Tool, ...], tuple[str, ...]]:
        wanted = wanted_by(file, settings, root, resumed=resumed, by_program=by_program)
        odd = trust.check(wanted.claim)
        functions, missing = _functions(file, settings, wanted, resumed=resumed)
        return wanted, functions, (*wanted.warnings, *odd, *missing)

    # Disks and imports may be slow, and other children have work to do.
    wanted, functions, warnings = await in_thread(prepare)
    served: tuple[Tool, ...] = ()
    if wanted.servers:
        served, missing = await clients.tools(wanted.servers, root=wanted.claim.project)
        warnings += tuple(f"{file.place('mcp_servers')}: {text}" for text in missing)
    return ExtraTools(functions, served, warnings, _secrets(wanted.servers.values()))


def _secrets(servers: Iterable[ServerConfig]) -> tuple[str, ...]:
    """Return the credentials of servers, filled in from the environment."""
    found: list[str] = []
    for server in servers:
        # One whose variables are not set is not started.
        with suppress(ValueError):
            found += server.expanded(os.environ).secrets
    return tuple(found)


def wanted_by(
    file: SpecialistFile, settings: Specialist, root: Path, *, resumed: bool = False, by_program: bool = False
) -> DeclaredTools:
    """Look up what a file names, and what of it somebody has to allow.

    Raises UsageError for a module that is not there, unless a run is resumed: then it is a warning.
    """
    project = project_root(root)
    # What a store says of a file, others may have written.
    as_written = not resumed or _names_the_same(file, settings)
    own = by_program or (as_written and is_own(file.path, project))
    found, warnings = [], []
    for reference in settings.python_tools:
        try:
            found.append(python.find(reference, project))
        except UsageError as error:
            warnings.append(_told(file, error, resumed=resumed))
    servers = servers_of(settings, root)
    demands = () if by_program else _demands(file, found, servers, project, own=own)
    return DeclaredTools(Claim(file.path, file.digest, project, demands), tuple(found), servers, tuple(warnings))


def _functions(
    file: SpecialistFile, settings: Specialist, wanted: DeclaredTools, *, resumed: bool
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    loaded: dict[str, Tool] = {}
    warnings = []
    for found in wanted.found:
        try:
            tool = python.load(found, wanted.claim.project)
            python.check_name(found, tool, loaded)
            loaded[tool.name] = tool
        except UsageError as error:
            warnings.append(_told(file, error, resumed=resumed))
    allowed = resolve_tools(None, settings.disallowed_tools, loaded).names
    return tuple(loaded[name] for name in allowed), tuple(warnings)


def _told(file: SpecialistFile, error: UsageError, *, resumed: bool) -> str:
    """Return as a warning why a function is missing; where a run begins, raise it."""
    text = f"{file.place('python_tools')}: python_tools: {error}"
    if not resumed:
        raise UsageError(text) from None
    return text


def _demands(
    file: SpecialistFile,
    found: list[python.FoundFunction],
    servers: Mapping[str, ServerConfig],
    project: Path,
    *,
    own: bool,
) -> tuple[Demand, ...]:
    """Return what somebody has to allow.

    own: the file is the user's; what it takes out of the project is the project's all the same.
    """
    demands = []
    for one in found:
        if not own or any(module.is_below(project) for module in one.chain):
            where = f" ({one.module.path})" if one.module.path else ""
            demands.append(
                Demand(f"{file.place('python_tools')}: python_tools", f"import {one.module.name}{where}", _mark(one))
            )
    for server in servers.values():
        if server.unusable:
            continue
        if not own or server.source is not None or server.starts_file_of(project):
            words = f"{'start' if server.command is not None else 'talk to'} {server}"
            words += f", filling in {', '.join(server.variables)} from the environment" if server.variables else ""
            place = f"{file.place('mcp_servers')}: mcp_servers"
            demands.append(Demand(place, words, _server_mark(server, project)))
    return tuple(dict.fromkeys(demands))


def _mark(found: python.FoundFunction) -> str | None:
    """Return what changes with a module, and with anything of the project that it imports."""
    if not found.imported.is_whole:
        return None
    imported = (f"{module.name}:{module.digest}" for module in found.imported.modules)
    return " ".join([found.reference, *(module.digest for module in found.chain), *imported])


def _server_mark(server: ServerConfig, project: Path) -> str | None:
    """Return what changes with a server's definition, and with any file of the project that its command names."""
    files = started_files(server, project)
    return None if files is None else " ".join([server.fingerprint, *files])


def _names_the_same(file: SpecialistFile, settings: Specialist) -> bool:
    """Say whether a file names just what some settings name."""
    now = file.specialist
    return now is not None and (now.python_tools, now.mcp_servers) == (settings.python_tools, settings.mcp_servers)
