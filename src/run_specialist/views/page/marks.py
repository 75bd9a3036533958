"""Events between the turns: landings, summaries, resumptions, and changes of the model."""

from collections.abc import Iterator
from typing import Any

from run_specialist.budget.budget import Kind
from run_specialist.budget.ladder import Rung
from run_specialist.store.stored import StoredEvent, StoredRun
from run_specialist.views.page.axis import Axis
from run_specialist.views.page.budget_chart import HOW
from run_specialist.views.page.formats import counted, lasted


def marks(run: StoredRun, axis: Axis) -> list[dict[str, Any]]:
    """Return the marks in order, each with the number of the next turn; at the end, one more than the last turn."""
    found = [*_resumptions(axis), *_landings_and_summaries(run)]
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


_Mark = tuple[float, str, str, str]


def _resumptions(axis: Axis) -> Iterator[_Mark]:
    for span in axis.resumptions:
        yield span.begin, "resumed", f"Resumed after {lasted(span.pause)}", str(span.resumed.get("note") or "")


def _landings_and_summaries(run: StoredRun) -> Iterator[_Mark]:
    for event in run.events:
        match event.body.get("event"):
            case "forked":
                yield event.at, "forked", f"Forked from {event.body['source']}", str(event.body["note"])
            case "model_changed":
                yield event.at, "changed", f"Continues with {event.body['model']}", _changed(event)
            case "landing":
                kind, how = Kind(event.body["reason"]), Rung(event.body["how"])
                yield event.at, "landing", f"Limit of {kind.label} reached: {HOW[how]}", ""
            case "summarized":
                yield event.at, "summarized", _summarized(event), str(event.body["summary"])


def _changed(event: StoredEvent) -> str:
    body = event.body
    failure = f"{body['before']} cannot answer: {body['reason']}"
    left_out = f"\n{body['left_out'].capitalize()} of {body['before']} were left out." if body["left_out"] else ""
    return failure + left_out


def _summarized(event: StoredEvent) -> str:
    body = event.body
    outputs = counted(body["archived"], "output")
    sizes = f"about {body['tokens_before']:,} tokens reduced to {body['tokens_after']:,}"
    return f"Summarized: {outputs} archived, {sizes}"
