"""From a specialist's file and a question to a job: settings, model, tools, system prompt, budget."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from run_specialist import prompts
from run_specialist.budget import Budget, Kind
from run_specialist.countdown import countdown, warning
from run_specialist.dispatch import DispatchSettings
from run_specialist.errors import UsageError
from run_specialist.executed import Augmenter
from run_specialist.job import Job
from run_specialist.messages import Usage
from run_specialist.providers.base import Opening, Provider
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.specialist.fields import Countdown, Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.tool_names import resolve_tools
from run_specialist.summariser import Summariser
from run_specialist.tools.archive import Archive, get_tool_response_tool
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.files import file_tools
from run_specialist.tools.listing import files as visible_files
from run_specialist.tools.respond import respond_tool
from run_specialist.tools.sandbox import Sandbox

LIMITS = {kind.key: kind for kind in Kind}
"""Keys that limit a run, and the kind of spending that each limits."""

NOT_OFFERED = ("agents", "mcp_servers", "python_tools")
"""Keys that limit nothing; a run goes on without what they would add, and says so."""


@dataclass(frozen=True)
class Surroundings:
    """Where a child works and what it is given beyond its file."""

    root: Path
    """The folder that the file tools may see."""
    provider: Provider
    tools: Sequence[Tool] = ()
    """Further tools, not filtered by the file's `tools`."""
    augmenters: Sequence[Augmenter] = ()
    """Stand before the countdown."""


def spawn(file: SpecialistFile, settings: Specialist, question: str, around: Surroundings) -> Job:
    """Make the job of one run.

    Raises UsageError when none of the file's tools exists here, or nothing of its `paths`, and for a limit or a shape
    of the answer that could not be kept.
    """
    warnings = [str(problem) for problem in file.problems if problem.level == "warning"]
    warnings += [
        f"{_place(file, key)}: {key}: not offered by this version" for key in NOT_OFFERED if getattr(settings, key)
    ]
    provider = around.provider
    if settings.cost_limit is not None and provider.cost(Usage(1)) is None:
        raise UsageError(
            f"{_given(file, 'cost_limit')}: the price of {provider.model} is not known, so no limit of its cost can be "
            "kept; take it out, or set total_tokens_limit instead"
        )
    budget = Budget.of({kind: getattr(settings, key) for key, kind in LIMITS.items()}, settings.countdown.from_)
    schema, archive = _schema(file, settings), Archive()
    tools = _tools(file, settings, around)
    summarises = settings.summarize_at is not None and provider.capabilities.is_language_model
    reads_on = summarises or bool(around.tools)
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
        landing=settings.landing,
        landing_prompt=settings.landing_prompt,
        answer_schema=schema,
        archive=archive if reads_on else None,
        summarize_at=settings.summarize_at if summarises else None,
        summariser=_summariser(settings, provider, archive),
        augmenters=(*around.augmenters, *_told(settings.countdown)),
        dispatch=DispatchSettings(
            settings.parallel_tools_limit,
            settings.tool_timeout,
            settings.tool_result_limit,
            limit_fields=settings.countdown.from_ is not None and settings.countdown.style == "json",
        ),
        warnings=tuple(warnings),
        origin=_origin(file, settings, schema, around, warnings),
    )


def digest(path: Path) -> str:
    """Return what tells two versions of a file apart; empty for one that cannot be read, or is none."""
    with suppress(OSError, ValueError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


def _origin(
    file: SpecialistFile,
    settings: Specialist,
    schema: AnswerSchema | None,
    around: Surroundings,
    warnings: Sequence[str],
) -> Mapping[str, Any]:
    """Return what it takes to make the same job once more, whatever becomes of the file meanwhile."""
    kept = settings.model_copy(update={"output_schema": schema and dict(schema.schema), "path": None})
    return {
        "settings": kept.model_dump(mode="json", by_alias=True),
        "file": str(file.path),
        "digest": digest(file.path),
        "root": str(around.root),
        "given_tools": [tool.name for tool in around.tools],
        "warnings": list(warnings),
    }


def _schema(file: SpecialistFile, settings: Specialist) -> AnswerSchema | None:
    if settings.output_schema is None:
        return None
    try:
        return AnswerSchema.load(settings.output_schema, file.path.parent)
    except ValueError as error:
        raise UsageError(f"{_given(file, 'output_schema')}: {error}") from None


def _summariser(settings: Specialist, provider: Provider, archive: Archive) -> Summariser | None:
    if not provider.capabilities.is_language_model:
        return None
    return Summariser(provider, archive, settings.summarize_at, settings.context_target, settings.summary_limit)


def _tools(file: SpecialistFile, settings: Specialist, around: Surroundings) -> list[Tool]:
    paths = () if settings.paths is None else settings.paths
    if settings.paths is not None and not _anything(around.root, paths):
        raise UsageError(
            f"{_place(file, 'paths')}: paths: {settings.name} reads {', '.join(paths) or 'nothing'}, and there is "
            f"nothing of it under {around.root}; name the folder that holds it with --root, or write a specialist for "
            "what is here with `specialists new`"
        )
    files = {tool.name: tool for tool in file_tools(around.root, paths, settings.tool_result_limit)}
    resolved = resolve_tools(settings.tools, settings.disallowed_tools, files)
    if resolved.nothing_known and settings.tools:
        raise UsageError(
            f"{_place(file, 'tools')}: tools: none of {', '.join(settings.tools)} exists here; "
            f"there are {', '.join(files)}"
        )
    return [*(files[name] for name in resolved.names), *around.tools]


def _anything(root: Path, paths: Sequence[str]) -> bool:
    return bool(paths) and next(iter(visible_files(Sandbox(root, paths))), None) is not None


def _told(settings: Countdown) -> list[Augmenter]:
    """Return how the child is told of its budget: the warning, and the countdown as the last line."""
    told = [] if settings.warn_at is None else [warning(settings.warn_at)]
    silent = settings.from_ is None or settings.style == "json"
    return [*told, *([] if silent else [countdown(settings.style)])]


def _given(file: SpecialistFile, key: str) -> str:
    """Return a key with the place where it stands in the file, alone when the call gave it."""
    return f"{_place(file, key)}: {key}" if key in file.lines else key


def _place(file: SpecialistFile, key: str) -> str:
    return f"{file.path}:{file.lines.get(key, 1)}:1"
