"""The specialists that a run asked, as a tree: what each was asked, what it said, and what it took of the run."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist.budget.budget import Kind
from run_specialist.loop.spending.child_budget import drawn
from run_specialist.record.outcome import Child
from run_specialist.store.from_rows import child as child_of
from run_specialist.store.stored import StoredCall, StoredRun
from run_specialist.tools.delegate_tool import NAME as DELEGATE
from run_specialist.views.page.axis import axis
from run_specialist.views.page.formats import brief

MOST_CALLS = 200
"""So many calls of one specialist are named; its own page has all."""
BRIEF = 160
"""So much of a call's arguments is shown [characters]."""

Below = Mapping[str, StoredRun]
"""Runs that were asked, by their ids."""


@dataclass(frozen=True, slots=True)
class ChildRun:
    """One specialist that a run asked."""

    child: Child
    run: StoredRun | None
    """None where it is kept no longer."""
    call: StoredCall | None
    """The call that asked; None where it had not returned."""


def below(run: StoredRun, load: Callable[[str], StoredRun]) -> dict[str, StoredRun]:
    """Return the runs that a run asked, and those that they asked, by their ids.

    load: returns a run by its id.
    """
    found: dict[str, StoredRun] = {}
    waiting = [*run.children]
    while waiting:
        run_id = waiting.pop().run_id
        if run_id not in found:
            found[run_id] = load(run_id)
            waiting += found[run_id].children
    return found


def asked(run: StoredRun, others: Below) -> list[ChildRun]:
    """Return those that a run asked itself, in the order in which they began."""
    told = [child_of(values) for values in (run.outcome or {}).get("children", ())]
    kept = {one.run_id for one in run.children}
    waiting = [call for call in run.calls if call.call.name == DELEGATE]
    found = []
    for child in (*run.children, *(one for one in told if one.run_id not in kept)):
        its = others.get(child.run_id)
        call = next((one for one in waiting if _fits(one, child, its)), None)
        if call:
            waiting.remove(call)
        found.append(ChildRun(child, its, call))
    return found


def _fits(call: StoredCall, child: Child, run: StoredRun | None) -> bool:
    given = call.call.arguments or {}
    same = given.get("specialist") == child.specialist
    return same and (run is None or given.get("query") == run.question)


def spent(run: StoredRun, found: Sequence[ChildRun]) -> Iterator[tuple[float, Kind, float]]:
    """Yield what those who were asked drew of a run's budget: when [seconds since 1970], of which kind, how much."""
    if not _shares(run):
        return
    for one in found:
        ends = (one.call.at if one.call else None, one.run.ended_at if one.run else None, run.ended_at)
        at = next((moment for moment in ends if moment is not None), run.started_at)
        for kind, amount in drawn(one.child).items():
            yield at, kind, amount


def children(run: StoredRun, found: Sequence[ChildRun], others: Below) -> dict[str, Any]:
    """Return the tree with what it took in all; each one's figures have in them those of the ones below it."""
    costs = [one.child.cost_usd for one in found]
    return {
        "asked": [_child(one, others) for one in found],
        "calls": sum(one.child.tool_calls for one in found),
        "tokens": sum(one.child.usage.total_tokens for one in found),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
        "shared": _shares(run),
    }


def _child(one: ChildRun, others: Below) -> dict[str, Any]:
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
        "evidence": [dict(quote) for quote in outcome.get("evidence", ())],
        "gaps": list(outcome.get("gaps", ())),
        "did": [_did(call) for call in run.calls[:MOST_CALLS]] if run else [],
        "left_out": max(len(run.calls) - MOST_CALLS, 0) if run else 0,
        "asked": [_child(inner, others) for inner in _inner(one, others)],
    }


def _inner(one: ChildRun, others: Below) -> list[ChildRun]:
    if one.run is not None:
        return asked(one.run, others)
    return [ChildRun(child, others.get(child.run_id), None) for child in one.child.children]


def _did(call: StoredCall) -> dict[str, Any]:
    state = "failed" if call.is_error else "finished"
    return {"number": call.number, "name": call.call.name, "brief": brief(call.call.arguments, BRIEF), "state": state}


def _shares(run: StoredRun) -> bool:
    return bool((run.frozen.get("settings") or {}).get("share_budget", True))
