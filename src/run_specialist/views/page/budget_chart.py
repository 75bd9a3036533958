"""How the budget went over time: the share of each limit that was spent, and in which phase the run was."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from run_specialist.budget import units
from run_specialist.budget.budget import COUNTDOWN_FROM, Budget, Kind, Phase
from run_specialist.budget.ladder import Rung
from run_specialist.store.stored import StoredRun
from run_specialist.views.page.axis import Axis
from run_specialist.views.page.formats import clock, lasted

HIGHEST = 2.0
"""What went further over its limit leaves the chart at its top [share]."""
HEADROOM = 1.12

HOW = {
    Rung.FORCE: "the answer was forced",
    Rung.ORDER: "the model was ordered to answer",
    Rung.WAIT: "nothing was said until the model asked again",
    Rung.FINALIZE: "the model was told to answer from what is there",
    Rung.NONE: "tools were forbidden, so that the text is the answer",
    Rung.SALVAGE: "the answer was salvaged from what was gathered",
}
"""What each rung of a landing does, in words."""

Spent = tuple[float, Kind, float]
"""When it was spent [seconds since 1970], and how much of which kind."""
_Rule = tuple[float, Mapping[str, Any], Mapping[str, Any]]
"""Since when it holds [seconds since 1970], the limits, and what was used by then where that was told."""


def budget(run: StoredRun, axis: Axis, by_others: Iterable[Spent]) -> dict[str, Any]:
    """Return the chart of the budget and the table below it; moments are working time [s].

    by_others: what the specialists that were asked drew of it.
    """
    ruled = list(_rules(run, axis))
    spent = sorted([*_spent(run), *by_others], key=lambda one: one[0])
    kinds = [_kind(kind, run, axis, ruled, spent) for kind in Kind]
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
                "words": f"at {clock(one.offset)} the run was resumed, {lasted(one.pause)} after it had stopped",
            }
            for one in axis.resumptions
        ],
    }


def _rules(run: StoredRun, axis: Axis) -> Iterator[_Rule]:
    """Yield the limits in the order in which they held."""
    first = next((event.body for event in run.events if event.body.get("event") == "started"), {})
    outcome = run.outcome or {}
    known = {key: spent["limit"] for key, spent in outcome.get("limits", {}).items()}
    yield run.started_at, first.get("limits") or run.frozen.get("limits") or known, {}
    for stretch in axis.resumptions:
        if limits := stretch.resumed.get("limits"):
            yield stretch.begin, limits, stretch.resumed.get("used") or {}


def _spent(run: StoredRun) -> Iterator[Spent]:
    """Yield what was spent, when, of which kind; time passes by itself."""
    for turn in run.turns:
        yield turn.at, Kind.TURNS, 1
        yield turn.at, Kind.TOKENS, turn.usage.total_tokens
        yield turn.at, Kind.COST, turn.cost_usd or 0
    for call in run.calls:
        yield call.at, Kind.TOOL_CALLS, 1
        yield call.at, Kind.CHARACTERS, len(call.text)
    for event in run.events:
        if event.body.get("event") == "summarized":
            yield event.at, Kind.TOKENS, sum(event.body["usage"].values())
            yield event.at, Kind.COST, event.body["cost_usd"] or 0


def _kind(kind: Kind, run: StoredRun, axis: Axis, ruled: Sequence[_Rule], spent: Sequence[Spent]) -> dict[str, Any]:
    lines, used = [], 0.0
    for number, (since, limits, told) in enumerate(ruled):
        until = ruled[number + 1][0] if number + 1 < len(ruled) else float("inf")
        begin, end = axis(since), axis(until)
        used = told.get(kind, used)
        points = [(begin, used)]
        for at, what, amount in spent:
            if what is kind and since <= at < until:
                points.append((axis(at), used))
                used += amount
                points.append((axis(at), used))
        # Time passes by itself.
        used += end - begin if kind is Kind.TIME else 0
        limit = limits.get(kind)
        if limit is not None:
            lines.append([[at, _share(value, limit)] for at, value in [*points, (end, used)]])
    limit = ruled[-1][1].get(kind)
    final = _final(run, kind, used)
    return {
        "kind": kind.value,
        "words": kind.words,
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
    """Return what was used in the end, by the run's own account where it has one."""
    limits = (run.outcome or {}).get("limits", {})
    if kind in limits:
        used: float | None = limits[kind]["used"]
        return used
    booked = run.standing.used.get(kind, 0) if run.standing else 0
    return max(booked, seen)


def _bands(run: StoredRun, axis: Axis) -> Iterator[dict[str, Any]]:
    """Yield the phases in order, as they were told after each call and at the landing."""
    changes = [(0.0, Phase.SILENT)]
    for event in run.events:
        match event.body.get("event"):
            case "budget":
                changes.append((axis(event.at), Phase(event.body["phase"])))
            case "landing":
                changes.append((axis(event.at), Phase.SPENT))
    changes += [(one.offset, _phase(run, one.resumed)) for one in axis.resumptions]
    begin, phase = 0.0, Phase.SILENT
    for (at, now), (until, _) in pairwise([*sorted(changes, key=lambda one: one[0]), (axis.seconds, Phase.SILENT)]):
        # What holds for no time at all is not seen.
        if until > at and now is not phase:
            if at > begin:
                yield {"phase": phase.value, "begin": begin, "end": at}
            begin, phase = at, now
    yield {"phase": phase.value, "begin": begin, "end": axis.seconds}


def _phase(run: StoredRun, resumed: Mapping[str, Any]) -> Phase:
    """Return the phase in which a resumed run begins."""
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
                "words": f"at {clock(at)} the limit of {kind.words} was reached: {HOW[how]}",
            }
