"""From a specialist's file and a question to a job: settings, model, tools, system prompt, budget."""

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind
from run_specialist.errors import UsageError
from run_specialist.loop.compaction.summarizer import Summarizer
from run_specialist.loop.dispatch_settings import DispatchSettings
from run_specialist.loop.executed import Augmenter
from run_specialist.loop.job import Job
from run_specialist.loop.tool_calls.countdown import countdown, warning
from run_specialist.providers.base import Opening, Provider
from run_specialist.providers.choose import keys_of
from run_specialist.record.messages import Usage
from run_specialist.redaction import credentials
from run_specialist.safe_open import open_file
from run_specialist.spawning.extra_tools import ExtraTools
from run_specialist.specialist.fields import Countdown, Specialist
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers.servers import without_secrets
from run_specialist.specialist.tool_names import resolve_tools
from run_specialist.tools.archive import Archive, get_tool_response_tool
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.files.files import file_tools
from run_specialist.tools.respond import respond_tool

LIMITS = {kind.key: kind for kind in Kind}
"""Keys that limit a run, and the kind of spending that each limits."""

_NAMED = 10
"""So many tools of servers are named where one is missed."""


@dataclass(frozen=True)
class Parent:
    """The run that asks, as far as its child has to know it."""

    run_id: str
    root: Path
    """The folder that it works in; its child works there too."""
    names: tuple[str, ...]
    """The specialists above the child, the first one first; none of them is asked again further down."""


@dataclass(frozen=True)
class RunEnvironment:
    """Where a child works and what it is given beyond its file."""

    root: Path
    """The folder that the file tools may see."""
    provider: Provider
    tools: Sequence[Tool] = ()
    """Given by the program, not filtered by the file's `tools`."""
    augmenters: Sequence[Augmenter] = ()
    """Stand before the countdown."""
    equipment: ExtraTools = field(default_factory=ExtraTools)
    """What the file brings along."""
    delegate: Tool | None = None
    """Asks other specialists; None where the file lists none, or none may be asked here."""
    parent: Parent | None = None
    """None where no other run asks."""
    seconds: float = 0
    """How long it took to find anything of its `paths` [s]."""
    secrets: Sequence[str] = field(default=(), repr=False)
    """Credentials of the program, in addition to those in the environment."""


def spawn(file: SpecialistFile, settings: Specialist, question: str, around: RunEnvironment) -> Job:
    """Make the job of one run.

    Raises UsageError when none of the file's tools exists here, and for a limit or a shape of the answer that could
    not be kept.
    """
    warnings = [str(problem) for problem in file.problems if problem.level == "warning"]
    warnings += [*around.equipment.warnings, *_not_offered(file, settings, around)]
    provider = around.provider
    if settings.cost_limit is not None and provider.cost(Usage(1)) is None:
        raise UsageError(
            f"{_given(file, 'cost_limit')}: the price of {provider.model} is not known, so no limit of its cost can be "
            "kept; take it out, or set total_tokens_limit instead"
        )
    budget = Budget.of({kind: getattr(settings, key) for key, kind in LIMITS.items()}, settings.countdown.from_)
    schema, archive = answer_schema(file, settings), Archive()
    tools = _tools(file, settings, around)
    summarises = settings.summarize_at is not None and provider.capabilities.is_language_model
    equipment = around.equipment
    reads_on = summarises or bool(around.tools or equipment.functions or equipment.served or around.delegate)
    if reads_on:
        tools.append(get_tool_response_tool(archive, settings.tool_result_limit))
    system = prompts.system(settings.prompt, budget, budget_notice=settings.budget_notice)
    return Job(
        run_id=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(5)}",
        specialist=settings.name,
        question=question,
        opening=Opening(system, Toolset([*tools, respond_tool(schema)]), settings.effort),
        provider=provider,
        budget=budget,
        seconds=around.seconds,
        landing=settings.landing,
        landing_prompt=settings.landing_prompt,
        answer_schema=schema,
        archive=archive if reads_on else None,
        summarize_at=settings.summarize_at if summarises else None,
        summarizer=_summarizer(settings, provider, archive),
        augmenters=(*around.augmenters, *_told(settings.countdown)),
        dispatch=DispatchSettings(
            settings.parallel_tools_limit,
            settings.tool_timeout,
            settings.tool_result_limit,
            limit_fields=settings.countdown.from_ is not None and settings.countdown.style == "json",
            share_budget=settings.share_budget,
        ),
        parent_id=around.parent.run_id if around.parent else None,
        warnings=tuple(warnings),
        secrets=(*credentials(os.environ), *keys_of(provider), *equipment.secrets, *around.secrets),
        origin=_origin(file, settings, schema, around, warnings),
    )


def digest(path: Path) -> str:
    """Return what tells two versions of a file apart; empty for one that cannot be read, or is none."""
    with suppress(OSError, ValueError), open_file(path, None) as file:
        return hashlib.sha256(file.read()).hexdigest()
    return ""


def _origin(
    file: SpecialistFile,
    settings: Specialist,
    schema: AnswerSchema | None,
    around: RunEnvironment,
    warnings: Sequence[str],
) -> Mapping[str, Any]:
    """Return what it takes to make the same job once more, whatever becomes of the file meanwhile."""
    changed = {
        "output_schema": schema and dict(schema.schema),
        "mcp_servers": without_secrets(settings.mcp_servers),
        "path": None,
    }
    kept = settings.model_copy(update=changed)
    return {
        "settings": kept.model_dump(mode="json", by_alias=True),
        "file": str(file.path),
        # What was read, where it was; the file may be another by now.
        "digest": file.digest or digest(file.path),
        "root": str(around.root),
        "given_tools": [tool.name for tool in around.tools],
        "parents": around.parent.names if around.parent else (),
        "warnings": list(warnings),
    }


def answer_schema(file: SpecialistFile, settings: Specialist) -> AnswerSchema | None:
    """Return the shape that an answer must have, None for text; raises UsageError for one that cannot be held."""
    if settings.output_schema is None:
        return None
    try:
        # A path that the program gives may lead anywhere; one in a project's file may not.
        by_file = file.specialist is not None and settings.output_schema == file.specialist.output_schema
        return AnswerSchema.load(settings.output_schema, file.path.parent, file.project if by_file else None)
    except ValueError as error:
        raise UsageError(f"{_given(file, 'output_schema')}: {error}") from None


def _summarizer(settings: Specialist, provider: Provider, archive: Archive) -> Summarizer | None:
    if not provider.capabilities.is_language_model:
        return None
    return Summarizer(provider, archive, settings.summarize_at, settings.context_target, settings.summary_limit)


def _tools(file: SpecialistFile, settings: Specialist, around: RunEnvironment) -> list[Tool]:
    paths = () if settings.paths is None else settings.paths
    known = {tool.name: tool for tool in file_tools(around.root, paths, settings.tool_result_limit)}
    known |= {tool.name: tool for tool in around.equipment.served}
    resolved = resolve_tools(settings.tools, settings.disallowed_tools, known)
    further = [*around.equipment.functions, *around.tools, *_delegate(settings, around)]
    # A server that is not there costs its tools, not the run.
    others = settings.mcp_servers or around.delegate or around.equipment.functions
    if resolved.nothing_known and settings.tools and not others:
        raise UsageError(
            f"{file.place('tools')}: tools: none of {', '.join(settings.tools)} exists here; "
            f"there are {', '.join(known)}"
        )
    return [*(known[name] for name in resolved.names), *further]


def _not_offered(file: SpecialistFile, settings: Specialist, around: RunEnvironment) -> list[str]:
    """Tell of tools of servers that `tools` filters away, which may not be meant."""
    served = [tool.name for tool in around.equipment.served]
    if settings.tools is None or not served:
        return []
    resolved = resolve_tools(settings.tools, (), served)
    unfit = [name for name in resolved.unknown if name.startswith("mcp__") or "/" in name]
    if unfit:
        return [f"{file.place('tools')}: tools: no tool of a server fits {', '.join(unfit)}; there are {_some(served)}"]
    if resolved.names:
        return []
    return [
        f"{file.place('tools')}: tools: names no tool of the servers, so none is offered; there are {_some(served)}"
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _delegate(settings: Specialist, around: RunEnvironment) -> list[Tool]:
    tool = around.delegate
    return [tool] if tool and resolve_tools(None, settings.disallowed_tools, [tool.name]).names else []


def _told(settings: Countdown) -> list[Augmenter]:
    """Return how the child is told of its budget: the warning, and the countdown as the last line."""
    told = [] if settings.warn_at is None else [warning(settings.warn_at)]
    silent = settings.from_ is None or settings.style == "json"
    return [*told, *([] if silent else [countdown(settings.style)])]


def _given(file: SpecialistFile, key: str) -> str:
    """Return a key with the place where it stands in the file, alone when the call gave it."""
    return f"{file.place(key)}: {key}" if key in file.lines else key
