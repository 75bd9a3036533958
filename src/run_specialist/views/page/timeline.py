"""The timeline: each turn with its request and its tool calls; concurrent calls are in separate lanes."""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from run_specialist.record.server_calls import server_calls
from run_specialist.store.stored import StoredCall, StoredRun, StoredTurn
from run_specialist.views.page.axis import Axis
from run_specialist.views.page.formats import lasted

GROUP = 25
"""Number of turns with a common time scale."""


def timeline(run: StoredRun, axis: Axis, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the turns in groups, each with its own time scale and the marks between turns; in working time [s]."""
    calls: defaultdict[int, list[StoredCall]] = defaultdict(list)
    for call in run.calls:
        calls[call.turn].append(call)
    rows = [_row(turn, calls[turn.number], axis) for turn in run.own_turns]
    return {
        "seconds": axis.seconds,
        "turns": len(rows),
        "calls": sum(len(row["calls"]) for row in rows),
        "marks": marks,
        "groups": list(_groups(rows, marks)),
        "asking": sum(row["seconds"] for row in rows),
        "calling": _covered((one["begin"], one["begin"] + one["seconds"]) for row in rows for one in row["calls"]),
    }


def _row(turn: StoredTurn, calls: Sequence[StoredCall], axis: Axis) -> dict[str, Any]:
    begin = axis(turn.at - turn.seconds)
    shown = list(_in_lanes(calls, axis))
    by_api = {use.call.id for use in server_calls(turn.blocks)}
    summary = ", ".join(f"{call.call.name} {_duration(call, by_api)}" for call in calls)
    return {
        "turn": turn.number,
        "begin": begin,
        "seconds": axis(turn.at) - begin,
        "end": max([axis(turn.at), *(one["begin"] + one["seconds"] for one in shown)]),
        "landing": turn.landing,
        "calls": shown,
        "lanes": 1 + max((one["lane"] for one in shown), default=-1),
        "words": f"request {lasted(turn.seconds)}" + (f"; {summary}" if summary else ""),
    }


def _duration(call: StoredCall, by_api: Container[str]) -> str:
    """Return the duration of a call; it is unknown for a call that the API has run during its request."""
    if call.call.id in by_api:
        return "by the API"
    return "again" if call.repeated else lasted(call.seconds)


def _in_lanes(calls: Sequence[StoredCall], axis: Axis) -> Iterator[dict[str, Any]]:
    """Yield calls in order of their start, each with the first free lane."""
    free: list[float] = []
    for call in sorted(calls, key=lambda one: (one.at - one.seconds, one.number)):
        begin, end = axis(call.at - call.seconds), axis(call.at)
        lane = next((number for number, until in enumerate(free) if until <= begin), len(free))
        free[lane : lane + 1] = [end]
        yield {
            "number": call.number,
            "name": call.call.name,
            "begin": begin,
            "seconds": end - begin,
            "lane": lane,
            "state": "failed" if call.is_error else "repeated" if call.repeated else "finished",
        }


def _groups(rows: Sequence[dict[str, Any]], marks: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(rows), GROUP):
        chosen = rows[start : start + GROUP]
        first, last = chosen[0]["turn"], chosen[-1]["turn"]
        begin, end = chosen[0]["begin"], max(row["end"] for row in chosen)
        up_to = float("inf") if start + GROUP >= len(rows) else last
        between = [mark for mark in marks if (first <= mark["before"] or not start) and mark["before"] <= up_to]
        yield {
            "first": first,
            "last": last,
            "begin": min([begin, *(mark["at"] for mark in between)]),
            "end": max([end, *(mark["at"] for mark in between)]),
            "rows": chosen,
            "marks": between,
        }


def _covered(spans: Iterable[tuple[float, float]]) -> float:
    """Return the total time covered by at least one of the spans."""
    covered, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        covered += max(end - max(begin, until), 0)
        until = max(until, end)
    return covered
