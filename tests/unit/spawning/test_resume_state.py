"""The state from which a stored run is continued, without a run."""

from dataclasses import replace

from run_specialist.loop.account import NOT_STARTED
from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Message
from run_specialist.spawning.resuming import state_after_turns, state_when_stopped
from run_specialist.store.stored import StoredMessage, StoredRun

QUESTION, SUMMARY, NEWEST = Message.user("What is known?"), Message.user("A summary."), Message.user("On.")
RUN = StoredRun(
    "run-1", None, "looker", "scripted", "What is known?", "interrupted", 0.0, None, 0, 0.0,
    frozen={"settings": {"share_budget": True}}, snapshot=RunSnapshot({"turns": 2}, calls=3, skipped=1), outcome=None,
    turns=(), calls=(), events=(),
    messages=(
        StoredMessage(0, 0, False, QUESTION),
        StoredMessage(0, 1, True, QUESTION),
        StoredMessage(1, 0, True, QUESTION),
        StoredMessage(1, 1, True, SUMMARY),
        StoredMessage(1, 2, False, NEWEST),
    ),
)  # fmt: skip


def test_the_transcript_is_the_newest_part_with_the_copies_in_it():
    """The messages before a summary are not sent again, and their copies do not count."""
    state = state_after_turns(RUN)
    assert (state.messages, state.part, state.copies) == ((QUESTION, SUMMARY, NEWEST), 1, 2)
    assert (state.earlier.started, state.earlier.skipped, state.earlier.cut_off) == (3, 1, 0)


def test_a_run_without_a_pending_reply_stopped_after_its_turns():
    """No reply is to be acted upon, whatever the limit."""
    assert [state_when_stopped(RUN, limit) for limit in (None, 0, 5)] == [state_after_turns(RUN)] * 3


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew():
    """Nothing is spent, and nothing is said."""
    state = state_when_stopped(replace(RUN, snapshot=None, messages=()), None)
    assert (state.snapshot, state.messages, state.part, state.copies) == (NOT_STARTED, (), 0, 0)
