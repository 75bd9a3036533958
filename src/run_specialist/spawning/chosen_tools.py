"""Choose the tools of a run, and give the reason for each missing tool."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from run_specialist.errors import UsageError
from run_specialist.spawning.run_environment import RunEnvironment
from run_specialist.specialist.editor_tools import is_editor_tool
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.tool_names import FETCH, names_tool, resolve_tools
from run_specialist.tools.base import Tool
from run_specialist.tools.delegate_tool import NAME as DELEGATE
from run_specialist.tools.files.files import file_tools
from run_specialist.tools.memory.memory_tool import NAME as MEMORY
from run_specialist.tools.planning.think import NAME as THINK
from run_specialist.tools.planning.think import think_tool
from run_specialist.tools.planning.todo import NAME as TODO
from run_specialist.tools.planning.todo import todo_tool
from run_specialist.tools.server_tools import FETCH as SERVER_FETCH

_MAX_LISTED = 10
"""Maximum number of server tools listed in a warning."""


@dataclass(frozen=True, slots=True)
class DroppedTool:
    """A tool that a specialist does not get."""

    name: str
    """Name of the tool, or as written in the file if there is none."""
    reason: str
    key: str | None = None
    """The key of the file that is the reason; None if the reason is not a key."""


@dataclass(frozen=True, slots=True)
class ChosenTools:
    """The tools of a run, besides `respond` and `get_tool_response`."""

    tools: Sequence[Tool]
    dropped: Sequence[DroppedTool]


def choose_tools(file: SpecialistFile, settings: Specialist, environment: RunEnvironment) -> ChosenTools:
    """Return the tools of a run.

    Raises UsageError if none of the file's tools exists.
    """
    paths = () if settings.paths is None else (*settings.paths, *environment.prompt_texts.folders)
    copy = environment.extra_tools.files
    known = {tool.name: tool for tool in file_tools(environment.root, paths, settings.tool_result_limit, copy)}
    known |= {tool.name: tool for tool in environment.extra_tools.served}
    # The API uses its own names.
    known |= {FETCH if tool.name == SERVER_FETCH else tool.name: tool for tool in environment.extra_tools.offered}
    known |= {tool.name: tool for tool in _planning(settings, environment)}
    resolved = resolve_tools(settings.tools, settings.disallowed_tools, known)
    delegate = _delegate(settings, environment)
    memory = [environment.memory.tool] if environment.memory.tool else []
    unfiltered = [*memory, *environment.extra_tools.functions, *environment.tools, *delegate]
    # Without a server that cannot be reached, the run has fewer tools, but it runs.
    has_others = settings.mcp_servers or environment.delegate or environment.extra_tools.functions or memory
    if resolved.nothing_known and settings.tools and not has_others:
        why = "".join(f"; {name}: {reason}" for name, reason in environment.extra_tools.withheld.items())
        raise UsageError(
            f"{file.place('tools')}: tools: none of {', '.join(settings.tools)} exists{why}; "
            f"available: {', '.join(known)}"
        )
    tools = [*(known[name] for name in resolved.names), *unfiltered]
    allowed = set(resolve_tools(None, settings.disallowed_tools, known).names)
    not_chosen = [
        DroppedTool(name, "not in the list", "tools")
        if name in allowed
        else DroppedTool(name, "disallowed", "disallowed_tools")
        for name in known
        if name not in resolved.names
    ]
    if settings.agents and environment.delegate is None:
        not_chosen.append(DroppedTool(DELEGATE, "none of them can be called", "agents"))
    elif environment.delegate and not delegate:
        not_chosen.append(DroppedTool(DELEGATE, "disallowed", "disallowed_tools"))
    not_chosen += _without_memory(settings, environment)
    withheld = {**environment.extra_tools.withheld}
    if environment.memory.withheld:
        withheld[MEMORY] = environment.memory.withheld
    unknown = _unknown(resolved.unknown, settings, tools, withheld)
    return ChosenTools(tools, (*not_chosen, *unknown))


def _planning(settings: Specialist, environment: RunEnvironment) -> list[Tool]:
    """Return the tools that only record what the model writes, if the file names them."""
    made: dict[str, Callable[[], Tool]] = {TODO: partial(todo_tool, environment.plan), THINK: think_tool}
    return [make() for name, make in made.items() if names_tool(settings.tools, name)]


def _without_memory(settings: Specialist, environment: RunEnvironment) -> list[DroppedTool]:
    """Return the tool for notes as missing, if the file has the key but does not get the tool.

    If it is named in `tools`, it is reported with the other names there.
    """
    if settings.memory is None or environment.memory.tool or names_tool(settings.tools, MEMORY):
        return []
    why = environment.memory.withheld
    return [DroppedTool(MEMORY, why, "memory") if why else DroppedTool(MEMORY, "disallowed", "disallowed_tools")]


def _unknown(
    names: Iterable[str], settings: Specialist, tools: Sequence[Tool], withheld: Mapping[str, str]
) -> list[DroppedTool]:
    """Return the names in `tools` that match no tool of the run; those of MCP servers are reported elsewhere.

    withheld: as in `ExtraTools`.
    """
    offered = [*(tool.name for tool in tools), "respond", "get_tool_response"]
    dropped = []
    for name in names:
        of_server = settings.mcp_servers and (name.startswith("mcp__") or "/" in name)
        if of_server or resolve_tools([name], (), offered).names:
            continue
        asks = resolve_tools([name], (), [DELEGATE]).names
        other = "a tool of an editor" if is_editor_tool(name) else "no such tool here"
        reason = "offered only with `agents` that can be called" if asks else other
        reason = next((withheld[one] for one in resolve_tools([name], (), withheld).names), reason)
        dropped.append(DroppedTool(name, reason, "tools"))
    return dropped


def unmatched_tools(file: SpecialistFile, settings: Specialist, environment: RunEnvironment) -> list[str]:
    """Return a warning if `tools` excludes tools of MCP servers, which may be unintended."""
    served = [tool.name for tool in environment.extra_tools.served]
    if settings.tools is None or not served:
        return []
    place, available = file.place("tools"), _abbreviated(served)
    resolved = resolve_tools(settings.tools, (), served)
    unmatched = [name for name in resolved.unknown if name.startswith("mcp__") or "/" in name]
    if unmatched:
        return [f"{place}: tools: no tool of an MCP server matches {', '.join(unmatched)}; available: {available}"]
    if resolved.names:
        return []
    return [f"{place}: tools: lists no tool of the MCP servers, so none can be called; available: {available}"]


def _abbreviated(names: Sequence[str]) -> str:
    more = len(names) - _MAX_LISTED
    return ", ".join(names[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _delegate(settings: Specialist, environment: RunEnvironment) -> list[Tool]:
    tool = environment.delegate
    return [tool] if tool and resolve_tools(None, settings.disallowed_tools, [tool.name]).names else []
