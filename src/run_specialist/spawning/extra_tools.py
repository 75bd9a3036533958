"""Tools of the project and of MCP servers, and built-in tools that need trust."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from run_specialist.errors import UsageError
from run_specialist.spawning.prompt_texts import memory_claim
from run_specialist.spawning.server_tools import FETCH_OFFER, NO_CONSENT, SEARCH_OFFER, with_server_tools
from run_specialist.spawning.trust import Claim, Demand, RunContext
from run_specialist.specialist.dialects import home_path
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.mcp_servers import ServerConfig, missing_server, servers_of
from run_specialist.specialist.tool_names import EDIT, MEMORY, NEEDS_WRITABLE, SHELL, WRITE, resolve_tools
from run_specialist.tools import python_tools
from run_specialist.tools.base import Offer, Tool
from run_specialist.tools.edit import WorkingCopy, editing_offers
from run_specialist.tools.mcp import McpClients
from run_specialist.tools.project_modules import started_files
from run_specialist.tools.sandbox import Sandbox
from run_specialist.tools.threads import in_thread


@dataclass(frozen=True)
class ExtraTools:
    """Extra tools of a file, ready to be called."""

    functions: tuple[Tool, ...] = ()
    """Tools from `python_tools`; not filtered by `tools`."""
    served: tuple[Tool, ...] = ()
    """Tools from `mcp_servers`, named `mcp__server__tool`; filtered by `tools`."""
    offered: tuple[Tool, ...] = ()
    """Built-in tools that require a request and a permission, such as `fetch`."""
    withheld: Mapping[str, str] = field(default_factory=dict)
    """Built-in tools that the file asks for but does not get, with the reasons."""
    warnings: tuple[str, ...] = ()
    """Reasons for missing tools."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Credentials passed to the servers."""
    files: WorkingCopy | None = None
    """The files that the run has read and changed; None if no tool can change files."""


@dataclass(frozen=True)
class DeclaredTools:
    """Extra tools that a file declares, located but not yet started or imported."""

    claim: Claim
    found: tuple[python_tools.FoundFunction, ...]
    servers: Mapping[str, ServerConfig]
    warnings: tuple[str, ...] = ()


async def equip(context: RunContext, clients: McpClients, copy: WorkingCopy, *, on_server: bool = False) -> ExtraTools:
    """Import the functions and start the servers that a file declares.

    Functions are imported from the project that contains the root.
    copy: The files that the run has read and changed so far.
    on_server: Whether the endpoint may run tools itself.
    Raises NotTrusted before anything is imported or started, and UsageError for a missing function, unless the run is
    resumed, which makes it a warning.
    """
    file, settings = context.file, context.settings
    _check_required(context, servers_of(settings, context.root) if settings.required_mcp_servers else ())
    offers = with_server_tools((FETCH_OFFER, shell_offer(copy), *editing_offers(copy)), settings, on_server=on_server)
    is_asked = any(offer.is_wanted(settings) for offer in offers)
    if not (settings.python_tools or settings.mcp_servers or is_asked or secret_paths(settings, context.root)):
        return ExtraTools()

    def prepare() -> tuple[DeclaredTools, ExtraTools]:
        declared = wanted_by(context)
        warnings = [*declared.warnings, *context.trust.check(declared.claim)]
        loaded: dict[str, Tool] = {}
        for found in declared.found:
            try:
                tool = python_tools.load(found, context.project)
                python_tools.check_name(found.reference, tool.name, loaded)
                loaded[tool.name] = tool
            except UsageError as error:
                warnings.append(_as_warning(context, error))
        functions = tuple(loaded[name] for name in resolve_tools(None, settings.disallowed_tools, loaded).names)
        offered = offered_tools(context, offers)
        return declared, replace(offered, functions=functions, warnings=(*warnings, *offered.warnings))

    # Disks and imports may be slow and must not block the event loop.
    declared, tools = await in_thread(prepare)
    served: tuple[Tool, ...] = ()
    warnings = tools.warnings
    if declared.servers:
        served, missing = await clients.tools(declared.servers, root=context.project)
        warnings += tuple(f"{file.place('mcp_servers')}: {text}" for text in missing)
        # A server that cannot be reached has no tools, and the warnings say why.
        there = [name for name in declared.servers if any(tool.name.startswith(f"mcp__{name}__") for tool in served)]
        _check_required(context, there, missing)
    secrets: list[str] = []
    for server in declared.servers.values():
        # A server with unset variables is not started.
        with suppress(ValueError):
            secrets += server.expanded(os.environ).secrets
    # A command can change files too, after which the same `read` has another result.
    changing = {EDIT, WRITE, *([SHELL] if settings.writable else [])}
    files = copy if any(tool.name in changing for tool in tools.offered) else None
    return replace(tools, served=served, warnings=warnings, secrets=tuple(secrets), files=files)


def _check_required(context: RunContext, servers: Collection[str], reasons: Sequence[str] = ()) -> None:
    """Raise UsageError if a required server is not among the existing ones.

    reasons: why servers are missing.
    """
    if lacking := missing_server(context.settings, servers):
        raise UsageError("; ".join([f"{context.place('required_mcp_servers')}: {lacking}", *reasons]))


def wanted_by(context: RunContext) -> DeclaredTools:
    """Locate the extra tools of a file, and collect those, and the secret files, that need trust.

    Modules and programs from the project need trust even for the user's own file, but not for a call in Python.
    Raises UsageError for a missing module, unless the run is resumed, which makes it a warning.
    """
    settings, project, by_program = context.settings, context.project, context.file.given_origin == "caller"
    found, warnings, demands = list[python_tools.FoundFunction](), list[str](), list[Demand]()
    for reference in settings.python_tools:
        try:
            one = python_tools.find(reference, project)
        except UsageError as error:
            warnings.append(_as_warning(context, error))
            continue
        found.append(one)
        where = f" ({one.module.path})" if one.module.path else ""
        # It changes with the module and with every module of the project that it imports.
        imported = (f"{module.name}:{module.digest}" for module in one.imported)
        fingerprint = " ".join([one.reference, *(module.digest for module in one.chain), *imported])
        action, known = f"import {one.module.name}{where}", fingerprint if one.is_whole else None
        of_project = not by_program and any(module.is_below(project) for module in one.chain)
        demands += context.demands(["python_tools", "disallowed_tools"], action, known, of_project=of_project)
    servers = servers_of(settings, context.root)
    for server in servers.values():
        if server.unusable:
            continue
        # The project files that are named in its command.
        files = started_files(server, project)
        action = f"{'start' if server.command is not None else 'connect to'} {server}"
        action += f", with {', '.join(server.variables)} from the environment" if server.variables else ""
        known = None if files is None else " ".join([server.fingerprint, *files])
        of_project = not by_program and (server.source is not None or server.starts_file_of(project))
        keys = ["mcp_servers", "tools", "disallowed_tools"]
        demands += context.demands(keys, action, known, of_project=of_project)
    if named := ", ".join(secret_paths(settings, context.root)):
        demands += context.demands(["paths"], f"read {named}, which usually holds secrets", f"paths {named}")
    return DeclaredTools(context.claim(demands), tuple(found), servers, tuple(warnings))


def _as_warning(context: RunContext, error: UsageError) -> str:
    """Return the reason for a missing function as a warning; raise it as UsageError unless the run is resumed."""
    text = f"{context.place('python_tools')}: {error}"
    if not context.resumed:
        raise UsageError(text) from None
    return text


def secret_paths(settings: Specialist, root: Path) -> tuple[str, ...]:
    """Return those of the `paths` that name files which usually hold secrets, and so open them."""
    return tuple(path for path in settings.paths or () if Sandbox(root, [path]).names_secrets)


def shell_offer(copy: WorkingCopy) -> Offer:
    """Return the tool as one run is offered it; a dry run must change nothing."""

    def make(settings: Specialist, root: Path) -> Tool:
        if copy.patch is not None:
            return _shell(settings.model_copy(update={"writable": ()}), root)
        return _shell(settings, root, copy)

    return replace(SHELL_OFFER, make=make)


def _shell(settings: Specialist, root: Path, copy: WorkingCopy | None = None) -> Tool:
    from run_specialist.tools.shell.tool import shell_tool  # noqa: PLC0415 - few files ask for it

    return shell_tool(settings, root, copy)


def _action(settings: Specialist) -> str:
    from run_specialist.tools.shell.tool import CommandRules  # noqa: PLC0415 - few files ask for it

    allowed = CommandRules(settings.tools, settings.disallowed_tools)
    # Only names are compared, and many programs run others.
    rules = str(allowed).rstrip(".") + ("; this is advisory" if allowed.denied else "")
    where = f", which may change {', '.join(settings.writable)}" if settings.writable else ", which changes nothing"
    return f"run commands in a sandbox{where}" + (f" ({rules})" if rules else "")


def _lacking(settings: Specialist, root: Path) -> str:
    from run_specialist.tools.shell import system_sandbox  # noqa: PLC0415 - few files ask for it
    from run_specialist.tools.shell.places import writable_places  # noqa: PLC0415 - few files ask for it
    from run_specialist.tools.shell.tool import CommandRules  # noqa: PLC0415 - few files ask for it

    if reason := system_sandbox.why_no_sandbox():
        return reason
    real, home = os.path.realpath(root), os.path.realpath(home_path("~"))
    if Path(home).is_relative_to(real):
        return f"commands would see your home folder, because it is in the root {real}; choose a project with --root"
    with suppress(OSError):
        _, refused = writable_places(Path(real), settings.writable)
        if refused:
            return f"writable: {'; '.join(refused)}"
    if CommandRules(settings.tools, settings.disallowed_tools).allowed == ():
        return "its rule allows no command"
    return ""


SHELL_OFFER = Offer(SHELL, ("tools", "disallowed_tools", "paths", "writable"), _action, _shell, _lacking)
"""The offer of the tool."""


OFFERS: Sequence[Offer] = (FETCH_OFFER, SHELL_OFFER)


def offered_tools(context: RunContext, offers: Sequence[Offer] = OFFERS) -> ExtraTools:
    """Return the tools of these that a file asks for.

    A project's file needs trust for each of them, because others may have written its prompt; without it, the run has
    fewer tools, with a warning.
    """
    file, settings, root, trust = context.file, context.settings, context.root, context.trust
    tools: list[Tool] = []
    withheld: dict[str, str] = {}
    warnings: list[str] = []
    for offer in offers:
        if not offer.is_wanted(settings):
            continue
        claim = _claim(context, offer)
        if reason := offer.lacking(settings, root) or trust.why_not(claim):
            withheld[offer.name] = reason
        else:
            tools.append(offer.make(settings, root))
            warnings += trust.check(claim)
    reported = " ".join(problem.text for problem in file.problems)
    is_told = any(problem.key == "server_tools" for problem in file.problems)
    warnings += [
        f"{context.place('tools')}: `{name}` is not offered: {why}"
        for name, why in withheld.items()
        # The check of the file says so already.
        if (NEEDS_WRITABLE not in why or NEEDS_WRITABLE not in reported) and not (why is NO_CONSENT and is_told)
    ]
    return ExtraTools(offered=tuple(tools), withheld=withheld, warnings=tuple(warnings))


def offer_claims(context: RunContext) -> Iterator[tuple[str, str, Claim]]:
    """Yield each tool that a file asks for, with the key that names it, and the permission that it needs."""
    searching = [SEARCH_OFFER] if context.settings.server_tools else []
    editing = editing_offers(WorkingCopy(context.root)) if context.settings.writable else ()
    for offer in (*OFFERS, *editing, *searching):
        if offer.is_wanted(context.settings):
            yield offer.name, "tools", _claim(context, offer)
    if notes := memory_claim(context):
        yield MEMORY, "memory", notes


def _claim(context: RunContext, offer: Offer) -> Claim:
    settings = context.settings
    values = [getattr(settings, key) for key in offer.keys]
    keys = ["tools", "disallowed_tools", *offer.keys]
    return context.claim(context.demands(keys, offer.action(settings), f"{offer.name} {values}"))
