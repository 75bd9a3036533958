"""Make a job from a file and a question: tools, prompt, budget, context."""

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from run_specialist import prompts
from run_specialist.budget import PRESETS, Budget, Kind
from run_specialist.errors import ToolError, UsageError, errors_as
from run_specialist.loop.job import Augmenter, Job
from run_specialist.loop.summarizer import SUMMARY_LIMIT, Summarizer
from run_specialist.loop.tool_calls import countdown, warning
from run_specialist.providers.base import Capabilities, Opening, Provider
from run_specialist.providers.choose import ModelChain, keys_of, models_of
from run_specialist.record.messages import Usage, encode
from run_specialist.safety.redact import credentials
from run_specialist.safety.safe_files import open_file
from run_specialist.spawning.extra_tools import ExtraTools
from run_specialist.spawning.prompt_texts import AgentMemory, PromptTexts
from run_specialist.spawning.server_tools import API_FETCH as SERVER_FETCH
from run_specialist.spawning.server_tools import reserved
from run_specialist.specialist.answer_schema import NEEDS_QUOTES, AnswerSchema, has_quotes
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers import without_secrets
from run_specialist.specialist.project import project_path
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import resolve
from run_specialist.specialist.tool_names import DELEGATE, FETCH, MEMORY, names_tool, removes_tool, resolve_tools
from run_specialist.tools.archive import Archive, get_tool_response_tool
from run_specialist.tools.base import Tool, Toolset, few
from run_specialist.tools.edit import Patch
from run_specialist.tools.files import file_tools
from run_specialist.tools.planning import THINK, TODO, TodoList, think_tool, todo_tool
from run_specialist.tools.respond import respond_tool
from run_specialist.tools.sandbox import chosen


@dataclass(frozen=True)
class Parent:
    """What a child needs to know about its parent run."""

    run_id: str
    root: Path
    """The folder that parent and child work in."""
    names: tuple[str, ...]
    """The specialists above the child, outermost first; the child must not delegate to any of them."""
    patch: Patch | None = None
    """Receives the changes of a dry run; None = not a dry run."""
    registry: Registry | None = None
    """Finds the specialists that its children may call; None = as for a run without a parent."""


@dataclass(frozen=True)
class RunEnvironment:
    """The environment of a run: its folder, its model, and everything that the specialist's file does not define."""

    root: Path
    """The folder that the file tools may read."""
    provider: Provider
    tools: Sequence[Tool] = ()
    """Tools of the program, not filtered by the file's `tools`."""
    augmenters: Sequence[Augmenter] = ()
    """Augmenters of the program, which run before the countdown."""
    extra_tools: ExtraTools = field(default_factory=ExtraTools)
    """The Python functions and MCP tools that the file declares."""
    delegate: Tool | None = None
    """The tool that delegates to other specialists; None if the file lists none, or if none can be called here."""
    parent: Parent | None = None
    """None for a run without a parent."""
    seconds: float = 0
    """Time spent before the run on finding the first match of its `paths` [s]."""
    keeps_archive: bool = False
    """Whether the model was offered the archive before the run was resumed."""
    prompt_texts: PromptTexts = field(default_factory=PromptTexts)
    """The additions to the specialist's prompt."""
    memory: AgentMemory = field(default_factory=AgentMemory)
    """The specialist's notes from earlier runs."""
    plan: TodoList = field(default_factory=TodoList)
    """The list of the tool `todo`."""
    patch: Patch | None = None
    """Receives the changes of a dry run; None = not a dry run."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """Credentials of the program, in addition to those in the environment."""


LIMITS = {kind.key: kind for kind in Kind}
"""Front matter keys that limit a run, each with the kind of spending that it limits."""
RESOLVED_AUTO = ("tool_calls", "first_search")
"""Keys whose value `auto` is replaced by another one when a run begins."""


def spawn(file: SpecialistFile, settings: Specialist, question: str, environment: RunEnvironment) -> Job:
    """Return the job of a new run.

    Raises UsageError if none of the file's tools exists, and for a cost limit or an answer schema that cannot be
    enforced.
    """
    provider, extra = environment.provider, environment.extra_tools
    call_format = provider.capabilities.call_format(settings.tool_calls)
    wanted = {"auto", "on"} if call_format == "json" or provider.capabilities.json_calls else {"on"}
    # The first call of the offline provider is this search.
    searches = provider.capabilities.is_language_model and settings.first_search in wanted
    # Stored with the run, because more may be known of the endpoint when it is resumed.
    chosen = {"tool_calls": call_format, "first_search": "on" if searches else "off"}
    settings = settings.model_copy(update=chosen)
    problems = [problem for problem in file.problems if problem.level == "warning"]
    warnings = [
        # The call may allow tools that the file does not allow.
        *(str(problem) for problem in problems if problem.key != "server_tools" or not settings.server_tools),
        *extra.warnings,
        *environment.prompt_texts.warnings,
        *unmatched_tools(file, settings, environment),
        *(provider.warnings if isinstance(provider, ModelChain) else ()),
    ]
    if settings.cost_limit is not None:
        check_price(provider, _place_of(file, "cost_limit"))
    budget = Budget.of({kind: getattr(settings, key) for key, kind in LIMITS.items()}, settings.countdown.from_)
    schema, archive = answer_schema(file, settings), Archive()
    if settings.evidence == "require" and schema is not None and not has_quotes(schema.schema):
        place = next((f"{file.place(key)}: " for key in ("evidence", "output_schema") if key in file.lines), "")
        raise UsageError(f"{place}evidence: {NEEDS_QUOTES}")
    prompt = environment.prompt_texts.added_to(settings.prompt)
    system = prompts.system(prompt, budget, budget_notice=settings.budget_notice)
    given, respond = settings, respond_tool(schema, may_ask=call_format == "native")

    def front_chars() -> int:
        """Return the length of the constant part of all requests: the texts and all possible tools [characters]."""
        tools = [*choose_tools(file, given, environment)[0], get_tool_response_tool(archive, 1), respond]
        return len(system) + len(question) + sum(len(encode(tool.definition)) for tool in tools)

    fitted = fit_to_context(given, provider.capabilities, front_chars)
    settings = fitted.settings
    tools, _ = choose_tools(file, settings, environment)
    summarizer = None
    if provider.capabilities.is_language_model:
        summarizer = Summarizer(
            provider, archive, settings.summarize_at, settings.context_target, settings.summary_limit
        )
    else:
        settings = settings.model_copy(update={"summarize_at": None})
    has_added_tools = bool(environment.tools or extra.functions or extra.served or environment.delegate)
    uses_archive = settings.summarize_at is not None or has_added_tools or environment.keeps_archive
    if uses_archive:
        tools.append(get_tool_response_tool(archive, settings.tool_result_limit))
    toolset = Toolset([*tools, respond])
    shown = settings.countdown
    # The warning, then the countdown as the last line.
    augmenters = [*environment.augmenters, *([] if shown.warn_at is None else [warning(shown.warn_at)])]
    if shown.from_ is not None and shown.style != "json":
        augmenters.append(countdown(shown.style))
    opening = Opening(system, toolset, settings.effort, call_format, settings.task_budget)
    parent = environment.parent
    job = Job(new_run_id(), settings, question, opening, provider, reserved(budget, toolset), environment.seconds)
    job = replace(job, answer_schema=schema, summarizer=summarizer, augmenters=tuple(augmenters))
    # How the context is shared.
    job = replace(job, turn_chars=fitted.turn_chars, longest_history=fitted.longest_history)
    job = replace(job, archive=archive if uses_archive else None, context_warnings=fitted.warnings)
    # Where it comes from, and what others must not see.
    warnings += fitted.warnings
    hidden = (*credentials(os.environ), *keys_of(provider), *extra.secrets, *environment.secrets)
    job = replace(job, origin=partial(origin, file, given, schema, environment, warnings), secrets=hidden)
    patch = environment.patch.text if environment.patch and not parent else None
    return replace(job, warnings=tuple(warnings), parent_id=parent.run_id if parent else None, patch=patch)


class PriceUnknown(UsageError):
    """A cost limit cannot be enforced because the price of the model is unknown."""


def check_price(provider: Provider, place: str = "cost_limit") -> None:
    """Raise PriceUnknown if the price of any model that the run may use is unknown.

    place: the key that limits the cost, with its position.
    """
    for one in models_of(provider):
        if one.cost(Usage(1)) is None:
            raise PriceUnknown(
                f"{place}: the price of {one.model} is unknown, so its cost cannot be limited; remove cost_limit, or "
                "set total_tokens_limit instead"
            )


def new_run_id(mark: str = "") -> str:
    """Return a unique id.

    mark: suffix of the id, which is shortened by it, so that a listing has room for both.
    """
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4 if mark else 5)}{mark}"


def answer_schema(file: SpecialistFile, settings: Specialist) -> AnswerSchema | None:
    """Return the schema of the answer; None for text.

    Raises UsageError for a schema that cannot be read or used.
    """
    if settings.output_schema is None:
        return None
    with errors_as(UsageError, _place_of(file, "output_schema"), ValueError):
        # A path from the program may lead anywhere; one from a project's file must stay in the project.
        by_file = file.specialist is not None and settings.output_schema == file.specialist.output_schema
        return AnswerSchema.load(settings.output_schema, file.path.parent, file.project if by_file else None)


def _place_of(file: SpecialistFile, key: str) -> str:
    """Return a key with its place in the file; only the key if the caller set it."""
    return f"{file.place(key)}: {key}" if key in file.lines else key


# Maximum number of server tools listed in a warning.
_MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class DroppedTool:
    """A tool that a specialist does not get."""

    name: str
    """Name of the tool, or as written in the file if there is none."""
    reason: str
    key: str | None = None
    """The key of the file that is the reason; None if the reason is not a key."""


def choose_tools(
    file: SpecialistFile, settings: Specialist, environment: RunEnvironment
) -> tuple[list[Tool], list[DroppedTool]]:
    """Return the tools of a run, besides `respond` and `get_tool_response`, and those that it does not get.

    Raises UsageError if none of the file's tools exists.
    """
    extra, memory = environment.extra_tools, environment.memory
    own = settings.paths and chosen(environment.root, settings.paths)
    paths = () if own is None else (*own, *environment.prompt_texts.folders)
    known = {tool.name: tool for tool in file_tools(environment.root, paths, settings.tool_result_limit, extra.files)}
    known |= {tool.name: tool for tool in extra.served}
    # The API uses its own names.
    known |= {FETCH if tool.name == SERVER_FETCH else tool.name: tool for tool in extra.offered}
    # These only record what the model writes.
    planning: dict[str, Callable[[], Tool]] = {TODO: partial(todo_tool, environment.plan), THINK: think_tool}
    known |= {name: make() for name, make in planning.items() if names_tool(settings.tools, name)}
    resolved = resolve_tools(settings.tools, settings.disallowed_tools, known)
    delegate = [environment.delegate] if environment.delegate else []
    if removes_tool(settings.disallowed_tools, DELEGATE):
        delegate = []
    # Without a server that cannot be reached, the run has fewer tools, but it runs.
    has_others = settings.mcp_servers or environment.delegate or extra.functions or memory.tool
    if resolved.nothing_known and settings.tools and not has_others:
        why = "".join(f"; {name}: {reason}" for name, reason in extra.withheld.items())
        raise UsageError(
            f"{file.place('tools')}: tools: none of {', '.join(settings.tools)} exists{why}; "
            f"available: {', '.join(known)}"
        )
    own_memory = [memory.tool] if memory.tool else []
    unfiltered = [*own_memory, *extra.functions, *environment.tools, *delegate]
    tools = [*(known[name] for name in resolved.names), *unfiltered]
    allowed = set(resolve_tools(None, settings.disallowed_tools, known).names)
    not_listed, disallowed = ("not in the list", "tools"), ("disallowed", "disallowed_tools")
    missing = [name for name in known if name not in resolved.names]
    dropped = [DroppedTool(name, *(not_listed if name in allowed else disallowed)) for name in missing]
    if settings.agents and not delegate:
        why_not = disallowed if environment.delegate else ("none of them can be called", "agents")
        dropped.append(DroppedTool(DELEGATE, *why_not))
    # If it is named in `tools`, it is reported with the other names there.
    if settings.memory and not memory.tool and not names_tool(settings.tools, MEMORY):
        dropped.append(DroppedTool(MEMORY, *((memory.withheld, "memory") if memory.withheld else disallowed)))
    withheld = {**extra.withheld, **({MEMORY: memory.withheld} if memory.withheld else {})}
    offered = [*(tool.name for tool in tools), "respond", "get_tool_response"]
    for name in resolved.unknown:
        # Tools of MCP servers are reported elsewhere.
        of_server = settings.mcp_servers and (name.startswith("mcp__") or "/" in name)
        if of_server or resolve_tools([name], (), offered).names:
            continue
        asks = resolve_tools([name], (), [DELEGATE]).names
        reason = "offered only with `agents` that can be called" if asks else "no such tool here"
        reason = next((withheld[one] for one in resolve_tools([name], (), withheld).names), reason)
        dropped.append(DroppedTool(name, reason, "tools"))
    return tools, dropped


def unmatched_tools(file: SpecialistFile, settings: Specialist, environment: RunEnvironment) -> list[str]:
    """Return a warning if `tools` excludes tools of MCP servers, which may be unintended."""
    served = [tool.name for tool in environment.extra_tools.served]
    resolved = resolve_tools(settings.tools, (), served)
    unmatched = [name for name in resolved.unknown if name.startswith("mcp__") or "/" in name]
    if settings.tools is None or not served or (resolved.names and not unmatched):
        return []
    why = f"no tool of an MCP server matches {', '.join(unmatched)}"
    why = why if unmatched else "lists no tool of the MCP servers, so none can be called"
    return [f"{file.place('tools')}: tools: {why}; available: {few(served, _MAX_LISTED)}"]


# Share a context of known length between prompt, tools, results and reply: defaults and warnings that follow from it.
#
# The provider limits a reply to a quarter. The rest, without the prompt, the tools, the question and the reply, is the
# room for the work. One result takes at most a third of it and all results of a turn half, so that two turns fit
# whatever they read. The transcript is summarized above three quarters: the estimate of what was added last may be a
# sixth too low. docs/models.md explains the shares.

CHARACTERS_PER_TOKEN = 3
"""Low estimate, so that results fit even if they consist of code, numbers or names [characters]."""
# Divisors of the room: the maximum of one result, of all results of a turn, and of a summary.
_RESULT_SHARE, _TURN_SHARE, _SUMMARY_SHARE = 3, 2, 8
SHORTEST_RESULT = 400
"""Minimum length of a result, below which searching would be pointless [characters]."""
# Minimum length of a summary [tokens].
_SHORTEST_SUMMARY = 100


@dataclass(frozen=True, slots=True)
class FittedSettings:
    """Settings of a run that fit the context of its model."""

    settings: Specialist
    turn_chars: int | None = None
    """Maximum length of all results of a turn [characters]; None = no limit."""
    longest_history: int | None = None
    """Size above which the results of another turn might not fit [tokens]; None = not known."""
    warnings: tuple[str, ...] = ()


def fit_to_context(settings: Specialist, capabilities: Capabilities, front_chars: Callable[[], int]) -> FittedSettings:
    """Return settings that fit the context, if its length is known; explicit ones stay, with a warning if too large.

    front_chars: returns the length of what is in every request: system prompt, tools and question [characters].
    """
    context = capabilities.context_tokens
    if context is None:
        return FittedSettings(settings)
    front = -(-front_chars() // CHARACTERS_PER_TOKEN)
    room = max(context - capabilities.max_output_tokens - front, 0)
    room_chars = room * CHARACTERS_PER_TOKEN
    # The request beside the newest results, which take the other half of the room.
    longest_history = front + max(room // _TURN_SHARE, 1)
    # The keys that were set for this specialist, not only by a preset, which must suit every model.
    preset = PRESETS[settings.preset] if settings.preset else {}
    given = {key for key in settings.model_fields_set if key not in preset or preset[key] != getattr(settings, key)}
    changed: dict[str, Any] = {
        "tool_result_limit": min(settings.tool_result_limit, max(room_chars // _RESULT_SHARE, SHORTEST_RESULT))
    }
    if "summarize_at" not in given:
        changed["summarize_at"] = front + max(3 * room // 4, 1)
        changed["context_target"] = longest_history
        changed["summary_limit"] = min(SUMMARY_LIMIT, max(room // _SUMMARY_SHARE, _SHORTEST_SUMMARY))
    fitted = settings.model_copy(update={key: value for key, value in changed.items() if key not in given})
    warnings = [capabilities.context_note] if capabilities.context_note else []
    if room_chars < SHORTEST_RESULT:
        warnings.append(
            f"system prompt, tools and question take about {front:,} of the {context:,} tokens of the context, and "
            "little is left for results; give the model a longer context, or the specialist fewer tools"
        )
    if "tool_result_limit" in given and settings.tool_result_limit > room_chars:
        warnings.append(
            f"tool_result_limit: a result of {settings.tool_result_limit:,} characters does not fit into the context "
            f"of {context:,} tokens, which holds about {room_chars:,} characters of results"
        )
    # A result of the length that the user has set passes whole, even if it is the only one of its turn.
    turn_chars = max(room_chars // _TURN_SHARE, SHORTEST_RESULT, fitted.tool_result_limit)
    return FittedSettings(fitted, turn_chars, longest_history, tuple(warnings))


# Number of characters of a digest in a message.
_DIGITS = 12


def origin(
    file: SpecialistFile,
    settings: Specialist,
    schema: AnswerSchema | None,
    environment: RunEnvironment,
    warnings: Sequence[str],
) -> Mapping[str, Any]:
    """Return the JSON values from which the same job can be built again, even if the file has changed."""
    # Keys that differ from the file, because of a flag or of a parent's smaller budget.
    overridden: list[str] = []
    if file.specialist is not None:
        by_file = resolve(file, {}).settings
        overridden = [key for key in Specialist.model_fields if getattr(settings, key) != getattr(by_file, key)]
    # A child's time does not count, because the parent's time always limits it.
    limiting = [kind for kind in Kind if environment.parent is None or kind is not Kind.TIME]
    return {
        "settings": settings_of(settings, schema),
        "given": sorted(settings.model_fields_set),
        "file": str(file.path),
        # The digest of the content that was read: the file may have changed since.
        "digest": file.digest or digest(file.path),
        "root": str(environment.root),
        "project": project_path(environment.root),
        "changed_limits": [kind.key for kind in limiting if kind.key in overridden],
        "overridden": overridden,
        "given_tools": [tool.name for tool in environment.tools],
        "parents": environment.parent.names if environment.parent else (),
        "warnings": list(warnings),
        **({"dry_run": True} if environment.patch is not None else {}),
        **({"models": models} if len(models := [one.model for one in models_of(environment.provider)]) > 1 else {}),
    }


def settings_of(settings: Specialist, schema: AnswerSchema | None) -> dict[str, Any]:
    """Return settings as a run stores them.

    schema: the content of `output_schema`.
    """
    servers = without_secrets(settings.mcp_servers)
    replaced = {"output_schema": schema and dict(schema.schema), "mcp_servers": servers, "path": None}
    return settings.model_copy(update=replaced).model_dump(mode="json", by_alias=True)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal; empty if it cannot be read or does not exist."""
    with suppress(OSError, ValueError), open_file(path, None) as file:
        return hashlib.sha256(file.read()).hexdigest()
    return ""


def digests(begun: str, current: str) -> str:
    """Return a clause with the digest of the file that a run began with, and the current one."""
    return f"its digest was {begun[:_DIGITS] or 'none'} and is {current[:_DIGITS] or 'none'}"


# Parts of the definition of an API tool that depend on limits, which a resumption may change.
_BOUNDS = ("max_uses", "max_content_tokens")


def as_stored(definitions: Sequence[Mapping[str, Any]], tools: Toolset) -> Toolset:
    """Return the tools with their stored definitions and their current functions."""

    def unavailable(**arguments: Any) -> str:  # noqa: ANN401 - the model may give any arguments
        del arguments
        raise ToolError("this tool is no longer there")

    def unbounded(definition: Mapping[str, Any]) -> Mapping[str, Any]:
        return {key: value for key, value in definition.items() if key not in _BOUNDS}

    found = []
    for definition in definitions:
        name = definition["name"]
        tool = tools.get(name)
        if "input_schema" in definition:
            tool = tool or Tool(name, "", unavailable)
            tool = replace(tool, description=definition["description"], schema=definition["input_schema"])
        elif tool is None or not tool.on_server:
            # Others may have written to the store, and the API runs every offered tool. So a tool that the run would
            # not get today is replaced by one that does nothing, although this changes the prompt.
            tool = Tool(name, "No longer available.", unavailable, schema={"type": "object"})
        elif unbounded(definition) == unbounded(tool.on_server):
            tool = replace(tool, on_server=definition)
        found.append(tool)
    return Toolset(found)
