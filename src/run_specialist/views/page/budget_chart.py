"""The budget chart: share of each limit spent over time, and the phases of the run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from run_specialist.budget import units
from run_specialist.budget.budget import COUNTDOWN_FROM, Budget, Kind, Phase
from run_specialist.budget.ladder import Rung
from run_specialist.record.messages import Usage
from run_specialist.store.stored import StoredRun
from run_specialist.views.page.axis import Axis
from run_specialist.views.page.formats import clock, lasted

HIGHEST = 2.0
"""Upper bound of the chart; higher values are cut off [share]."""
HEADROOM = 1.12
"""Factor between the highest value and the top of the chart."""

HOW = {
    Rung.FORCE: "the answer was forced",
    Rung.SCHEMA: "the answer was limited to JSON",
    Rung.ORDER: "the model was ordered to answer",
    Rung.WAIT: "the model got no instruction until it called another tool",
    Rung.FINALIZE: "the model was instructed to answer from the gathered material",
    Rung.NONE: "tools were disabled, so that the text is the answer",
    Rung.SALVAGE: "the answer was salvaged from the gathered material",
}
"""Description of each rung of the landing."""

SpendingPoint = tuple[float, Kind, float]
"""Time [seconds since 1970], kind, and amount."""
_Limits = tuple[float, Mapping[str, Any], Mapping[str, Any]]
"""Start of validity [seconds since 1970], limits by kind, and the usage at that time if it is known."""


def budget(run: StoredRun, axis: Axis, by_children: Iterable[SpendingPoint]) -> dict[str, Any]:
    """Return the chart of the budget and the table below it; times are working time [s].

    by_children: amounts that child runs spent.
    """
    limits = list(_limits(run, axis))
    spent = sorted([*_spent(run), *by_children], key=lambda one: one[0])
    kinds = [_kind(kind, run, axis, limits, spent) for kind in Kind]
    shares = [share for kind in kinds for line in kind["lines"] for _, share in line]
    return {
        "limited": any(kind["lines"] for kind in kinds),
        "seconds": axis.seconds,
        "top": min(max([1.0, *shares]) * HEADROOM, HIGHEST),
        "kinds": kinds,
        "bands": list(_bands(run, axis)),
        "landings": list(_landings(run, axis)),
        "resumptions": [
            {
                "at": one.offset,
                "words": f"at {clock(one.offset)} the run was resumed, {lasted(one.pause)} after it stopped",
            }
            for one in axis.resumptions
        ],
    }


def _limits(run: StoredRun, axis: Axis) -> Iterator[_Limits]:
    """Yield the limits in chronological order."""
    first = next((event.body for event in run.events if event.body.get("event") == "started"), {})
    outcome = run.outcome or {}
    known = {key: spent["limit"] for key, spent in outcome.get("limits", {}).items()}
    # The copied turns of a fork are older than it is; of them only what counts against the limits is spent.
    copied: Mapping[str, Any] = next(
        (event.body["used"] for event in run.events if event.body.get("event") == "forked"), {}
    )
    yield run.started_at, first.get("limits") or run.frozen.get("limits") or known, copied
    for span in axis.resumptions:
        if limits := span.resumed.get("limits"):
            yield span.begin, limits, span.resumed.get("used") or {}


def _spent(run: StoredRun) -> Iterator[SpendingPoint]:
    """Yield the amounts that the run spent, except time."""
    for turn in run.turns:
        yield turn.at, Kind.TURNS, 1
        yield turn.at, Kind.TOKENS, turn.usage.total_tokens
        yield turn.at, Kind.COST, turn.cost_usd or 0
    for call in run.calls:
        yield call.at, Kind.TOOL_CALLS, 1
        yield call.at, Kind.CHARACTERS, len(call.text)
    for event in run.events:
        if event.body.get("event") == "summarized":
            yield event.at, Kind.TOKENS, Usage(**event.body["usage"]).total_tokens
            yield event.at, Kind.COST, event.body["cost_usd"] or 0


def _kind(
    kind: Kind, run: StoredRun, axis: Axis, valid: Sequence[_Limits], spent: Sequence[SpendingPoint]
) -> dict[str, Any]:
    lines, used = [], 0.0
    for number, (since, limits, used_before) in enumerate(valid):
        until = valid[number + 1][0] if number + 1 < len(valid) else float("inf")
        begin, end = axis(since), axis(until)
        used = used_before.get(kind, used)
        points = [(begin, used)]
        for at, spent_kind, amount in spent:
            if spent_kind is kind and since <= at < until:
                points.append((axis(at), used))
                used += amount
                points.append((axis(at), used))
        used += end - begin if kind is Kind.TIME else 0
        limit = limits.get(kind)
        if limit is not None:
            lines.append([[at, _share(value, limit)] for at, value in [*points, (end, used)]])
    limit = valid[-1][1].get(kind)
    final = _final(run, kind, used)
    return {
        "kind": kind.value,
        "words": kind.label,
        "used": final,
        "limit": limit,
        "used_words": "unknown" if final is None else units.amount(kind, final),
        "limit_words": "none" if limit is None else units.amount(kind, limit),
        "share": None if limit is None or final is None else _share(final, limit),
        "lines": lines,
    }


def _share(used: float, limit: float) -> float:
    return round(used / limit, 4) if limit else 1.0


def _final(run: StoredRun, kind: Kind, seen: float) -> float | None:
    """Return the final usage of a kind, as in the outcome if there is one."""
    limits = (run.outcome or {}).get("limits", {})
    if kind in limits:
        used: float | None = limits[kind]["used"]
        return used
    stored = run.snapshot.used.get(kind, 0) if run.snapshot else 0
    return max(stored, seen)


def _bands(run: StoredRun, axis: Axis) -> Iterator[dict[str, Any]]:
    """Yield the phases in order, from the `budget` and `landing` events."""
    changes = [(0.0, _first_phase(run))]
    for event in run.events:
        match event.body.get("event"):
            case "budget":
                changes.append((axis(event.at), Phase(event.body["phase"])))
            case "landing":
                changes.append((axis(event.at), Phase.SPENT))
    changes += [(one.offset, _phase(run, one.resumed)) for one in axis.resumptions]
    begin, phase = 0.0, Phase.SILENT
    for (at, current), (until, _) in pairwise([*sorted(changes, key=lambda one: one[0]), (axis.seconds, Phase.SILENT)]):
        # Skip phases of zero length.
        if until > at and current is not phase:
            if at > begin:
                yield {"phase": phase.value, "begin": begin, "end": at}
            begin, phase = at, current
    yield {"phase": phase.value, "begin": begin, "end": axis.seconds}


def _first_phase(run: StoredRun) -> Phase:
    """Return the phase at the start of a run, which for a fork follows from the copied turns."""
    first = {str(event.body.get("event")): event.body for event in reversed(run.events)}
    forked = first.get("forked")
    return _phase(run, {**first.get("started", {}), "used": forked["used"]}) if forked else Phase.SILENT


def _phase(run: StoredRun, resumed: Mapping[str, Any]) -> Phase:
    """Return the phase at the start of a resumed run."""
    countdown = (run.frozen.get("settings") or {}).get("countdown")
    start = countdown.get("from", COUNTDOWN_FROM) if isinstance(countdown, Mapping) else COUNTDOWN_FROM
    limits, used = resumed.get("limits") or {}, resumed.get("used") or {}
    budget = Budget.of({kind: limits.get(kind) for kind in Kind}, start)
    for kind in Kind:
        budget = budget.spend(used.get(kind, 0), kind)
    return budget.phase


def _landings(run: StoredRun, axis: Axis) -> Iterator[dict[str, Any]]:
    for event in run.events:
        if event.body.get("event") == "landing":
            at, kind, how = axis(event.at), Kind(event.body["reason"]), Rung(event.body["how"])
            yield {
                "at": at,
                "reason": kind.value,
                "how": how.value,
                "words": f"at {clock(at)} the limit of {kind.label} was reached: {HOW[how]}",
            }
