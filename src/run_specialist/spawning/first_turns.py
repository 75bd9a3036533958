"""Extract the first turns of a stored run, as it was before its next request. Pure.

A turn is a reply of the model with the results of its calls. The part of the transcript in which the reply was added is
kept as it was then, without later summaries.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.errors import NotResumable
from run_specialist.record.blocks import sendable, text_of
from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Stop, ToolCall
from run_specialist.record.server_calls import server_calls
from run_specialist.store.stored import StoredCall, StoredMessage, StoredRun, StoredTurn
from run_specialist.tools.respond import NAME as RESPOND


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
    last: StoredTurn | None
    """The newest turn in its transcript; None if that is only the question."""
    notes: tuple[Note, ...]
    """The notes in the transcript, in order."""
    left_out: tuple[Note, ...]
    """The notes after these turns, which were removed because they concern later turns."""

    @property
    def is_paused(self) -> bool:
        """Whether the API paused the last turn, so that it must be sent back unchanged."""
        return self.last is not None and self.last.stop == Stop.PAUSED

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
    following = begin if last is None else _following(run, begin)
    tail = None if following is None else _without(following, {note.text for note in left_out})
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
    return FirstTurns(beginning, last, tuple(note for note in notes if note.after < at), left_out)


def _snapshot(
    at: int, turns: Sequence[StoredTurn], calls: Sequence[StoredCall], entered: Sequence[StoredTurn]
) -> RunSnapshot:
    """Return the state of a run after its first turns, without tokens, cost and time.

    entered: the turns that became history.
    """
    last_call = max((call.number for call in calls), default=0)
    return RunSnapshot(
        used={
            Kind.TOOL_CALLS.value: last_call + _unanswered(turns, calls),
            Kind.TURNS.value: at,
            Kind.CHARACTERS.value: sum(len(call.text) for call in calls),
        },
        largest_input=max((turn.usage.total_tokens - turn.usage.output_tokens for turn in turns), default=0),
        largest_request=max((turn.usage.total_tokens for turn in turns), default=0),
        calls=last_call,
        skipped=_skipped(entered, {(call.turn, call.call.id) for call in calls}),
        history_tokens=entered[-1].usage.total_tokens if entered else 0,
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


def _following(run: StoredRun, reply: StoredMessage) -> StoredMessage | None:
    """Return what followed a reply: results, an objection to an answer, or a follow-up question."""
    place = (reply.part, reply.place + 1)
    found = next((one for one in run.messages if (one.part, one.place) == place), None)
    return found if found is not None and found.message.role == "user" else None


def _without(one: StoredMessage, notes: Collection[str]) -> StoredMessage:
    """Return the next message to send without notes and without the old landing instruction."""
    blocks = tuple(block for block in one.message.blocks if not (block["type"] == "text" and block["text"] in notes))
    return replace(one, message=replace(one.message, blocks=blocks, landing_instruction=None))


def _unanswered(turns: Sequence[StoredTurn], calls: Sequence[StoredCall]) -> int:
    """Return how many calls the API still has to run; they count against the limit, but have no number."""
    answered = {call.call.id for call in calls}
    made = (use for turn in turns for use in server_calls(turn.blocks))
    return sum(use.result is None and use.call.id not in answered for use in made)


def _skipped(turns: Sequence[StoredTurn], executed: Collection[tuple[int, str]]) -> int:
    return sum(1 for turn, call in _calls(turns) if call.name != RESPOND and (turn.number, call.id) not in executed)


def _calls(turns: Sequence[StoredTurn]) -> Iterator[tuple[StoredTurn, ToolCall]]:
    return ((turn, call) for turn in turns for call in turn.calls)
