"""Build the job that resumes a stored run, or raise the reason why it cannot be resumed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from run_specialist import prompts
from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.errors import NotResumable
from run_specialist.loop.compaction.turns import archived_placeholder
from run_specialist.loop.job import Job, ResumeNote, ResumeState
from run_specialist.loop.portable import portable_id
from run_specialist.record.blocks import text_of
from run_specialist.record.messages import Stop
from run_specialist.spawning.begun_with import begun_with
from run_specialist.spawning.origin import digest, digests, resumed
from run_specialist.spawning.other_model import for_other_model
from run_specialist.spawning.resume_state import state_when_stopped
from run_specialist.spawning.run_environment import RunEnvironment
from run_specialist.spawning.server_share import reserved
from run_specialist.spawning.spawner import LIMITS, spawn
from run_specialist.spawning.stored_tools import as_stored
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.resolve import checked
from run_specialist.store.stored import StoredRun
from run_specialist.tools.archive import NAME as GET_TOOL_RESPONSE
from run_specialist.tools.archive import Archive
from run_specialist.tools.planning.todo import NAME as TODO
from run_specialist.tools.planning.todo import TodoList

_ORIGINAL = ("digest", "given_tools", "parents", "warnings", "given", "fork", "overridden")
"""Stored values that a resumption does not change."""


@dataclass(frozen=True)
class ResumeRequest:
    """The options of resuming."""

    question: str | None = None
    """A follow-up question."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """New totals by front matter key; None = no limit."""
    force: bool = False
    """Resume even if the file has changed, tools are missing, or another model rejects parts of the transcript."""
    file: Path | None = None
    """The specialist's file on the machine where the run continues; None = the original one."""


def resume(run: StoredRun, request: ResumeRequest, environment: RunEnvironment) -> Job:
    """Return the job that resumes a run, with the same system prompt and tools, byte for byte.

    environment: with the `tools` that the run was started with.
    Raises NotResumable with the reason, and UsageError for an invalid limit or a missing folder.
    """
    frozen = run.frozen
    file, before = begun_with(run, request.file, environment.root)
    given = checked(request.limits)
    settings = before.model_copy(update={key: getattr(given, key) for key in given.model_fields_set})
    changed = tuple(kind for key, kind in LIMITS.items() if getattr(settings, key) != getattr(before, key))
    state = state_when_stopped(run, before.tool_calls_limit)
    _check_totals(run, settings, state, changed)
    _check_purpose(run, request, changed)
    remarks = [*changed_file(run, request), *missing_tools(run, environment, request)]
    if run.model != environment.provider.model and (adapted := for_other_model(state)) is not state:
        state = adapted
        remarks.append(_left_out(run, request))
    if not (remarks or changed or request.question) and _needs_user_message(run, state):
        remarks.append(prompts.GO_ON)
    job = continued(run, file, settings, environment)
    original = {key: frozen[key] for key in _ORIGINAL if key in frozen}
    return replace(
        job,
        run_id=run.run_id,
        warnings=tuple(dict.fromkeys([*frozen["warnings"], *job.warnings])),
        origin=lambda: {**job.origin(), **original, **resumed(frozen, changed, request.question)},
        proven=tuple((frozen.get("fork") or {}).get("proven", ())),
        resume_state=state,
        resume_note=ResumeNote(changed, request.question, tuple(remarks)),
    )


def continued(run: StoredRun, file: SpecialistFile, settings: Specialist, environment: RunEnvironment) -> Job:
    """Return the job of a new run with system prompt, tools and archive of a stored one."""
    frozen = run.frozen
    keeps_archive = any(tool["name"] == GET_TOOL_RESPONSE for tool in frozen["tools"])
    given = replace(environment, keeps_archive=keeps_archive, plan=_plan(run))
    job = spawn(file, settings, run.question, given)
    if job.archive is not None:
        _refill(job.archive, run)
    tools = as_stored(frozen["tools"], job.opening.tools)
    opening = replace(
        job.opening,
        system=frozen["system"],
        tools=tools,
        effort=frozen["effort"],
    )
    warnings = dict.fromkeys([*environment.extra_tools.warnings, *job.context_warnings])
    return replace(job, opening=opening, budget=reserved(job.budget, tools), warnings=tuple(warnings))


def _plan(run: StoredRun) -> TodoList:
    """Return the list of the tool `todo` as the run left it."""
    plan = TodoList()
    for call in sorted(run.calls, key=lambda call: call.at):
        if call.call.name == TODO and not call.is_error:
            plan.take(call.call.arguments)
    return plan


def _refill(archive: Archive, run: StoredRun) -> None:
    """Restore the content of the archive."""
    for call in sorted(run.calls, key=lambda call: call.at):
        archive.add(call.call.id, call.whole)
    if run.snapshot and len(run.snapshot.models) > 1:
        archive.add_names(portable_id)
    # Results of calls that were not run are archived only when they are summarized.
    newest = max((stored.part for stored in run.messages), default=0)
    for block in (block for stored in run.messages if stored.part < newest for block in stored.message.content):
        call_id, text = str(block.get("tool_use_id")), text_of(block.get("content"))
        if block["type"] == "tool_result" and call_id not in archive and text != archived_placeholder(call_id):
            archive.add(call_id, text)


def _check_totals(run: StoredRun, settings: Specialist, state: ResumeState, changed: Sequence[Kind]) -> None:
    for kind in changed:
        limit, used = getattr(settings, kind.key), state.snapshot.used.get(kind, 0)
        if kind is Kind.TOOL_CALLS:
            # Calls that were started count even if they never returned.
            used += state.earlier.cut_off
        if limit is not None and limit < used:
            raise NotResumable(
                f"{kind.key}: {run.run_id} has already used {units.amount(kind, used)}, so its total limit cannot be "
                f"{units.number(kind, limit)}; set a higher one, or none"
            )


def _check_purpose(run: StoredRun, request: ResumeRequest, changed: Sequence[Kind]) -> None:
    if request.question is not None and not request.question.strip():
        raise NotResumable("the question is empty; omit it, or ask a follow-up question")
    if request.question is not None or run.status not in {"answered", "landed"}:
        return
    if run.status == "answered":
        raise NotResumable(f"{run.run_id} is already answered; to ask a follow-up question, add it after the run")
    if not changed:
        raise NotResumable(f"{run.run_id} landed at its limit; set a higher limit, or ask a follow-up question")


def changed_file(run: StoredRun, request: ResumeRequest) -> list[str]:
    """Return a remark if the file has changed; raises NotResumable instead without `force`."""
    original, file = run.frozen["digest"], request.file or Path(run.frozen["file"])
    if not original or (current := digest(file)) == original:
        return []
    if not request.force:
        raise NotResumable(
            f"{file} was changed or deleted since {run.run_id} began; ask the question in a new run, or "
            f"add `force=True` to resume with the original instructions; {digests(original, current)}"
        )
    return [prompts.CHANGED_FILE]


def missing_tools(run: StoredRun, environment: RunEnvironment, request: ResumeRequest) -> list[str]:
    """Return a remark if tools of the program are missing; raises NotResumable instead without `force`."""
    available = {tool.name for tool in environment.tools}
    missing = [name for name in run.frozen["given_tools"] if name not in available]
    if missing and not request.force:
        raise NotResumable(
            f"{run.run_id} uses tools of the program that started it: {', '.join(missing)}; resume it there with "
            "Runner(tools=...), or add `force=True` to resume without them; "
            f"this program has {', '.join(sorted(available)) or 'none'}"
        )
    return [prompts.tools_gone(missing)] if missing else []


def _left_out(run: StoredRun, request: ResumeRequest) -> str:
    """Return a remark if parts of the transcript were omitted; raises NotResumable instead without `force`."""
    if not request.force:
        raise NotResumable(
            f"{run.run_id} contains parts, such as thinking, that only {run.model} accepts; resume it with that model, "
            "or add `force=True` to omit them"
        )
    return prompts.other_model(run.model)


def _needs_user_message(run: StoredRun, state: ResumeState) -> bool:
    """Return True if the transcript ends with the model, so that a user message must precede the next request."""
    ends_with_model = bool(state.messages) and state.messages[-1].role == "assistant"
    return ends_with_model and state.pending is None and run.turns[-1].stop != Stop.PAUSED
