"""Make the job that resumes a stored run, or that of a fork: a new run that begins with the first turns of another."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from run_specialist import budget, prompts
from run_specialist.budget import Kind
from run_specialist.errors import NotResumable, SpecialistNotFound, UsageError
from run_specialist.loop import transcript
from run_specialist.loop.account import NOT_STARTED, drawn
from run_specialist.loop.compaction import archived_placeholder, characters, tokens
from run_specialist.loop.evidence import ReturnReason
from run_specialist.loop.evidence import proven as proven_by
from run_specialist.loop.job import CallRecord, EarlierCalls, ForkedFrom, Job, ResumeNote, ResumeState
from run_specialist.providers.base import Opening
from run_specialist.record.journal import Checkpointed, Received, Record, Returned, RunSnapshot
from run_specialist.record.messages import Message, Stop, Usage, counted, encode, sendable, server_calls, text_of
from run_specialist.spawning import spawner
from run_specialist.spawning.server_tools import reserved
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import project_of
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.settings import checked, overridden
from run_specialist.specialist.tool_names import GET_TOOL_RESPONSE, RESPOND
from run_specialist.store.rows import KnownRun, file_change
from run_specialist.store.stored import MARK, StoredMessage, StoredRun
from run_specialist.tools.archive import Archive
from run_specialist.tools.planning import TODO, TodoList

# Stored values that a resumption does not change.
_ORIGINAL = ("digest", "given_tools", "parents", "warnings", "given", "fork", "overridden")


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
    at: int | None = None
    """Number of turns to copy to a new run, a fork; 0 = only the question, None = the run itself is resumed."""


def resume(run: StoredRun, request: ResumeRequest, environment: spawner.RunEnvironment) -> Job:
    """Return the job that resumes a run, with the same system prompt and tools, byte for byte.

    environment: with the `tools` that the run was started with.
    Raises NotResumable with the reason, and UsageError for an invalid limit or a missing folder.
    """
    frozen = run.frozen
    file, before = begun_with(run, request.file, environment.root)
    given = checked(request.limits)
    state = state_when_stopped(run, before.tool_calls_limit)
    # Calls that were started count even if they never returned.
    used = state.snapshot.used
    used = {**used, Kind.TOOL_CALLS: used.get(Kind.TOOL_CALLS, 0) + state.earlier.cut_off}
    question, refreshed = request.question, dict(frozen.get("refreshed", {}))
    totals = {key: getattr(given, key) for key in given.model_fields_set}
    if question is not None:
        fresh, refreshed = fresh_totals(run, before, used, given.model_fields_set)
        totals = fresh | totals
    settings = before.model_copy(update=totals)
    changed = tuple(kind for key, kind in spawner.LIMITS.items() if getattr(settings, key) != getattr(before, key))
    check_totals(f"{run.run_id} has already", settings, used, changed)
    if question is None and run.status == "answered":
        raise NotResumable(f"{run.run_id} is already answered; to ask a follow-up question, add it after the run")
    if question is None and run.status == "landed" and not changed:
        raise NotResumable(f"{run.run_id} landed at its limit; set a higher limit, or ask a follow-up question")
    remarks = differing(run, request, environment)
    if run.model != environment.provider.model and (adapted := for_other_model(state)) is not state:
        state = adapted
        if not request.force:
            raise NotResumable(
                f"{run.run_id} contains parts, such as thinking, that only {run.model} accepts; "
                "resume it with that model, or add `force=True` to omit them"
            )
        remarks.append(prompts.other_model(run.model))
    # If the transcript ends with the model, a user message must precede the next request.
    ends_with_model = state.messages and state.messages[-1].role == "assistant" and state.pending is None
    if ends_with_model and not (remarks or changed or question) and run.turns[-1].reply.stop != Stop.PAUSED:
        remarks.append(prompts.GO_ON)
    job = continued(run, file, settings, environment, refreshed)
    origin = stored_origin(job, run, _ORIGINAL, refreshed)
    limits = sorted({*frozen["changed_limits"], *(kind.key for kind in changed)})
    warnings = tuple(dict.fromkeys([*frozen["warnings"], *job.warnings]))
    job = replace(job, run_id=run.run_id, warnings=warnings, origin=lambda: {**origin, "changed_limits": limits})
    further = (*frozen.get("questions", ()), *([question] if question else []))
    proven = tuple((frozen.get("fork") or {}).get("proven", ()))
    note = ResumeNote(changed, question, tuple(remarks))
    return replace(job, further=further, proven=proven, resume_state=state, resume_note=note)


def fresh_totals(
    run: StoredRun, settings: Specialist, used: Mapping[str, float], given: Collection[str]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Return new totals for a further question, and the amounts used before it.

    Each limit of the first question is granted again; where more is left of a raised limit, that total stays.
    settings: the limits so far.
    given: keys that have another new total.
    """
    totals: dict[str, Any] = {}
    refreshed: dict[str, float] = {}
    for key, kind in spawner.LIMITS.items():
        total, spent = getattr(settings, key), used.get(kind, 0)
        first = run.frozen.get("begun_limits", {}).get(key, total)
        if key not in given:
            fresh = None if total is None or first is None else max(total, first + spent)
            totals[key] = fresh if fresh is None or kind in {Kind.TIME, Kind.COST} else int(fresh)
            refreshed[kind.value] = spent
    return totals, refreshed


def continued(
    run: StoredRun,
    file: SpecialistFile,
    settings: Specialist,
    environment: spawner.RunEnvironment,
    refreshed: Mapping[str, float],
) -> Job:
    """Return the job of a new run with system prompt, tools and archive of a stored one.

    refreshed: as in `Budget.refreshed`.
    """
    frozen = run.frozen
    keeps_archive = any(tool["name"] == GET_TOOL_RESPONSE for tool in frozen["tools"])
    # The list of the tool `todo` as the run left it.
    plan = TodoList()
    for call in sorted(run.calls, key=lambda call: call.at):
        if call.call.name == TODO and not call.is_error:
            plan.take(call.call.arguments)
    given = replace(environment, keeps_archive=keeps_archive, plan=plan)
    job = spawner.spawn(file, settings, run.first_question, given)
    if job.archive is not None:
        _refill(job.archive, run)
    tools = spawner.as_stored(frozen["tools"], job.opening.tools)
    opening = replace(job.opening, system=frozen["system"], tools=tools, effort=frozen["effort"])
    warnings = dict.fromkeys([*environment.extra_tools.warnings, *job.context_warnings])
    return replace(
        job, opening=opening, budget=reserved(job.budget.refreshed(refreshed), tools), warnings=tuple(warnings)
    )


def _refill(archive: Archive, run: StoredRun) -> None:
    """Restore the content of the archive."""
    for call in sorted(run.calls, key=lambda call: call.at):
        archive.add(call.call.id, call.whole)
    if run.snapshot and len(run.snapshot.models) > 1:
        archive.add_names(transcript.portable_id)
    # Results of calls that were not run are archived only when they are summarized.
    newest = max((stored.part for stored in run.messages), default=0)
    for block in (block for stored in run.messages if stored.part < newest for block in stored.message.content):
        call_id, text = str(block.get("tool_use_id")), text_of(block.get("content"))
        if block["type"] == "tool_result" and call_id not in archive and text != archived_placeholder(call_id):
            archive.add(call_id, text)


def stored_origin(job: Job, run: StoredRun, kept: Sequence[str], refreshed: Mapping[str, float]) -> Mapping[str, Any]:
    """Return what is stored about the origin of a job that continues a run.

    kept: values of the run that do not change.
    refreshed: as in `Budget.refreshed`.
    """
    frozen, origin = run.frozen, job.origin()
    # By these a resumed run is recognized when it is taken up.
    first = {**frozen["settings"], **frozen.get("begun_limits", {})}
    begun = {key: first[key] for key in spawner.LIMITS if key in first and first[key] != origin["settings"][key]}
    return {
        **origin,
        **{key: frozen[key] for key in kept if key in frozen},
        **({"begun_limits": begun} if begun else {}),
        **({"refreshed": refreshed} if refreshed else {}),
    }


def check_totals(whose: str, settings: Specialist, used: Mapping[str, float], kinds: Iterable[Kind]) -> None:
    """Raise NotResumable if a limit is below what has been used already.

    whose: the run or the turns that have used it.
    """
    for kind in kinds:
        limit, spent = getattr(settings, kind.key), used.get(kind, 0)
        if limit is not None and limit < spent:
            raise NotResumable(
                f"{kind.key}: {whose} used {budget.amount(kind, spent)}, so its total limit cannot be "
                f"{budget.number(kind, limit)}; set a higher one, or none"
            )


def differing(run: StoredRun, request: ResumeRequest, environment: spawner.RunEnvironment) -> list[str]:
    """Return remarks about a changed file and missing tools of the program; without `force`, raise NotResumable."""
    original, file = run.frozen["digest"], request.file or Path(run.frozen["file"])
    remarks = []
    if original and (current := spawner.digest(file)) != original:
        remarks.append(prompts.CHANGED_FILE)
        if not request.force:
            raise NotResumable(
                f"{file} was changed or deleted since {run.run_id} began; ask the question in a new run, or "
                f"add `force=True` to resume with the original instructions; {spawner.digests(original, current)}"
            )
    available = {tool.name for tool in environment.tools}
    if missing := [name for name in run.frozen["given_tools"] if name not in available]:
        remarks.append(prompts.tools_gone(missing))
        if not request.force:
            raise NotResumable(
                f"{run.run_id} uses tools of the program that started it: {', '.join(missing)}; resume it there with "
                "Runner(tools=...), or add `force=True` to resume without them; "
                f"this program has {', '.join(sorted(available)) or 'none'}"
            )
    return remarks


def models_left(run: StoredRun) -> tuple[str, ...]:
    """Return the model of a stored run, and its remaining fallbacks."""
    known = [str(one) for one in run.frozen.get("models", ())]
    following = known[known.index(run.model) + 1 :] if run.model in known else []
    return (run.model, *following)


def begun_with(run: StoredRun, file: Path | None = None, root: Path | None = None) -> tuple[SpecialistFile, Specialist]:
    """Return the file and the settings with which a run began.

    file, root: the specialist's file and the folder with which the run continues; None = the original ones.
    """
    # Settings from another version of this program may have keys that this version does not know.
    settings = Specialist.model_validate(run.frozen["settings"], extra="ignore")
    if isinstance(settings.output_schema, str):
        # A run stores the schema itself; the path of one could lead to any file.
        raise NotResumable(f"{run.run_id}: its stored output_schema is not a schema")
    # The others are defaults, which follow from the model that the run is resumed with.
    settings.model_fields_set.intersection_update(run.frozen.get("given", settings.model_fields_set))
    path = file or Path(run.frozen["file"])
    current = load(path, project_of(path, [root or Path(run.frozen["root"])])) if settings.mcp_servers else None
    if current and current.specialist and current.digest == run.frozen["digest"]:
        # Values that may be secret, such as headers of MCP servers, are masked in the store: take them from the file.
        settings = settings.model_copy(update={"mcp_servers": current.specialist.mcp_servers})
    return SpecialistFile(path, settings.name, settings.description, specialist=settings), settings


def for_other_model(state: ResumeState, *, also_written: bool = False) -> ResumeState:
    """Return the state without the parts that only the first model accepts; the same object if there are none.

    also_written: also remove thinking that a server wrote at the beginning of the text.
    """
    messages = transcript.portable_messages(state.messages, also_written=also_written)
    pending = state.pending
    if pending:
        content = transcript.portable_blocks(pending.reply.content)
        pending = replace(pending, reply=replace(pending.reply, content=content))
    if messages == state.messages and pending == state.pending:
        return state
    # The adapted transcript is stored as a new part, all of it copied.
    return replace(state, messages=messages, part=state.part + 1, copies=len(messages), pending=pending)


def run_with_portable_ids(run: StoredRun) -> StoredRun:
    """Return a run in which all calls have ids for another model."""
    contents = (tuple(map(transcript.renamed, turn.reply.content)) for turn in run.turns)
    turns = (replace(one, reply=replace(one.reply, content=new)) for one, new in zip(run.turns, contents, strict=True))
    calls = []
    for one in run.calls:
        arguments = transcript.renamed_arguments(one.call.arguments)
        call = replace(one.call, id=transcript.portable_id(one.call.id), arguments=arguments)
        calls.append(replace(one, call=call, note=transcript.renamed_text(one.note)))
    messages = (replace(one, message=transcript.with_portable_ids([one.message])[0]) for one in run.messages)
    return replace(run, turns=tuple(turns), calls=tuple(calls), messages=tuple(messages))


def state_when_stopped(run: StoredRun, limit: int | None) -> ResumeState:
    """Return the state in which a run ended or was interrupted.

    limit: the limit of tool calls before the run is resumed.
    """
    snapshot, pending = _with_children(run), run.pending
    events = (event.body for event in run.events)
    changes = tuple(change for body in events if (change := file_change(body)))
    state = replace(state_after_turns(run), snapshot=snapshot, changes=changes)
    if pending is None:
        return state
    to_run = _calls_to_run(pending, snapshot)
    used = int(snapshot.used.get(Kind.TOOL_CALLS, 0)) + counted(pending.reply.content)
    affordable = to_run if limit is None else max(limit - used, 0)
    return replace(state, earlier=replace(state.earlier, cut_off=min(to_run, affordable)), pending=pending)


def state_after_turns(run: StoredRun) -> ResumeState:
    """Return the state after the turns of a run that were acted upon."""
    snapshot = run.snapshot or NOT_STARTED
    part = max((stored.part for stored in run.messages), default=0)
    executed = {
        one.number: CallRecord(one.call, one.text, one.is_error, one.truncated, one.note, one.repeated, one.whole)
        for one in run.calls
    }
    copies = sum(stored.copied for stored in run.messages if stored.part == part)
    earlier = EarlierCalls(executed, started=snapshot.calls, skipped=snapshot.skipped)
    return ResumeState(snapshot, run.transcript, part, copies, earlier)


def _with_children(run: StoredRun) -> RunSnapshot:
    """Return the last snapshot of a run, with the spending of children that ended after it."""
    snapshot = run.snapshot or NOT_STARTED
    used, total = dict(snapshot.used), snapshot.total
    missing = snapshot.missing_children(run.children)
    for child in missing:
        total = total.plus(child.usage, child.cost_usd)
        for kind, amount in drawn(child).items() if run.frozen["settings"]["share_budget"] else ():
            used[kind] = used.get(kind, 0) + amount
    return replace(snapshot, used=used, total=total, children=(*snapshot.children, *missing))


def _calls_to_run(turn: Received, snapshot: RunSnapshot) -> int:
    """Return how many calls of a turn may have been run: none in a landing or if truncated.

    Calls beside an answer may have been run once; the loop decides this again, see `Loop`.
    """
    answers = sum(call.name == RESPOND for call in turn.reply.calls)
    if turn.landing or turn.reply.stop not in {Stop.WANTS_TOOLS, Stop.PAUSED}:
        return 0
    return 0 if answers and ReturnReason.TOO_EARLY in snapshot.returned else len(turn.reply.calls) - answers


def place_of(run: StoredRun, root: Path, registry: Registry, *, force: bool = False) -> tuple[Path, Path]:
    """Return the folder and the specialist's file with which a run continues.

    The folder is the original one, or `root` if that does not exist here.

    root: the folder that the caller named, or the current project; others may have written to the store, so the run
        cannot choose a folder outside of it.
    registry: where the specialist is looked up by its name, if its file is not where it was.
    force: accept a specialist with another content.
    Raises NotResumable for another folder, and if the specialist found here is not the same.
    """
    begun, file = Path(run.frozen["root"]), Path(run.frozen.get("file", ""))
    has_root, content = begun.is_dir(), run.frozen.get("digest", "")
    if has_root and not Path(os.path.realpath(begun)).is_relative_to(os.path.realpath(root)):
        where = shown(str(begun), None)
        raise NotResumable(
            f"{run.run_id} began in {where}, which is not in the current project; to let it read the files there, add "
            f"`root={where}`"
        )
    if has_root and (not content or spawner.digest(file) == content):
        return begun, file
    found, why = None, ""
    if content:
        try:
            found = registry.find(run.specialist)
        except SpecialistNotFound as error:
            why = f"; to continue in another one, its specialist must be there: {error}"
    if found is not None and (found.digest == content or (force and not has_root)):
        return (begun if has_root else root), found.path
    if has_root:
        return begun, file
    if found is not None:
        why = f", and {found.path} is another specialist: {spawner.digests(content, found.digest)}"
    raise NotResumable(f"{run.run_id}: its working folder {begun} no longer exists{why}")


SHOWN = 60
"""Maximum length of a value in an error [characters]."""


def check_same(known: KnownRun, file: SpecialistFile, settings: Specialist, question: str, *, force: bool) -> None:
    """Raise UsageError with each difference unless a stored run has this question and this specialist.

    force: ignore a changed file and other settings; another question or specialist is always another run.
    """
    found: list[tuple[str, Any, Any]] = [
        ("question", known.frozen.get("first_question", known.question), question),
        ("specialist", known.specialist, settings.name),
    ]
    frozen, current = known.frozen, file.digest or spawner.digest(file.path)
    is_same_file = frozen["digest"] == current
    if not force and is_same_file:
        begun = Specialist.model_validate(frozen["settings"], extra="ignore")
        stored = spawner.settings_of(begun, None) | frozen.get("begun_limits", {})
        stored["output_schema"] = frozen["settings"].get("output_schema")
        wanted = spawner.settings_of(settings, spawner.answer_schema(file, settings))
        # Settings that were not given depend on the model and the version of this program.
        given = settings.model_fields_set | {*frozen.get("given", begun.model_fields_set)}
        resolved = {key for key in spawner.RESOLVED_AUTO if wanted[key] == "auto"}
        found += [(key, stored.get(key), wanted[key]) for key in sorted((given & wanted.keys()) - resolved)]

    def short(value: object) -> str:
        return "none" if value is None else shown(str(value), SHOWN)

    differences = [f"{name} was {short(then)} and is {short(now)}" for name, then, now in found if then != now]
    if not (force or is_same_file):
        differences.append(f"{file.path} has another content, {spawner.digests(frozen['digest'], current)}")
    if differences:
        raise UsageError(f"{known.run_id} is stored as another run: {'; '.join(differences)}; use another id")


# Extract the first turns of a stored run, as it was before its next request. Pure.
#
# A turn is a reply of the model with the results of its calls. The part of the transcript in which the reply was added
# is kept as it was then, without later summaries.


Note = Mapping[str, Any]
"""A note about a resumption or a fork that was added to a message: its `text`, and `after`, the number of replies that
had arrived before it."""


@dataclass(frozen=True, slots=True)
class FirstTurns:
    """The beginning of a run."""

    run: StoredRun
    """The run with only its first turns: no outcome, no events, and a snapshot without tokens, cost and time."""
    last: Received | None
    """The newest turn in its transcript; None if that is only the question."""
    notes: Sequence[Note]
    """The notes in the transcript, in order."""
    left_out: Sequence[Note]
    """The notes after these turns, which were removed because they concern later turns."""

    @property
    def is_answered(self) -> bool:
        """Whether the last turn ended the run with an answer, so that the fork needs a new question."""
        if self.last is None:
            return False
        newest = self.run.messages[-1].message
        if newest.role == "assistant":
            return self.last.reply.stop not in {Stop.PAUSED, Stop.TRUNCATED}
        # A text after the results is a further question, whose reply was cut.
        are_results = all(block["type"] == "tool_result" for block in newest.blocks)
        return are_results and any(text_of(block["content"]) == prompts.DELIVERED for block in newest.blocks)


def first_turns(run: StoredRun, at: int) -> FirstTurns:
    """Return a run as it was after its first turns.

    at: number of turns; 0 = only the question.
    Raises NotResumable if the run has fewer turns, or if they are not stored completely.
    """
    done = run.snapshot.turns if run.snapshot else 0
    if not 0 <= at <= done:
        # A reply that was not acted upon is no turn yet.
        raise NotResumable(f"`at={at}`: {run.run_id} has {budget.amount(Kind.TURNS, done)}; use 0 to {done}")
    turns = [turn for turn in run.turns if turn.number <= at]
    entered = _entered(run.messages, turns)
    first = run.messages[0] if run.messages else None
    last, begin = entered[-1] if entered else (None, first)
    if begin is None:
        raise NotResumable(f"{run.run_id}: its question is not stored, so it cannot be forked")
    calls = tuple(call for call in run.calls if call.turn <= at)
    if any(call.turn > (last.number if last else 0) for call in calls):
        raise NotResumable(f"{run.run_id}: turn {at} is not stored completely; use a smaller number of turns")
    copied = run.frozen.get("fork") or {}
    notes: list[Note] = [*copied.get("notes", ())]
    notes += [{"text": copied["note"], "after": copied["at"]}] if copied else []
    for event in run.events:
        if event.body.get("event") == "resumed":
            before = max((turn.number for turn in run.turns if turn.at <= event.at), default=0)
            notes.append({"text": str(event.body.get("note") or ""), "after": before})
    notes = [note for note in notes if note["text"]]
    left_out = [note for note in notes if note["after"] >= at]
    # What followed the reply: results, an objection to an answer, or a follow-up question.
    place = (begin.part, begin.place + (last is not None))
    tail = next((one for one in run.messages if (one.part, one.place) == place and one.message.role == "user"), None)
    if tail is not None:
        # The next message is sent without the later notes and without the old landing instruction.
        late = {note["text"] for note in left_out}
        blocks = tuple(one for one in tail.message.blocks if one["type"] != "text" or one["text"] not in late)
        tail = replace(tail, message=replace(tail.message, blocks=blocks, landing_instruction=None))
    if last is not None and last.reply.calls and tail is None:
        raise NotResumable(f"{run.run_id}: the results of turn {last.number} are not stored; use `at={at - 1}`")
    kept = [one for one in run.messages if (one.part, one.place) <= (begin.part, begin.place)]
    if last is None:
        # The question is the tail.
        kept.pop()
    if tail is not None and tail.message.blocks:
        kept.append(tail)
    snapshot = _snapshot(at, turns, calls, [turn for turn, _ in entered])
    beginning = replace(run, snapshot=snapshot, turns=tuple(turns), calls=calls, messages=tuple(kept))
    beginning = replace(beginning, outcome=None, ended_at=None, events=(), children=())
    return FirstTurns(beginning, last, [note for note in notes if note["after"] < at], left_out)


def _snapshot(
    at: int, turns: Sequence[Received], calls: Sequence[Returned], entered: Sequence[Received]
) -> RunSnapshot:
    """Return the state of a run after its first turns, without tokens, cost and time.

    entered: the turns that became history.
    """
    last_call, usages = max((call.number for call in calls), default=0), [turn.reply.usage for turn in turns]
    # Calls that the API still has to run count against the limit, but have no number.
    answered = {call.call.id for call in calls}
    made = (use for turn in turns for use in server_calls(turn.reply.content))
    executed = {(call.turn, call.call.id) for call in calls}
    asked = ((turn, call) for turn in entered for call in turn.reply.calls)
    return RunSnapshot(
        used={
            Kind.TOOL_CALLS.value: last_call + sum(use.result is None and use.call.id not in answered for use in made),
            Kind.TURNS.value: at,
            Kind.CHARACTERS.value: sum(len(call.text) for call in calls),
        },
        largest_input=max((one.total_tokens - one.output_tokens for one in usages), default=0),
        largest_request=max((one.total_tokens for one in usages), default=0),
        calls=last_call,
        skipped=sum(call.name != RESPOND and (turn.number, call.id) not in executed for turn, call in asked),
        history_tokens=entered[-1].reply.usage.total_tokens if entered else 0,
        last_text=next((turn.reply.text for turn in reversed(turns) if turn.reply.text), ""),
    )


def _entered(messages: Sequence[StoredMessage], turns: Sequence[Received]) -> list[tuple[Received, StoredMessage]]:
    """Return the turns in the history, each with its message; a reply that was cut may be missing there."""
    found: list[tuple[Received, StoredMessage]] = []
    following = 0
    for one in messages:
        if one.copied or one.message.role != "assistant":
            continue
        blocks = list(map(dict, one.message.blocks))
        same = (
            at for at in range(following, len(turns)) if list(map(dict, sendable(turns[at].reply.content))) == blocks
        )
        if (at := next(same, None)) is not None:
            found.append((turns[at], one))
            following = at + 1
    return found


def fork(run: StoredRun, request: ResumeRequest, environment: spawner.RunEnvironment) -> tuple[Job, tuple[Record, ...]]:
    """Return a new run that continues after the first turns of a stored one, which is only read.

    Also returns what is stored before its first request: the turns, calls and messages that it begins with.
    System prompt and tools are those of the stored run, byte for byte.
    request: `limits` may also contain `preset` and `landing`.
    environment: with the `tools` that the run was started with.
    Raises NotResumable with the reason, and UsageError for an invalid setting.
    """
    provider, question, at = environment.provider, request.question, request.at or 0
    file, before = begun_with(run, request.file, environment.root)
    begin = first_turns(run, at)
    asked = [q for q in run.frozen.get("questions", ()) if any(prompts.ASKS + q in one["text"] for one in begin.notes)]
    if not asked:
        # The limits as they were before further questions raised them.
        raised, first = run.frozen.get("refreshed", {}), run.frozen.get("begun_limits", {})
        before = before.model_copy(update={key: first[key] for key in first if spawner.LIMITS[key].value in raised})
    settings = overridden(before, request.limits)
    if question is None and begin.is_answered:
        raise NotResumable(
            f"`at={at}`: turn {at} of {run.run_id} is its answer; add a further question, or use `at={at - 1}` to have "
            "it answered again"
        )
    used = begin.run.snapshot.used if begin.run.snapshot else {}
    refreshed: dict[str, float] = {}
    if question is not None:
        fresh, refreshed = fresh_totals(run, settings, used, request.limits)
        settings = settings.model_copy(update=fresh)
    # Without the note about it, the model does not know of a limit that was changed after these turns.
    known = run.frozen.get("begun_limits", {}) if begin.left_out else {}
    now = {key: getattr(settings, key) for key in spawner.LIMITS}
    changed = tuple(
        kind
        for key, kind in spawner.LIMITS.items()
        if now[key] != getattr(before, key) or (key in known and now[key] != known[key])
    )
    remarks = differing(run, request, environment)
    # Replies of another model may be in it even if the run has continued with this one.
    author = run.model if begin.last is None else run.model_of(begin.last.number)
    is_other = provider.model != author
    copied = run_with_portable_ids(begin.run) if is_other else begin.run
    state = state_after_turns(copied)
    turns = "the first turn" if at == 1 else f"the first {at} turns"
    check_totals(f"{turns} of {run.run_id}", settings, used, Kind)
    warnings = [f"forked from {run.run_id} at its question"]
    if at:
        calls = f"{budget.amount(Kind.TOOL_CALLS, len(copied.calls))} and {budget.amount(Kind.TURNS, at)}"
        copy = f"{turns} of {run.run_id} {'is' if at == 1 else 'are'} copied"
        warnings = [f"{copy}: {calls} count against the limits, their tokens, cost and time do not"]
    if is_other:
        if lost := transcript.lost_parts(state.messages):
            remarks.append(prompts.other_model(author))
            warnings.append(f"{lost} of {author} were left out, because {provider.model} cannot use them")
        state = for_other_model(state, also_written=True)
    job = continued(copied, file, settings, environment, refreshed)
    left = job.budget.spend_all({kind: used.get(kind, 0) for kind in Kind})
    if not (remarks or changed or question) and state.messages[-1].role == "assistant":
        # A turn that the API has paused is sent back unchanged.
        is_paused = begin.last is not None and begin.last.reply.stop == Stop.PAUSED
        remarks = [] if is_paused and not is_other else [prompts.GO_ON]
    note = prompts.resumed(left, changed, question, remarks)
    # The most expensive request determines the reserve.
    cold, price, dearest = None, None, max((turn.cost_usd or 0 for turn in copied.turns), default=0)
    if is_other and provider.capabilities.is_language_model:
        cold = _cold_tokens(job.opening, state)
        price = provider.cost(Usage(input_tokens=cold))
        dearest = price or 0
    state = _noted(replace(state, snapshot=replace(state.snapshot, dearest_request=dearest)), note)
    source = ForkedFrom(run.run_id, at, author, note, cold, price)
    origin = stored_origin(job, run, ("digest", "given_tools", "parents"), refreshed)
    # The quotes verified by child runs whose answers were copied, if these contain them.
    answers = [call.whole for call in copied.calls if job.opening.tools.runs_child(call.call.name)]
    children = (*(run.snapshot.children if run.snapshot else ()), *run.children)
    quotes = [*(run.frozen.get("fork") or {}).get("proven", ()), *(one.quote for one in proven_by(children))]
    proven = tuple(dict.fromkeys(quote for quote in quotes if any(quote in answer for answer in answers)))
    stored = {"run_id": run.run_id, "at": at, "model": author, "note": note, "notes": [*begin.notes]}
    # Each copied message counts once.
    stored |= {"proven": [*proven], "messages": sum(not one.copied for one in copied.messages)}
    warnings = [*job.warnings, *warnings]
    asked += [question] if question else []
    job = replace(job, run_id=spawner.new_run_id(MARK), parent_id=None, forked_from=source, resume_state=state)
    job = replace(job, further=tuple(asked), proven=proven, warnings=tuple(warnings))
    job = replace(job, origin=lambda: {**origin, "warnings": warnings, "fork": stored})
    checkpoint = Checkpointed(state.part, 0, state.messages, state.copies, state.snapshot)
    return job, (*copied_records(copied), checkpoint)


def _noted(state: ResumeState, note: str) -> ResumeState:
    """Return the state with a note at the end of the next message."""
    if not note:
        return state
    *earlier, last = state.messages
    if last.role == "user":
        messages = (*earlier, replace(last, blocks=(*last.blocks, *Message.user(note).blocks)))
    else:
        messages = (*state.messages, Message.user(note))
    copies = len(messages) if state.copies == len(state.messages) else state.copies
    return replace(state, messages=messages, copies=copies)


def _cold_tokens(opening: Opening, state: ResumeState) -> int:
    """Return the estimated input of the first request [tokens]."""
    if known := state.snapshot.history_tokens:
        return known + tokens(characters(state.messages[-1:] if state.messages[-1].role == "user" else ()))
    front = len(opening.system) + sum(len(encode(tool.definition)) for tool in opening.tools)
    return tokens(front + characters(state.messages))


def copied_records(begin: StoredRun) -> Iterator[Record]:
    """Yield the records of the copied turns, with the times and prices of the run that made them."""
    yield from begin.turns
    yield from begin.calls
    assert begin.snapshot is not None  # noqa: S101 - `first_turns` makes one
    for part, group in groupby(begin.messages, key=lambda one: one.part):
        stored = [*group]
        copies = sum(one.copied for one in stored)
        yield Checkpointed(part, 0, tuple(one.message for one in stored), copies, begin.snapshot)
