"""Restore the state from which the loop continues a stored run: spending, transcript, calls, a pending reply."""

from dataclasses import replace

from run_specialist.budget.budget import Kind
from run_specialist.loop.executed import CallRecord, EarlierCalls
from run_specialist.loop.job import ResumeState
from run_specialist.loop.returned_answers import ReturnReason
from run_specialist.loop.spending.account import NOT_STARTED
from run_specialist.loop.spending.child_budget import drawn
from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Stop
from run_specialist.record.server_calls import counted
from run_specialist.store.from_rows import file_change
from run_specialist.store.stored import StoredCall, StoredRun, StoredTurn
from run_specialist.tools.respond import NAME as RESPOND


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
    used = int(snapshot.used.get(Kind.TOOL_CALLS, 0)) + counted(pending.blocks)
    affordable = to_run if limit is None else max(limit - used, 0)
    return replace(
        state,
        earlier=replace(state.earlier, cut_off=min(to_run, affordable)),
        pending=pending.reply,
        pending_choice=pending.choice,
        pending_instruction=pending.landing_instruction,
        pending_in_landing=pending.landing,
        pending_seconds=pending.seconds,
    )


def state_after_turns(run: StoredRun) -> ResumeState:
    """Return the state after the turns of a run that were acted upon."""
    snapshot = run.snapshot or NOT_STARTED
    part = max((stored.part for stored in run.messages), default=0)
    return ResumeState(
        snapshot=snapshot,
        messages=run.transcript,
        part=part,
        copies=sum(stored.copied for stored in run.messages if stored.part == part),
        earlier=EarlierCalls(
            executed={call.number: _call_record(call) for call in run.calls},
            started=snapshot.calls,
            skipped=snapshot.skipped,
        ),
    )


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


def _calls_to_run(turn: StoredTurn, snapshot: RunSnapshot) -> int:
    """Return how many calls of a turn may have been run: none in a landing or if truncated.

    Calls beside an answer may have been run once; the loop decides this again, see `Replies`.
    """
    answers = sum(call.name == RESPOND for call in turn.calls)
    if turn.landing or turn.stop not in {Stop.WANTS_TOOLS, Stop.PAUSED}:
        return 0
    return 0 if answers and ReturnReason.TOO_EARLY in snapshot.returned else len(turn.calls) - answers


def _call_record(call: StoredCall) -> CallRecord:
    """Return a stored call as the loop keeps it."""
    return CallRecord(call.call, call.text, call.is_error, call.truncated, call.note, call.repeated, call.whole)
