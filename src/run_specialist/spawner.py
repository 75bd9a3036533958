"""From a specialist's file and a question to a job: settings, model, tools, system prompt, budget."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from run_specialist import prompts
from run_specialist.budget import Budget, Kind
from run_specialist.dispatch import Augmenter, DispatchSettings, Executed
from run_specialist.errors import SpecialistUnusable, UsageError
from run_specialist.job import Job
from run_specialist.providers.base import Opening, Provider
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.tool_names import resolve_tools
from run_specialist.specialist.values import wanted
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.files import file_tools
from run_specialist.tools.listing import files as visible_files
from run_specialist.tools.respond import respond_tool
from run_specialist.tools.sandbox import Sandbox

LIMITS = {
    "tool_calls_limit": Kind.TOOL_CALLS,
    "turns_limit": Kind.TURNS,
    "total_tokens_limit": Kind.TOKENS,
    "cost_limit": Kind.COST,
    "time_limit": Kind.TIME,
    "tool_chars_limit": Kind.CHARACTERS,
}
"""Keys that limit a run, and the kind of spending that each limits."""

ENFORCED = {"tool_calls_limit"}
"""The limits that the loop of this version holds; any other one makes a run refuse, never go on without it."""

SHAPING = ("summarize_at", "output_schema")
"""Keys that promise something about a run which this version cannot keep."""

NOT_OFFERED = ("agents", "mcp_servers", "python_tools", "context_target", "summary_limit")
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


def settle(file: SpecialistFile, overrides: Mapping[str, Any], *, strict: bool = False) -> Specialist:
    """Return the settings of a run: what the call site says, else the file, else the default.

    overrides: canonical keys; None means no limit.
    strict: also refuse a file with warnings.
    Raises SpecialistUnusable for a file that cannot be run, and for a setting that this version does not keep.
    """
    file = file.strict() if strict else file
    if file.specialist is None:
        raise SpecialistUnusable("\n".join(str(problem) for problem in file.problems if problem.level == "error"))
    settings = file.specialist.model_copy(update=_checked(overrides))
    for key in (*(key for key in LIMITS if key not in ENFORCED), *SHAPING):
        if getattr(settings, key) is not None:
            raise SpecialistUnusable(
                f"{_place(file, key)}: {key}: this version cannot keep it; take it out to run without"
            )
    if settings.countdown.warn_at is not None:
        raise SpecialistUnusable(f"{_place(file, 'countdown')}: countdown.warn_at: this version cannot keep it")
    if settings.preset not in (None, "soft-landing"):
        raise SpecialistUnusable(f"{_place(file, 'preset')}: preset: only soft-landing is kept by this version")
    return settings


def _checked(overrides: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(set(overrides) - set(Specialist.model_fields)):
        raise UsageError(f"no such setting: {', '.join(unknown)}")
    try:
        checked = Specialist.model_validate({"name": "", "description": "", "prompt": "", **overrides})
    except ValidationError as error:
        wrong = error.errors()[0]
        key = str(wrong["loc"][0])
        want = wanted(key)
        raise UsageError(f"{key}: wanted {want.words if want else wrong['msg']}, found {overrides[key]!r}") from None
    return {key: getattr(checked, key) for key in overrides}


def spawn(file: SpecialistFile, settings: Specialist, question: str, around: Surroundings) -> Job:
    """Make the job of one run.

    Raises UsageError when none of the file's tools exists here, or nothing of its `paths`.
    """
    warnings = [str(problem) for problem in file.problems if problem.level == "warning"]
    warnings += [
        f"{_place(file, key)}: {key}: not offered by this version" for key in NOT_OFFERED if getattr(settings, key)
    ]
    tools = _tools(file, settings, around)
    system = prompts.system(
        settings.prompt, tool_calls_limit=settings.tool_calls_limit, budget_notice=settings.budget_notice
    )
    limits = {kind: getattr(settings, key) for key, kind in LIMITS.items()}
    return Job(
        run_id=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        specialist=settings.name,
        question=question,
        opening=Opening(system, tools, settings.effort),
        provider=around.provider,
        budget=Budget.of(limits, settings.countdown.from_),
        landing=settings.landing,
        landing_prompt=settings.landing_prompt,
        augmenters=(*around.augmenters, _countdown(settings.countdown.style)),
        dispatch=DispatchSettings(settings.parallel_tools_limit, settings.tool_timeout, settings.tool_result_limit),
        warnings=tuple(warnings),
    )


def _tools(file: SpecialistFile, settings: Specialist, around: Surroundings) -> Toolset:
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
    return Toolset([*(files[name] for name in resolved.names), *around.tools, respond_tool()])


def _anything(root: Path, paths: Sequence[str]) -> bool:
    return bool(paths) and next(iter(visible_files(Sandbox(root, paths))), None) is not None


def _countdown(style: str) -> Augmenter:
    def line(executed: Executed) -> str | None:
        return prompts.countdown(executed.budget.tightest, style)

    return line


def _place(file: SpecialistFile, key: str) -> str:
    return f"{file.path}:{file.lines.get(key, 1)}:1"
