"""Make the job of a fork from the first turns of a stored run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from run_specialist.providers.base import Opening
from run_specialist.record.journal import Checkpointed, Received, Record, Returned, RunSnapshot
from run_specialist.record.messages import Message, Stop, Usage, encode, sendable, server_calls, text_of
from run_specialist.spawning.resuming import (
    ResumeRequest,
    begun_with,
    check_totals,
    continued,
    differing,
    for_other_model,
    state_after_turns,
    stored_origin,
    with_own_ids,
)
from run_specialist.spawning.spawner import LIMITS, RunEnvironment, new_run_id
from run_specialist.specialist.settings import overridden
from run_specialist.store.stored import MARK, StoredCall, StoredMessage, StoredRun, StoredTurn
from run_specialist.tools.respond import NAME as RESPOND

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
    last: StoredTurn | None
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
            return self.last.stop not in {Stop.PAUSED, Stop.TRUNCATED}
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
        raise NotResumable(f"`at={at}`: {run.run_id} has {units.amount(Kind.TURNS, done)}; use 0 to {done}")
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
    notes: list[Note] = [
        *copied.get("notes", ()),
        *([{"text": copied["note"], "after": copied["at"]}] if copied else ()),
    ]
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
    if last is not None and last.calls and tail is None:
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
    return FirstTurns(beginning, last, [note for note in notes if note["after"] < at], left_out)


def _snapshot(
    at: int, turns: Sequence[StoredTurn], calls: Sequence[StoredCall], entered: Sequence[StoredTurn]
) -> RunSnapshot:
    """Return the state of a run after its first turns, without tokens, cost and time.

    entered: the turns that became history.
    """
    last_call = max((call.number for call in calls), default=0)
    # Calls that the API still has to run count against the limit, but have no number.
    answered = {call.call.id for call in calls}
    made = (use for turn in turns for use in server_calls(turn.blocks))
    executed = {(call.turn, call.call.id) for call in calls}
    asked = ((turn, call) for turn in entered for call in turn.calls)
    return RunSnapshot(
        used={
            Kind.TOOL_CALLS.value: last_call + sum(use.result is None and use.call.id not in answered for use in made),
            Kind.TURNS.value: at,
            Kind.CHARACTERS.value: sum(len(call.text) for call in calls),
        },
        largest_input=max((turn.usage.total_tokens - turn.usage.output_tokens for turn in turns), default=0),
        largest_request=max((turn.usage.total_tokens for turn in turns), default=0),
        calls=last_call,
        skipped=sum(call.name != RESPOND and (turn.number, call.id) not in executed for turn, call in asked),
        history_tokens=entered[-1].usage.total_tokens if entered else 0,
        last_text=next((turn.reply.text for turn in reversed(turns) if turn.reply.text), ""),
    )


def _entered(messages: Sequence[StoredMessage], turns: Sequence[StoredTurn]) -> list[tuple[StoredTurn, StoredMessage]]:
    """Return the turns in the history, each with its message; a reply that was cut may be missing there."""
    found: list[tuple[StoredTurn, StoredMessage]] = []
    following = 0
    for one in messages:
        if one.copied or one.message.role != "assistant":
            continue
        blocks = list(map(dict, one.message.blocks))
        same = (at for at in range(following, len(turns)) if list(map(dict, sendable(turns[at].blocks))) == blocks)
        if (at := next(same, None)) is not None:
            found.append((turns[at], one))
            following = at + 1
    return found


def fork(run: StoredRun, request: ResumeRequest, environment: RunEnvironment) -> tuple[Job, tuple[Record, ...]]:
    """Return a new run that continues after the first turns of a stored one, which is only read.

    Also returns what is stored before its first request: the turns, calls and messages that it begins with.
    System prompt and tools are those of the stored run, byte for byte.
    request: `limits` may also contain `preset` and `landing`.
    environment: with the `tools` that the run was started with.
    Raises NotResumable with the reason, and UsageError for an invalid setting.
    """
    provider, question, at = environment.provider, request.question, request.at or 0
    file, before = begun_with(run, request.file, environment.root)
    settings = overridden(before, request.limits)
    begin = first_turns(run, at)
    if question is not None and not question.strip():
        raise NotResumable("the question is empty; omit it, or ask a further question")
    if question is None and begin.is_answered:
        raise NotResumable(
            f"`at={at}`: turn {at} of {run.run_id} is its answer; add a further question, or use `at={at - 1}` to have "
            "it answered again"
        )
    # Without the note about it, the model does not know of a limit that was changed after these turns.
    known = run.frozen.get("begun_limits", {}) if begin.left_out else {}
    now = {key: getattr(settings, key) for key in LIMITS}
    changed = tuple(
        kind
        for key, kind in LIMITS.items()
        if now[key] != getattr(before, key) or (key in known and now[key] != known[key])
    )
    remarks = differing(run, request, environment)
    # Replies of another model may be in it even if the run has continued with this one.
    author = run.model if begin.last is None else run.model_of(begin.last.number)
    is_other = provider.model != author
    copied = with_own_ids(begin.run) if is_other else begin.run
    state = state_after_turns(copied)
    turns = "the first turn" if at == 1 else f"the first {at} turns"
    check_totals(f"{turns} of {run.run_id}", settings, state.snapshot.used, Kind)
    warnings = [f"forked from {run.run_id} at its question"]
    if at:
        calls = f"{units.amount(Kind.TOOL_CALLS, len(copied.calls))} and {units.amount(Kind.TURNS, at)}"
        copy = f"{turns} of {run.run_id} {'is' if at == 1 else 'are'} copied"
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
    if not (remarks or changed or question) and state.messages[-1].role == "assistant":
        # A turn that the API has paused is sent back unchanged.
        is_paused = begin.last is not None and begin.last.stop == Stop.PAUSED
        remarks = [] if is_paused and not is_other else [prompts.GO_ON]
    note = prompts.resumed(used, changed, question, remarks)
    # The most expensive request determines the reserve.
    cold, price, dearest = None, None, max((turn.cost_usd or 0 for turn in copied.turns), default=0)
    if is_other and provider.capabilities.is_language_model:
        cold = _cold_tokens(job.opening, state)
        price = provider.cost(Usage(input_tokens=cold))
        dearest = price or 0
    state = _noted(replace(state, snapshot=replace(state.snapshot, dearest_request=dearest)), note)
    source = ForkedFrom(run.run_id, at, author, note, cold, price)
    asked = [q for q in run.frozen.get("questions", ()) if any(prompts.ASKS + q in one["text"] for one in begin.notes)]
    origin = stored_origin(job, run, ("digest", "given_tools", "parents"), asked, question)
    # The quotes verified by child runs whose answers were copied, if these contain them.
    answers = [call.whole for call in copied.calls if job.opening.tools.runs_child(call.call.name)]
    children = (*(run.snapshot.children if run.snapshot else ()), *run.children)
    quotes = [*(run.frozen.get("fork") or {}).get("proven", ()), *(one.quote for one in proven_by(children))]
    proven = tuple(dict.fromkeys(quote for quote in quotes if any(quote in answer for answer in answers)))
    stored = source.stored(begin.notes, proven, sum(not one.copied for one in copied.messages))
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
    for one in begin.turns:
        instruction = one.landing_instruction
        yield Received(
            one.number, one.choice, one.landing, one.reply, one.cost_usd, one.seconds, instruction, at=one.at
        )
    for call in begin.calls:
        seen = (call.whole, call.characters, call.is_error, call.note, call.repeated)
        yield Returned(call.number, call.turn, call.call, *seen, call.seconds, at=call.at)
    assert begin.snapshot is not None  # noqa: S101 - `first_turns` makes one
    for part, group in groupby(begin.messages, key=lambda one: one.part):
        stored = [*group]
        copies = sum(one.copied for one in stored)
        yield Checkpointed(part, 0, tuple(one.message for one in stored), copies, begin.snapshot)
