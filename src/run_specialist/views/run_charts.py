"""Charts of a run: time axis, budget, timeline, marks."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from run_specialist import budget as units
from run_specialist.budget import COUNTDOWN_FROM, Budget, Kind, Phase, Rung
from run_specialist.record.journal import Received, Returned
from run_specialist.record.messages import Usage, server_calls
from run_specialist.store.stored import StoredEvent, StoredRun
from run_specialist.views.page import clock, lasted


@dataclass(frozen=True, slots=True)
class ActiveSpan:
    """A period in which the run was active: from its start or a resumption until it stopped."""

    begin: float
    """[seconds since 1970]."""
    end: float
    """[seconds since 1970]."""
    offset: float
    """Working time before this span [s]."""
    pause: float
    """Pause before this span [s]."""
    resumed: Mapping[str, Any]
    """Body of the `resumed` event; empty for the first span."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps points in time to the working time of a run."""

    spans: tuple[ActiveSpan, ...]
    """In order; all except the first follow a resumption."""

    def __call__(self, at: float) -> float:
        """Return the working time at a point in time [s].

        at: [seconds since 1970].
        """
        span = next((one for one in reversed(self.spans) if one.begin <= at), self.spans[0])
        return span.offset + min(max(at - span.begin, 0), span.end - span.begin)

    @property
    def seconds(self) -> float:
        """Total working time [s]."""
        last = self.spans[-1]
        return last.offset + last.end - last.begin


def axis(run: StoredRun) -> Axis:
    """Return the time axis of a run; without an end it extends to the last record."""
    known = [one.at for records in (run.events, run.turns, run.calls) for one in records]
    begins: list[tuple[float, Mapping[str, Any]]] = [(run.started_at, {})]
    resuming = False
    for event in run.events[1:]:
        # A resumption is a further `started`, which has the limits, and `resumed`.
        if event.body.get("event") in {"started", "resumed"}:
            at, body = begins.pop() if resuming else (event.at, {})
            begins.append((at, {**body, **event.body}))
            resuming = True
        else:
            resuming = False
    spans: list[ActiveSpan] = []
    offset = 0.0
    for (begin, resumed), (until, _) in pairwise([*begins, (run.ended_at or float("inf"), {})]):
        end = max((at for at in known if begin <= at < until), default=begin)
        if len(spans) + 1 == len(begins) and run.ended_at is not None:
            end = max(end, run.ended_at)
        pause = max(begin - spans[-1].end, 0) if spans else 0.0
        spans.append(ActiveSpan(begin, end, offset, pause, resumed))
        offset += end - begin
    return Axis(tuple(spans))


def calls_by_turn(run: StoredRun) -> Mapping[int, Sequence[Returned]]:
    """Return the calls by the number of their turn, empty for others; one before the first request is shown with it."""
    found: defaultdict[int, list[Returned]] = defaultdict(list)
    for call in run.calls:
        found[call.turn or 1].append(call)
    return found


def events_of(run: StoredRun, *names: str) -> list[StoredEvent]:
    """Return the events of a run that have one of these names."""
    return [event for event in run.events if event.body.get("event") in names]


def marks(run: StoredRun, axis: Axis) -> list[dict[str, Any]]:
    """Return the marks in order, each with the number of the next turn; at the end, one more than the last turn."""
    found = [
        (span.begin, "resumed", f"Resumed after {lasted(span.pause)}", str(span.resumed.get("note") or ""))
        for span in axis.spans[1:]
    ]
    for event in run.events:
        body = event.body
        match body.get("event"):
            case "forked":
                found.append((event.at, "forked", f"Forked from {body['source']}", str(body["note"])))
            case "model_changed":
                text = f"{body['before']} cannot answer: {body['reason']}"
                if body["left_out"]:
                    text += f"\n{body['left_out'].capitalize()} of {body['before']} were left out."
                found.append((event.at, "changed", f"Continues with {body['model']}", text))
            case "landing":
                words = f"Limit of {Kind(body['reason']).label} reached: {HOW[Rung(body['how'])]}"
                found.append((event.at, "landing", words, ""))
            case "steered":
                found.append((event.at, "resumed", "The user added", str(body["text"])))
            case "summarized":
                sizes = f"about {body['tokens_before']:,} tokens reduced to {body['tokens_after']:,}"
                words = f"Summarized: {units.counted(body['archived'], 'output')} archived, {sizes}"
                found.append((event.at, "summarized", words, str(body["summary"])))
    last = run.turns[-1].number if run.turns else 0
    return [
        {
            "at": axis(at),
            "before": next((turn.number for turn in run.turns if turn.at > at), last + 1),
            "kind": kind,
            "words": words,
            "text": text,
        }
        for at, kind, words, text in sorted(found, key=lambda one: one[0])
    ]


# Upper bound of the chart; higher values are cut off [share].
_HIGHEST = 2.0
# Factor between the highest value and the top of the chart.
_HEADROOM = 1.12

NEAR = 0.15
"""Largest distance of landings with one text [share of the width]."""

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

# Time [seconds since 1970], kind, and amount.
_SpendingPoint = tuple[float, Kind, float]
# Start of validity [seconds since 1970], limits by kind, and the usage at that time if it is known.
_Limits = tuple[float, Mapping[str, Any], Mapping[str, Any]]


def budget_chart(run: StoredRun, axis: Axis, by_children: Iterable[_SpendingPoint]) -> dict[str, Any]:
    """Return the chart of the budget and the table below it; times are working time [s].

    by_children: amounts that child runs spent.
    """
    limits = list(_limits(run, axis))
    spent = sorted([*_spent(run), *by_children], key=lambda one: one[0])
    kinds = [_kind(kind, run, axis, limits, spent) for kind in Kind]
    shares = [share for kind in kinds for line in kind["lines"] for _, share in line]
    landings = []
    for event in events_of(run, "landing"):
        at, reached, how = axis(event.at), Kind(event.body["reason"]), Rung(event.body["how"])
        words = f"at {clock(at)} the limit of {reached.label} was reached: {HOW[how]}"
        landings.append({"at": at, "reason": reached.value, "how": how.value, "words": words})
    # Texts of the marks: landings beside each other have one text, which lies outside of their lines.
    labels: list[dict[str, Any]] = []
    for one in landings:
        if labels and one["at"] - labels[-1]["last"] <= NEAR * axis.seconds:
            labels[-1].update(last=one["at"], text=f"{labels[-1]['text']}, {one['how']}")
        else:
            labels.append({"first": one["at"], "last": one["at"], "text": f"landing: {one['how']}"})
    resumed, resumptions = [], []
    for span in axis.spans[1:]:
        words = f"at {clock(span.offset)} the run was resumed, {lasted(span.pause)} after it stopped"
        resumptions.append({"at": span.offset, "words": words})
        resumed.append({"first": span.offset, "last": span.offset, "text": "resumed"})
    return {
        "limited": any(kind["lines"] for kind in kinds),
        "seconds": axis.seconds,
        "top": min(max([1.0, *shares]) * _HEADROOM, _HIGHEST),
        "kinds": kinds,
        "bands": _bands(run, axis),
        "landings": landings,
        "labels": [*resumed, *labels],
        "resumptions": resumptions,
    }


def _limits(run: StoredRun, axis: Axis) -> Iterator[_Limits]:
    """Yield the limits in chronological order."""
    first = {str(event.body["event"]): event.body for event in events_of(run, "started", "forked")[::-1]}
    known = {key: spent["limit"] for key, spent in (run.outcome or {}).get("limits", {}).items()}
    # The copied turns of a fork are older than it is; of them only what counts against the limits is spent.
    copied = first.get("forked", {}).get("used", {})
    yield run.started_at, first.get("started", {}).get("limits") or run.frozen.get("limits") or known, copied
    for span in axis.spans[1:]:
        if limits := span.resumed.get("limits"):
            yield span.begin, limits, span.resumed.get("used") or {}


def _spent(run: StoredRun) -> Iterator[_SpendingPoint]:
    """Yield the amounts that the run spent, except time."""
    for turn in run.turns:
        yield turn.at, Kind.TURNS, 1
        yield turn.at, Kind.TOKENS, turn.reply.usage.total_tokens
        yield turn.at, Kind.COST, turn.cost_usd or 0
    for call in run.calls:
        yield call.at, Kind.TOOL_CALLS, 1
        yield call.at, Kind.CHARACTERS, len(call.text)
    for event in events_of(run, "summarized"):
        yield event.at, Kind.TOKENS, Usage(**event.body["usage"]).total_tokens
        yield event.at, Kind.COST, event.body["cost_usd"] or 0


def _kind(
    kind: Kind, run: StoredRun, axis: Axis, valid: Sequence[_Limits], spent: Sequence[_SpendingPoint]
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
    outcome_limits = (run.outcome or {}).get("limits", {})
    stored = run.snapshot.used.get(kind, 0) if run.snapshot else 0
    final: float | None = outcome_limits[kind]["used"] if kind in outcome_limits else max(stored, used)
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


def _bands(run: StoredRun, axis: Axis) -> list[dict[str, Any]]:
    """Return the phases in order, from the `budget` and `landing` events."""
    first = {str(event.body["event"]): event.body for event in events_of(run, "started", "forked")[::-1]}
    phase = Phase.SILENT
    if forked := first.get("forked"):
        # The first phase of a fork follows from the copied turns.
        phase = _phase(run, {**first.get("started", {}), "used": forked["used"]})
    # A landing has no phase.
    later = events_of(run, "budget", "landing")
    changes = [(0.0, phase), *((axis(one.at), Phase(one.body.get("phase", Phase.SPENT))) for one in later)]
    changes += [(one.offset, _phase(run, one.resumed)) for one in axis.spans[1:]]
    found: list[dict[str, Any]] = [{"phase": Phase.SILENT.value, "begin": 0.0, "end": 0.0}]
    for (at, phase), (until, _) in pairwise([*sorted(changes, key=lambda one: one[0]), (axis.seconds, Phase.SILENT)]):
        if until > at and phase.value != found[-1]["phase"]:
            found.append({"phase": phase.value, "begin": at, "end": until})
        found[-1]["end"] = max(found[-1]["end"], until)
    return [one for one in found if one["end"] > one["begin"]] or found


def _phase(run: StoredRun, resumed: Mapping[str, Any]) -> Phase:
    """Return the phase at the start of a resumed run."""
    countdown = (run.frozen.get("settings") or {}).get("countdown")
    start = countdown.get("from", COUNTDOWN_FROM) if isinstance(countdown, Mapping) else COUNTDOWN_FROM
    limits, used = resumed.get("limits") or {}, resumed.get("used") or {}
    budget = Budget.of({kind: limits.get(kind) for kind in Kind}, start)
    return budget.spend_all({kind: used.get(kind, 0) for kind in Kind}).phase


# Number of turns with a common time scale.
_GROUP = 25


def timeline(run: StoredRun, axis: Axis, marks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the turns in groups, each with its own time scale and the marks between turns; in working time [s]."""
    calls = calls_by_turn(run)
    rows = [_row(turn, calls[turn.number], axis) for turn in run.own_turns]
    # The total time covered by at least one call.
    calling, until = 0.0, float("-inf")
    for begin, end in sorted((one["begin"], one["begin"] + one["seconds"]) for row in rows for one in row["calls"]):
        calling += max(end - max(begin, until), 0)
        until = max(until, end)
    return {
        "seconds": axis.seconds,
        "turns": len(rows),
        "calls": sum(len(row["calls"]) for row in rows),
        "marks": marks,
        "groups": list(_groups(rows, marks)),
        "asking": sum(row["seconds"] for row in rows),
        "calling": calling,
    }


def _row(turn: Received, calls: Sequence[Returned], axis: Axis) -> dict[str, Any]:
    begin = axis(turn.at - turn.seconds)
    shown = list(_in_lanes(calls, axis))
    by_api = {use.call.id for use in server_calls(turn.reply.content)}
    words = [f"request {lasted(turn.seconds)}"]
    for number, call in enumerate(calls):
        # The duration of a call that the API has run during its request is unknown.
        took = "by the API" if call.call.id in by_api else "again" if call.repeated else lasted(call.seconds)
        words.append(f"{', ' if number else '; '}{call.call.name} {took}")
    return {
        "turn": turn.number,
        "begin": begin,
        "seconds": axis(turn.at) - begin,
        "end": max([axis(turn.at), *(one["begin"] + one["seconds"] for one in shown)]),
        "landing": turn.landing,
        "calls": shown,
        "lanes": 1 + max((one["lane"] for one in shown), default=-1),
        "words": "".join(words),
    }


def _in_lanes(calls: Sequence[Returned], axis: Axis) -> Iterator[dict[str, Any]]:
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
    for start in range(0, len(rows), _GROUP):
        chosen = rows[start : start + _GROUP]
        first, last = chosen[0]["turn"], chosen[-1]["turn"]
        begin = min([chosen[0]["begin"], *(call["begin"] for call in chosen[0]["calls"])])
        end = max(row["end"] for row in chosen)
        up_to = float("inf") if start + _GROUP >= len(rows) else last
        between = [mark for mark in marks if (first <= mark["before"] or not start) and mark["before"] <= up_to]
        yield {
            "first": first,
            "last": last,
            "begin": min([begin, *(mark["at"] for mark in between)]),
            "end": max([end, *(mark["at"] for mark in between)]),
            "rows": chosen,
            "marks": between,
        }
