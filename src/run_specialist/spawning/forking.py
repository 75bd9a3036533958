"""Make the job of a fork from the first turns of a stored run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from run_specialist import budget as units
from run_specialist import prompts
from run_specialist.budget import Kind
from run_specialist.errors import NotResumable
from run_specialist.loop.compaction import characters, tokens
from run_specialist.loop.evidence import proven as proven_by
from run_specialist.loop.job import ForkedFrom, Job, ResumeState
from run_specialist.loop.transcript import lost_parts
from run_specialist.providers.base import Opening, Provider
from run_specialist.record.journal import Checkpointed, Received, Record, Returned, RunSnapshot
from run_specialist.record.messages import Message, Stop, Usage, encode, sendable, server_calls, text_of
from run_specialist.spawning.resuming import (
    ResumeRequest,
    begun_with,
    changed_file,
    continued,
    for_other_model,
    missing_tools,
    state_after_turns,
    with_own_ids,
)
from run_specialist.spawning.spawner import LIMITS, RunEnvironment, new_run_id
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.settings import overridden
from run_specialist.store.stored import MARK, StoredMessage, StoredRun
from run_specialist.tools.respond import NAME as RESPOND

# Extract the first turns of a stored run, as it was before its next request. Pure.
#
# A turn is a reply of the model with the results of its calls. The part of the transcript in which the reply was added
# is kept as it was then, without later summaries.


@dataclass(frozen=True, slots=True)
class Note:
    """A note about a resumption or a fork that was added to a message."""

    after: int
    """Number of replies that had arrived before it."""
    text: str


@dataclass(frozen=True, slots=True)
class FirstTurns:
    """The beginning of a run."""

    run: StoredRun
    """The run with only its first turns: no outcome, no events, and a snapshot without tokens, cost and time."""
    last: Received | None
    """The newest turn in its transcript; None if that is only the question."""
    notes: tuple[Note, ...]
    """The notes in the transcript, in order."""
    left_out: tuple[Note, ...]
    """The notes after these turns, which were removed because they concern later turns."""

    @property
    def is_paused(self) -> bool:
        """Whether the API paused the last turn, so that it must be sent back unchanged."""
        return self.last is not None and self.last.reply.stop == Stop.PAUSED

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
    _check_number(run, at)
    turns = [turn for turn in run.turns if turn.number <= at]
    entered = _entered(run.messages, turns)
    first = run.messages[0] if run.messages else None
    last, begin = entered[-1] if entered else (None, first)
    if begin is None:
        raise NotResumable(f"{run.run_id}: its question is not stored, so it cannot be forked")
    calls = tuple(call for call in run.calls if call.turn <= at)
    if any(call.turn > (last.number if last else 0) for call in calls):
        raise NotResumable(f"{run.run_id}: turn {at} is not stored completely; use a smaller number of turns")
    notes = _notes(run)
    left_out = tuple(note for note in notes if note.after >= at)
    # What followed the reply: results, an objection to an answer, or a follow-up question.
    place = (begin.part, begin.place + (last is not None))
    tail = next((one for one in run.messages if (one.part, one.place) == place and one.message.role == "user"), None)
    if tail is not None:
        # The next message is sent without the later notes and without the old landing instruction.
        late = {note.text for note in left_out}
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
    beginning = replace(
        run,
        snapshot=_snapshot(at, turns, calls, [turn for turn, _ in entered]),
        outcome=None,
        ended_at=None,
        turns=tuple(turns),
        calls=calls,
        messages=tuple(kept),
        events=(),
        children=(),
    )
    return FirstTurns(beginning, last, tuple(note for note in notes if note.after < at), left_out)


def _snapshot(
    at: int, turns: Sequence[Received], calls: Sequence[Returned], entered: Sequence[Received]
) -> RunSnapshot:
    """Return the state of a run after its first turns, without tokens, cost and time.

    entered: the turns that became history.
    """
    last_call = max((call.number for call in calls), default=0)
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
        largest_input=max(
            (turn.reply.usage.total_tokens - turn.reply.usage.output_tokens for turn in turns), default=0
        ),
        largest_request=max((turn.reply.usage.total_tokens for turn in turns), default=0),
        calls=last_call,
        skipped=sum(call.name != RESPOND and (turn.number, call.id) not in executed for turn, call in asked),
        history_tokens=entered[-1].reply.usage.total_tokens if entered else 0,
        last_text=next((turn.reply.text for turn in reversed(turns) if turn.reply.text), ""),
    )


def _check_number(run: StoredRun, at: int) -> None:
    done = run.snapshot.turns if run.snapshot else 0
    if at < 0:
        raise NotResumable(f"`at={at}`: the number of turns must be 0 or more")
    if at <= done:
        return
    if at <= len(run.turns):
        raise NotResumable(
            f"`at={at}`: turn {at} of {run.run_id} was not finished; use `at={done}`, or resume that run first"
        )
    has = "no turns" if not done else "1 turn" if done == 1 else f"{done} turns"
    raise NotResumable(f"`at={at}`: {run.run_id} has {has}; use {'`at=0`' if not done else f'0 to {done}'}")


def _notes(run: StoredRun) -> list[Note]:
    """Return the notes that the model has read, in order, including those from before an earlier fork."""
    copied = run.frozen.get("fork") or {}
    found = [Note(note["after"], note["text"]) for note in copied.get("notes", ())]
    found += [Note(copied["at"], copied["note"])] if copied else []
    for event in run.events:
        if event.body.get("event") == "resumed":
            before = (turn.number for turn in run.turns if turn.at <= event.at)
            found.append(Note(max(before, default=0), str(event.body.get("note") or "")))
    return [note for note in found if note.text]


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


@dataclass(frozen=True)
class ForkRequest:
    """The options of a fork."""

    at: int
    """Number of copied turns; 0 = only the question."""
    resume: ResumeRequest = field(default_factory=ResumeRequest)
    """The follow-up question and the other options of resuming; `limits` may also contain `preset` and `landing`."""


@dataclass(frozen=True)
class Fork:
    """A job that begins with the turns of another run, and what is stored before its first request."""

    job: Job
    copied: tuple[Record, ...]
    """The turns, calls and messages that the new run begins with."""


def fork(run: StoredRun, request: ForkRequest, environment: RunEnvironment) -> Fork:
    """Return a new run that continues after the first turns of a stored one, which is only read.

    System prompt and tools are those of the stored run, byte for byte.
    environment: with the `tools` that the run was started with.
    Raises NotResumable with the reason, and UsageError for an invalid setting.
    """
    resuming, provider = request.resume, environment.provider
    file, before = begun_with(run, resuming.file, environment.root)
    settings = overridden(before, resuming.limits)
    begin = first_turns(run, request.at)
    _check_question(run, begin, request)
    changed = _changed(run, begin, before, settings)
    remarks = [*changed_file(run, resuming), *missing_tools(run, environment, resuming)]
    # Replies of another model may be in it even if the run has continued with this one.
    author = run.model if begin.last is None else run.model_of(begin.last.number)
    is_other = provider.model != author
    copied = with_own_ids(begin.run) if is_other else begin.run
    state = state_after_turns(copied)
    _check_totals(run, settings, state, request.at)
    warnings = [f"forked from {run.run_id} at its question"]
    if at := request.at:
        turns = "the first turn of" if at == 1 else f"the first {at} turns of"
        calls = f"{units.amount(Kind.TOOL_CALLS, len(copied.calls))} and {units.amount(Kind.TURNS, at)}"
        copy = f"{turns} {run.run_id} {'is' if at == 1 else 'are'} copied"
        warnings = [f"{copy}: {calls} count against the limits, their tokens, cost and time do not"]
    if is_other:
        if lost := lost_parts(state.messages):
            remarks.append(prompts.other_model(author))
            warnings.append(f"{lost} of {author} were left out, because {provider.model} cannot use them")
        state = for_other_model(state, also_written=True)
    job = continued(copied, file, settings, environment)
    used = job.budget
    for kind in Kind:
        used = used.spend(state.snapshot.used.get(kind, 0), kind)
    if not (remarks or changed or resuming.question) and state.messages[-1].role == "assistant":
        remarks = [] if begin.is_paused and not is_other else [prompts.GO_ON]
    note = prompts.resumed(used, changed, resuming.question, remarks)
    cold = _cold_tokens(job.opening, state) if is_other and provider.capabilities.is_language_model else None
    # The most expensive request determines the reserve.
    known = max((turn.cost_usd or 0 for turn in copied.turns), default=0)
    dearest = known if cold is None else _price(provider, cold) or 0
    state = _noted(replace(state, snapshot=replace(state.snapshot, dearest_request=dearest)), note)
    own = sum(not one.copied for one in copied.messages)
    source = ForkedFrom(run.run_id, request.at, author, note, cold, _price(provider, cold))
    origin = _origin(job, run, begin, resuming.question)
    # The quotes verified by child runs whose answers were copied, if these contain them.
    answers = [call.whole for call in copied.calls if job.opening.tools.runs_child(call.call.name)]
    children = (*(run.snapshot.children if run.snapshot else ()), *run.children)
    quotes = [*(run.frozen.get("fork") or {}).get("proven", ()), *(one.quote for one in proven_by(children))]
    proven = tuple(dict.fromkeys(quote for quote in quotes if any(quote in answer for answer in answers)))
    stored = source.stored([asdict(one) for one in begin.notes], proven, own)
    warnings = [*job.warnings, *warnings]
    job = replace(
        job,
        run_id=new_run_id(MARK),
        parent_id=None,
        warnings=tuple(warnings),
        origin=lambda: {**origin, "warnings": warnings, "fork": stored},
        resume_state=state,
        proven=proven,
        forked_from=source,
    )
    checkpoint = Checkpointed(state.part, 0, state.messages, state.copies, state.snapshot)
    return Fork(job, (*copied_records(copied), checkpoint))


def _check_question(run: StoredRun, begin: FirstTurns, request: ForkRequest) -> None:
    question = request.resume.question
    if question is not None and not question.strip():
        raise NotResumable("the question is empty; omit it, or ask a further question")
    if question is None and begin.is_answered:
        raise NotResumable(
            f"`at={request.at}`: turn {request.at} of {run.run_id} is its answer; add a further question, or use "
            f"`at={request.at - 1}` to have it answered again"
        )


def _changed(run: StoredRun, begin: FirstTurns, before: Specialist, settings: Specialist) -> tuple[Kind, ...]:
    """Return the kinds whose limits differ from those that the model knows from the copied turns."""
    # Without the note about it, the model does not know of a limit that was changed after these turns.
    known = run.frozen.get("begun_limits", {}) if begin.left_out else {}
    now = {key: getattr(settings, key) for key in LIMITS}
    return tuple(
        kind
        for key, kind in LIMITS.items()
        if now[key] != getattr(before, key) or (key in known and now[key] != known[key])
    )


def _check_totals(run: StoredRun, settings: Specialist, state: ResumeState, at: int) -> None:
    for kind in (Kind.TOOL_CALLS, Kind.TURNS, Kind.CHARACTERS):
        limit, used = getattr(settings, kind.key), state.snapshot.used.get(kind, 0)
        if limit is not None and limit < used:
            raise NotResumable(
                f"{kind.key}: the first {units.amount(Kind.TURNS, at)} of {run.run_id} used "
                f"{units.amount(kind, used)}, so the total limit cannot be {units.number(kind, limit)}; set a higher "
                "one, or none, or copy fewer turns"
            )


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
    snapshot = state.snapshot
    if snapshot.history_tokens:
        tail = state.messages[-1:] if state.messages[-1].role == "user" else ()
        return snapshot.history_tokens + tokens(characters(tail))
    front = len(opening.system) + sum(len(encode(tool.definition)) for tool in opening.tools)
    return tokens(front + characters(state.messages))


def _price(provider: Provider, cold: int | None) -> float | None:
    return None if cold is None else provider.cost(Usage(input_tokens=cold))


def _origin(job: Job, run: StoredRun, begin: FirstTurns, question: str | None) -> Mapping[str, Any]:
    """Return the stored values of the new run, without values that concern later turns of the source."""
    frozen = run.frozen
    kept = {key: frozen[key] for key in ("digest", "given_tools", "parents") if key in frozen}
    origin = job.origin()
    settings, at_first = origin["settings"], {**frozen["settings"], **frozen.get("begun_limits", {})}
    begun = {key: at_first[key] for key in LIMITS if key in at_first and at_first[key] != settings[key]}
    asked = [one for one in frozen.get("questions", ()) if any(prompts.ASKS + one in note.text for note in begin.notes)]
    kept |= {"begun_limits": begun} if begun else {}
    return {**origin, **kept, "questions": [*asked, *([question] if question else [])]}


def copied_records(begin: StoredRun) -> Iterator[Record]:
    """Yield the records of the copied turns, with the times and prices of the run that made them."""
    yield from begin.turns
    yield from begin.calls
    assert begin.snapshot is not None  # noqa: S101 - `first_turns` makes one
    for part, group in groupby(begin.messages, key=lambda one: one.part):
        stored = [*group]
        copies = sum(one.copied for one in stored)
        yield Checkpointed(part, 0, tuple(one.message for one in stored), copies, begin.snapshot)
