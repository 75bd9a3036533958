"""From a stored run to the job that goes on with it, or the reason why it cannot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from run_specialist import prompts
from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.errors import NotResumable, ToolError
from run_specialist.loop.compaction.turns import summarized
from run_specialist.loop.executed import CallRecord, EarlierCalls
from run_specialist.loop.job import Job, ResumeNote, ResumeState
from run_specialist.loop.spending.account import NOTHING
from run_specialist.loop.spending.child_budget import drawn
from run_specialist.providers.base import Opening
from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Block, Message, Stop, text_of
from run_specialist.spawning.spawner import LIMITS, RunEnvironment, digest, spawn
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.project import project_of
from run_specialist.specialist.resolve import checked
from run_specialist.store.stored import StoredCall, StoredRun, StoredTurn
from run_specialist.tools.archive import Archive
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.respond import NAME as RESPOND

_PLAIN = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input")}


@dataclass(frozen=True)
class ResumeRequest:
    """How a run is to go on."""

    question: str | None = None
    """Asked beside the first one."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """New totals by the keys of a specialist's file; None = no limit."""
    force: bool = False
    """Go on although the file was changed, or another model cannot take all that was said."""


def resume(run: StoredRun, wish: ResumeRequest, around: RunEnvironment) -> Job:
    """Make the job that goes on where a run stands: the same system prompt and tools, byte for byte.

    around: its `tools` must be those that the run was given when it began.
    Raises NotResumable with the reason, and UsageError for a limit that makes no sense, or a folder that is gone.
    """
    frozen = run.frozen
    file, before = begun_with(run)
    given = checked(wish.limits)
    settings = before.model_copy(update={key: getattr(given, key) for key in given.model_fields_set})
    changed = tuple(kind for key, kind in LIMITS.items() if getattr(settings, key) != getattr(before, key))
    past = _past(run, before.tool_calls_limit)
    _check_totals(run, settings, past, changed)
    _check_purpose(run, wish, changed)
    remarks = [*_changed_file(run, wish), *_missing_tools(run, around, wish)]
    if run.model != around.provider.model:
        past, told = _for_another_model(run, past, wish)
        remarks += told
    if not (remarks or changed or wish.question) and _waits_for_us(run, past):
        remarks.append(prompts.GO_ON)
    job = spawn(file, settings, run.question, around)
    if job.archive is not None:
        _refill(job.archive, run)
    kept = {key: frozen[key] for key in ("digest", "given_tools", "parents", "warnings") if key in frozen}
    return replace(
        job,
        run_id=run.run_id,
        opening=Opening(frozen["system"], _same(frozen["tools"], job.opening.tools), frozen["effort"]),
        warnings=tuple(dict.fromkeys([*frozen["warnings"], *around.equipment.warnings])),
        origin={**job.origin, **kept},
        resume_state=past,
        resume_note=ResumeNote(changed, wish.question, tuple(remarks)),
    )


def begun_with(run: StoredRun) -> tuple[SpecialistFile, Specialist]:
    """Return the file and the settings of a run, as they were when it began."""
    # What another version of this program knew, and this one does not, is passed over.
    settings = Specialist.model_validate(run.frozen["settings"], extra="ignore")
    path = Path(run.frozen["file"])
    now = load(path, project_of(path, [Path(run.frozen["root"])])) if settings.mcp_servers else None
    if now and now.specialist and now.digest == run.frozen["digest"]:
        # What is handed to servers stands in the file alone: it may be secret.
        settings = settings.model_copy(update={"mcp_servers": now.specialist.mcp_servers})
    return SpecialistFile(path, settings.name, settings.description, specialist=settings), settings


def _refill(archive: Archive, run: StoredRun) -> None:
    """Put into the archive what was in it."""
    for call in sorted(run.calls, key=lambda call: call.at):
        archive.add(call.call.id, call.whole)
    # The results of calls that were not run are archived by a summary alone.
    newest = max((one.part for one in run.messages), default=0)
    for block in (block for one in run.messages if one.part < newest for block in one.message.content):
        call_id, text = str(block.get("tool_use_id")), text_of(block.get("content"))
        if block["type"] == "tool_result" and call_id not in archive and text != summarized(call_id):
            archive.add(call_id, text)


def _past(run: StoredRun, limit: int | None) -> ResumeState:
    """Return where a run stands.

    limit: of tool calls, as it was.
    """
    standing, pending = _with_children(run), run.pending
    asked = 0 if pending is None else _to_be_run(pending)
    room = asked if limit is None else max(limit - int(standing.used.get(Kind.TOOL_CALLS, 0)), 0)
    part = max((one.part for one in run.messages), default=0)
    return ResumeState(
        standing=standing,
        messages=run.transcript,
        part=part,
        copies=sum(one.copied for one in run.messages if one.part == part),
        earlier=EarlierCalls(
            executed={call.number: _call_record(call) for call in run.calls},
            started=standing.calls,
            cut_off=min(asked, room),
            skipped=standing.skipped,
        ),
        pending=None if pending is None else pending.reply,
        pending_instruction=pending.landing_instruction if pending else None,
        pending_in_landing=bool(pending and pending.landing),
        pending_seconds=pending.seconds if pending else 0,
    )


def _with_children(run: StoredRun) -> RunSnapshot:
    """Return how a run stands, with what was spent by children that never got to tell it."""
    standing = run.standing or NOTHING
    used, total = dict(standing.used), standing.total
    untold = standing.untold(run.children)
    for child in untold:
        total = total.plus(child.usage, child.cost_usd)
        for kind, amount in drawn(child).items() if run.frozen["settings"]["share_budget"] else ():
            used[kind] = used.get(kind, 0) + amount
    return replace(standing, used=used, total=total, children=(*standing.children, *untold))


def _to_be_run(turn: StoredTurn) -> int:
    """Return how many calls of a turn were to be run: none in a landing, and none of one that was cut or answered."""
    works = turn.stop in {Stop.WANTS_TOOLS, Stop.PAUSED} and all(call.name != RESPOND for call in turn.calls)
    return len(turn.calls) if works and not turn.landing else 0


def _call_record(call: StoredCall) -> CallRecord:
    return CallRecord(call.call, call.text, call.is_error, call.truncated, call.note, call.repeated, call.whole)


def _check_totals(run: StoredRun, settings: Specialist, past: ResumeState, changed: Sequence[Kind]) -> None:
    for kind in changed:
        limit, used = getattr(settings, kind.key), past.standing.used.get(kind, 0)
        if kind is Kind.TOOL_CALLS:
            # They were begun, whatever became of them.
            used += past.earlier.cut_off
        if limit is not None and limit < used:
            raise NotResumable(
                f"{kind.key}: {run.run_id} has used {units.amount(kind, used)} already, so its new total cannot be "
                f"{units.number(kind, limit)}; name a larger one, or none"
            )


def _check_purpose(run: StoredRun, wish: ResumeRequest, changed: Sequence[Kind]) -> None:
    if wish.question is not None and not wish.question.strip():
        raise NotResumable("the question is empty; leave it out, or say what else the specialist shall find out")
    if wish.question is not None or run.status not in {"answered", "landed"}:
        return
    if run.status == "answered":
        raise NotResumable(f"{run.run_id} was answered; to ask something more, write the question behind the run")
    if not changed:
        raise NotResumable(f"{run.run_id} landed at its limit; name a larger total for it, or ask something more")


def _changed_file(run: StoredRun, wish: ResumeRequest) -> list[str]:
    was = run.frozen["digest"]
    if not was or digest(Path(run.frozen["file"])) == was:
        return []
    if not wish.force:
        raise NotResumable(
            f"{run.frozen['file']} was changed since {run.run_id} began, or is gone; ask anew, or, to go on with what "
            "it said then, add --force"
        )
    return [prompts.CHANGED_FILE]


def _missing_tools(run: StoredRun, around: RunEnvironment, wish: ResumeRequest) -> list[str]:
    there = {tool.name for tool in around.tools}
    missing = [name for name in run.frozen["given_tools"] if name not in there]
    if missing and not wish.force:
        raise NotResumable(
            f"{run.run_id} was given tools by the program that began it: {', '.join(missing)}; resume it there, with "
            "Runner(tools=...), or, to go on without them, add --force"
        )
    return [prompts.tools_gone(missing)] if missing else []


def _for_another_model(run: StoredRun, past: ResumeState, wish: ResumeRequest) -> tuple[ResumeState, list[str]]:
    """Return the past as another model takes it."""
    messages = tuple(_portable(message) for message in past.messages)
    pending = past.pending and replace(past.pending, content=_plain(past.pending.content))
    if messages == past.messages and pending == past.pending:
        return past, []
    if not wish.force:
        raise NotResumable(
            f"{run.run_id} holds parts, such as thinking, that only {run.model} takes back; leave the model as it was, "
            "or, to go on without it, add --force"
        )
    past = replace(past, messages=messages, part=past.part + 1, copies=len(messages), pending=pending)
    return past, [prompts.other_model(run.model)]


def _portable(message: Message) -> Message:
    if message.role == "user":
        return message
    blocks = _plain(message.blocks) or ({"type": "text", "text": prompts.LEFT_OUT},)
    return message if blocks == message.blocks else replace(message, blocks=blocks)


def _plain(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return what every model takes back: texts and calls, and of those nothing but what makes them."""
    return tuple(
        {key: block[key] for key in _PLAIN[block["type"]] if key in block}
        for block in blocks
        if block["type"] in _PLAIN
    )


def _waits_for_us(run: StoredRun, past: ResumeState) -> bool:
    """Tell whether the model had the last word, so that something must be said before it is asked again."""
    ended = bool(past.messages) and past.messages[-1].role == "assistant"
    return ended and past.pending is None and run.turns[-1].stop != Stop.PAUSED


def _same(definitions: Sequence[Mapping[str, Any]], tools: Toolset) -> Toolset:
    """Return the tools as they were defined, with the functions of today."""
    return Toolset(_as_defined(definition, tools.get(definition["name"])) for definition in definitions)


def _as_defined(definition: Mapping[str, Any], tool: Tool | None) -> Tool:
    name, description, schema = definition["name"], definition["description"], definition["input_schema"]
    if tool is None:
        return Tool(name, description, _gone, schema=schema)
    return replace(tool, description=description, schema=schema)


def _gone(**arguments: Any) -> str:  # noqa: ANN401 - whatever the model gives
    del arguments
    raise ToolError("this tool is no longer there")
