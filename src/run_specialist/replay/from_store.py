"""Convert a stored run to a cassette, or find the reason why it cannot be replayed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist.budget.budget import Kind, Phase
from run_specialist.budget.ladder import Rung
from run_specialist.errors import UsageError
from run_specialist.providers.base import Choice
from run_specialist.providers.local.local_servers import prefix_of
from run_specialist.record.blocks import sendable
from run_specialist.record.messages import Message
from run_specialist.replay.cassette import (
    FORMAT,
    AnsweredRequest,
    Cassette,
    Line,
    NextModel,
    RecordedCall,
    Setup,
    UnansweredRequest,
    compared,
)
from run_specialist.store.stored import StoredCall, StoredMessage, StoredRun, StoredTurn

_OTHER_FAILURES = ("store_lost", "internal", "context_exceeded")
"""Kinds of failure that no stored reply can reproduce."""


class NotReplayable(UsageError):
    """The run cannot be replayed; the message gives the reason."""


def cassette_of(run: StoredRun) -> Cassette:
    """Return a stored run as a cassette; raises NotReplayable."""
    if reason := _obstacle(run):
        raise NotReplayable(f"{run.run_id} cannot be replayed: {reason}")
    outcome = run.outcome or {}
    return Cassette(
        run_specialist_cassette=FORMAT,
        setup=_setup(run),
        lines=tuple(_lines(run)),
        calls=tuple(map(_call, run.calls)),
        outcome=compared(outcome, _error(run)),
        children=run.children,
        source=run.run_id,
    )


def _setup(run: StoredRun) -> Setup:
    frozen, changes = run.frozen, [*_events(run, "model_changed")]
    return Setup(
        specialist=run.specialist,
        digest=frozen.get("digest", ""),
        model=changes[0]["before"] if changes else run.model,
        question=run.question,
        settings=frozen["settings"],
        overridden=tuple(frozen["overridden"]),
        system=frozen["system"],
        tools=tuple(frozen["tools"]),
        given_tools=tuple(frozen.get("given_tools", ())),
        parents=tuple(frozen.get("parents", ())),
        rungs=_rungs(run)[0],
    )


def _rungs(run: StoredRun) -> list[tuple[Rung, ...]]:
    """Return the landing rungs that the run tried with each of its models."""
    found: list[tuple[Rung, ...]] = [()]
    for event in run.events:
        match event.body["event"]:
            case "model_changed":
                found.append(())
            case "landing":
                found[-1] += (Rung(event.body["how"]),)
            case _:
                pass
    return found


def _obstacle(run: StoredRun) -> str:
    """Return why a run cannot be replayed; empty if it can."""
    outcome = run.outcome
    if outcome is None:
        return f"it has not ended ({run.status}); resume it with `specialists resume {run.run_id}`"
    return next(why for applies, why in _obstacles(run, outcome) if applies)


def _obstacles(run: StoredRun, outcome: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    """Yield possible obstacles, each with whether it applies; the last one is empty and always applies."""
    landing, kind = outcome["landing"], outcome.get("error_kind")
    by_time = landing is not None and landing["reason"] == Kind.TIME
    yield run.status == "aborted", "it was aborted, and the moment of the abort between two replies is not stored"
    fork = run.frozen.get("fork")
    yield (
        fork is not None,
        f"it is a fork of {(fork or {}).get('run_id')}, which sent its first requests; replay an original run",
    )
    yield (
        any(_events(run, "resumed")),
        "it was resumed, but a replay has one question and one set of limits; replay a run that was not resumed",
    )
    yield (
        any(_events(run, "summarized")) or max((one.part for one in run.messages), default=0) != _adapted(run),
        "its transcript was summarized, and the replies to the requests for summaries are not stored",
    )
    yield kind in _OTHER_FAILURES, f"it ended by a failure that no stored reply can reproduce ({kind})"
    yield (
        by_time or any(map(_counts_time, _events(run, "budget"))),
        "its messages depend on its time limit, and a replay takes no time; replay a run with more time",
    )
    yield (
        prefix_of(run.model) is not None and any(call.truncated for call in run.calls),
        "its results were cut for the context of a local model, whose length is not stored",
    )
    yield not any(_events(run, "request")), "it sent no request"
    yield True, ""


def _adapted(run: StoredRun) -> int:
    """Return how often the transcript was adapted for another model; nothing is adapted before the first reply."""
    return sum(event["turn"] > 1 for event in _events(run, "model_changed"))


def _counts_time(event: dict[str, Any]) -> bool:
    return bool(event["kind"] == Kind.TIME and event["phase"] != Phase.SILENT)


def _events(run: StoredRun, name: str) -> Iterator[dict[str, Any]]:
    return (dict(event.body) for event in run.events if event.body["event"] == name)


def _error(run: StoredRun) -> str | None:
    """Return the error of an ended run, which the last warning of its outcome repeats."""
    outcome = run.outcome or {}
    return outcome["warnings"][-1] if outcome.get("error_kind") and outcome["warnings"] else None


@dataclass
class _Attempt:
    """A request."""

    choice: Choice
    turn: StoredTurn | None = None
    """Its reply; None if it brought none."""
    next: NextModel | None = None
    """The model with which the run continued afterwards."""
    is_adapted: bool = False
    """Whether the transcript was adapted for that model."""


def _attempts(run: StoredRun) -> list[_Attempt]:
    """Return the requests in order."""
    turns, rungs = {turn.number: turn for turn in run.turns}, _rungs(run)[1:]
    found: list[_Attempt] = []
    for event in run.events:
        body = event.body
        match body["event"]:
            case "request":
                found.append(_Attempt(Choice(body["choice"])))
            case "reply":
                found[-1].turn = turns[body["turn"]]
            case "model_changed":
                found[-1].next = NextModel(body["model"], body["reason"], body["kind"], rungs.pop(0))
                found[-1].is_adapted = body["turn"] > 1
            case _:
                pass
    return found


def _entered(turns: Sequence[StoredTurn], messages: Sequence[Message]) -> set[int]:
    """Return the numbers of the turns whose reply is part of the transcript.

    Searches from the end: a reply that was requested again has at most the content of the next one.
    """
    replies = [message.blocks for message in messages if message.role == "assistant"]
    found = set()
    for turn in reversed(turns):
        if replies and replies[-1] == sendable(turn.blocks):
            replies.pop()
            found.add(turn.number)
    return found


def _lines(run: StoredRun) -> Iterator[Line]:
    left, attempts = _attempts(run), list[_Attempt]()
    part = 0
    while left:
        attempts.append(left.pop(0))
        if not left or attempts[-1].is_adapted:
            yield from _lines_of_part([one for one in run.messages if one.part == part], attempts, is_last=not left)
            attempts, part = [], part + 1


def _lines_of_part(stored: Sequence[StoredMessage], attempts: Sequence[_Attempt], *, is_last: bool) -> Iterator[Line]:
    """Yield the lines of one part of the transcript, including the requests that sent it."""
    sent = [one.message for one in stored if one.copied]
    yield from sent
    messages = [one.message for one in stored if not one.copied]
    entered = _entered([attempt.turn for attempt in attempts if attempt.turn], messages)
    for number, attempt in enumerate(attempts, 1):
        turn = attempt.turn
        while messages and messages[0].role == "user":
            sent.append(messages.pop(0))
            yield sent[-1]
        if attempt.next is not None:
            yield UnansweredRequest(attempt.choice, "changed", attempt.next)
            yield from () if attempt.is_adapted else sent
        elif turn is None:
            yield UnansweredRequest(attempt.choice, "failed" if is_last and number == len(attempts) else "refused")
        else:
            yield AnsweredRequest(
                attempt.choice, turn.landing_instruction, turn.reply, turn.cost_usd, turn.number in entered
            )
            if turn.number in entered:
                messages.pop(0)
    yield from messages


def _call(stored: StoredCall) -> RecordedCall:
    call = stored.call
    return RecordedCall(call.id, call.name, call.arguments, stored.whole, stored.is_error, stored.note, stored.repeated)
