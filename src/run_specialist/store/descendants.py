"""The runs that a run asked, as the store holds them: also those that its process took down with it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, select

from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child
from run_specialist.store.from_rows import child, outcome, standing
from run_specialist.store.tables import events, runs, turns
from run_specialist.store.to_rows import RUNNING

PORTION = 1_000
"""As many ids go into one statement."""


def children(connection: Connection, run_id: str) -> tuple[Child, ...]:
    """Return what was asked by a run, in the order in which it began."""
    asked = select(runs).where(runs.c.parent_id == run_id).order_by(runs.c.started_at, runs.c.run_id)
    return tuple(_child(connection, row._asdict()) for row in connection.execute(asked).all())


def with_descendants(connection: Connection, ids: Sequence[str]) -> list[str]:
    """Return these runs and all that was asked below them."""
    found = dict.fromkeys(ids)
    newest = list(found)
    while newest:
        asked = (select(runs.c.run_id).where(runs.c.parent_id.in_(part)) for part in portions(newest))
        below = (run_id for wanted in asked for run_id in connection.execute(wanted).scalars())
        newest = [run_id for run_id in below if run_id not in found]
        found |= dict.fromkeys(newest)
    return list(found)


def portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield them in portions that one statement takes."""
    return (ids[at : at + PORTION] for at in range(0, len(ids), PORTION))


def _child(connection: Connection, run: Mapping[str, Any]) -> Child:
    told = outcome(run["outcome"])
    # While it is at work again, the outcome of before is not the last word.
    if told is not None and run["status"] != RUNNING:
        of_child = {key: told[key] for key in ("run_id", "specialist", "status", "usage", "cost_usd", "evidence")}
        return child({**of_child, "tool_calls": told["tool_calls"]["used"], "children": told.get("children", ())})
    stood = RunSnapshot({}) if run["standing"] is None else standing(json.loads(run["standing"]))
    below = children(connection, run["run_id"])
    total, used = stood.total, stood.used.get("tool_calls", 0) + _begun(connection, run["run_id"]) - stood.calls
    for usage, cost in _paid_since(connection, run["run_id"], stood.turns):
        total = total.plus(usage, cost)
    shared = json.loads(run["frozen"])["settings"]["share_budget"]
    for one in stood.untold(below):
        total = total.plus(one.usage, one.cost_usd)
        used += one.tool_calls if shared else 0
    return Child(run["run_id"], run["specialist"], "aborted", int(used), total.usage, total.cost_usd, children=below)


def _paid_since(connection: Connection, run_id: str, turn: int) -> Iterator[tuple[Usage, float | None]]:
    """Yield what the replies took that came in behind a turn, and what they cost."""
    amounts = (getattr(turns.c, one.name) for one in fields(Usage))
    newer = select(*amounts, turns.c.cost_usd).where(turns.c.run_id == run_id, turns.c.number > turn)
    for *counts, cost in connection.execute(newer):
        yield Usage(*counts), cost


def _begun(connection: Connection, run_id: str) -> int:
    """Return how many calls a run has begun, those too that were under way when its process ended."""
    told = connection.execute(select(events.c.body).where(events.c.run_id == run_id)).scalars()
    return sum(body["event"] == "tool_call" and body["phase"] == "started" for body in map(json.loads, told))
