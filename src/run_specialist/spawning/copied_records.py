"""The records with which a fork is stored: the turns that it copies."""

from collections.abc import Iterator
from itertools import groupby

from run_specialist.record.journal import Checkpointed, Received, Record, Returned
from run_specialist.store.stored import StoredRun


def copied_records(begin: StoredRun) -> Iterator[Record]:
    """Yield the records of the copied turns, with the times and prices of the run that made them."""
    for turn in begin.turns:
        yield Received(
            turn.number,
            turn.choice,
            turn.landing,
            turn.reply,
            turn.cost_usd,
            turn.seconds,
            turn.landing_instruction,
            at=turn.at,
        )
    for call in begin.calls:
        yield Returned(
            call.number,
            call.turn,
            call.call,
            call.whole,
            call.characters,
            call.is_error,
            call.note,
            call.repeated,
            call.seconds,
            at=call.at,
        )
    assert begin.snapshot is not None  # noqa: S101 - `first_turns` makes one
    for part, group in groupby(begin.messages, key=lambda one: one.part):
        stored = [*group]
        copies = sum(one.copied for one in stored)
        yield Checkpointed(part, 0, tuple(one.message for one in stored), copies, begin.snapshot)
