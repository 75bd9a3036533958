"""The child runs of a run as a tree: question, answer, calls and usage of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist.budget.budget import Kind
from run_specialist.loop.spending.child_budget import drawn
from run_specialist.record.outcome import NO_MODEL, OFFLINE, Child
from run_specialist.store.from_rows import child as child_of
from run_specialist.store.stored import StoredCall, StoredRun
from run_specialist.tools.delegate_tool import NAME as DELEGATE
from run_specialist.views.page.axis import axis
from run_specialist.views.page.formats import brief

MOST_CALLS = 200
"""Maximum number of calls shown per child run; the child's own report shows all."""
BRIEF = 160
"""Maximum length of a call's arguments [characters]."""

Descendants = Mapping[str, StoredRun]
"""Child runs, and their child runs, by id."""


@dataclass(frozen=True, slots=True)
class ChildRun:
    """One child run."""

    child: Child
    run: StoredRun | None
    """The stored run; None if it is no longer stored."""
    call: StoredCall | None
    """The `delegate` call that started the run; None if it did not return."""


def descendants(run: StoredRun, load: Callable[[str], StoredRun]) -> dict[str, StoredRun]:
    """Return all child runs, and their child runs, by id.

    load: returns a stored run by its id.
    """
    found: dict[str, StoredRun] = {}
    remaining = [*run.children]
    while remaining:
        run_id = remaining.pop().run_id
        if run_id not in found:
            found[run_id] = load(run_id)
            remaining += found[run_id].children
    return found


def child_runs(run: StoredRun, stored: Descendants) -> list[ChildRun]:
    """Return the direct child runs, in the order of their start."""
    in_outcome = [child_of(values) for values in (run.outcome or {}).get("children", ())]
    stored_ids = {one.run_id for one in run.children}
    # A fork's copied calls have no child runs of its own.
    unmatched = [call for call in run.calls if call.call.name == DELEGATE and call.turn > (run.forked_at or 0)]
    found = []
    for child in (*run.children, *(one for one in in_outcome if one.run_id not in stored_ids)):
        child_run = stored.get(child.run_id)
        call = next((one for one in unmatched if _matches(one, child, child_run)), None)
        if call:
            unmatched.remove(call)
        found.append(ChildRun(child, child_run, call))
    return found


def _matches(call: StoredCall, child: Child, run: StoredRun | None) -> bool:
    arguments = call.call.arguments or {}
    same = arguments.get("specialist") == child.specialist
    return same and (run is None or arguments.get("query") == run.question)


def spent(run: StoredRun, found: Sequence[ChildRun]) -> Iterator[tuple[float, Kind, float]]:
    """Yield the amounts that child runs spent of a shared budget: time [seconds since 1970], kind, amount."""
    if not _shares_budget(run):
        return
    for one in found:
        ends = (one.call.at if one.call else None, one.run.ended_at if one.run else None, run.ended_at)
        at = next((moment for moment in ends if moment is not None), run.started_at)
        for kind, amount in drawn(one.child).items():
            yield at, kind, amount


def children(run: StoredRun, found: Sequence[ChildRun], stored: Descendants) -> dict[str, Any]:
    """Return the tree of child runs and its total usage; the usage of each run includes its own children."""
    costs = [one.child.cost_usd for one in found]
    return {
        "asked": [_child(one, stored) for one in found],
        "calls": sum(one.child.tool_calls for one in found),
        "tokens": sum(one.child.usage.total_tokens for one in found),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
        "shared": _shares_budget(run),
    }


def _child(one: ChildRun, stored: Descendants) -> dict[str, Any]:
    child, run = one.child, one.run
    outcome = (run and run.outcome) or {}
    return {
        "run_id": child.run_id,
        "specialist": child.specialist,
        "status": run.status if run else child.status,
        "call": one.call and one.call.number,
        "calls": child.tool_calls,
        "limit": (outcome.get("tool_calls") or {}).get("limit"),
        "tokens": child.usage.total_tokens,
        "cost_usd": child.cost_usd,
        "kept": run is not None,
        "model": run.model if run else None,
        "question": run.question if run else None,
        "seconds": axis(run).seconds if run else None,
        "answer": outcome.get("answer", ""),
        "unjudged": NO_MODEL if run and run.model == OFFLINE else None,
        "evidence": [dict(quote) for quote in outcome.get("evidence", ())],
        "gaps": list(outcome.get("gaps", ())),
        "did": [_call(call) for call in run.calls[:MOST_CALLS]] if run else [],
        "left_out": max(len(run.calls) - MOST_CALLS, 0) if run else 0,
        "asked": [_child(inner, stored) for inner in _grandchildren(one, stored)],
    }


def _grandchildren(one: ChildRun, stored: Descendants) -> list[ChildRun]:
    if one.run is not None:
        return child_runs(one.run, stored)
    return [ChildRun(child, stored.get(child.run_id), None) for child in one.child.children]


def _call(call: StoredCall) -> dict[str, Any]:
    state = "failed" if call.is_error else "finished"
    return {"number": call.number, "name": call.call.name, "brief": brief(call.call.arguments, BRIEF), "state": state}


def _shares_budget(run: StoredRun) -> bool:
    return bool((run.frozen.get("settings") or {}).get("share_budget", True))
