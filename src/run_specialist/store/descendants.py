"""Stored child runs of a run, including those that were interrupted with their parent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from sqlalchemy import Connection, select

from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, merged_changes
from run_specialist.record.server_calls import searches
from run_specialist.store.from_rows import child, file_change, outcome, run_snapshot
from run_specialist.store.tables import events, runs, turns
from run_specialist.store.to_rows import RUNNING

PORTION = 1_000
"""Maximum number of ids per statement."""


def children(connection: Connection, run_id: str) -> tuple[Child, ...]:
    """Return the children of a run, in the order of their start."""
    query = select(runs).where(runs.c.parent_id == run_id).order_by(runs.c.started_at, runs.c.run_id)
    return tuple(_child(connection, row._asdict()) for row in connection.execute(query).all())


def with_descendants(connection: Connection, ids: Sequence[str]) -> list[str]:
    """Return the ids of these runs and of all their descendants."""
    found = dict.fromkeys(ids)
    newest = list(found)
    while newest:
        queries = (select(runs.c.run_id).where(runs.c.parent_id.in_(part)) for part in portions(newest))
        below = (run_id for query in queries for run_id in connection.execute(query).scalars())
        newest = [run_id for run_id in below if run_id not in found]
        found |= dict.fromkeys(newest)
    return list(found)


def portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in portions small enough for one statement."""
    return (ids[at : at + PORTION] for at in range(0, len(ids), PORTION))


def _child(connection: Connection, run: Mapping[str, Any]) -> Child:
    final = outcome(run["outcome"])
    # The outcome of a run that was resumed and is running again is outdated.
    if final is not None and run["status"] != RUNNING:
        of_child = {key: final[key] for key in ("run_id", "specialist", "status", "usage", "cost_usd", "evidence")}
        kin = {"children": final.get("children", ()), "changes": final.get("changes", ())}
        return child({**of_child, "tool_calls": final["tool_calls"]["used"], **kin})
    snapshot = RunSnapshot({}) if run["standing"] is None else run_snapshot(json.loads(run["standing"]))
    below = children(connection, run["run_id"])
    total = snapshot.total
    used = snapshot.used.get("tool_calls", 0) + _begun(connection, run["run_id"]) - snapshot.calls
    for usage, cost in _paid_since(connection, run["run_id"], snapshot.turns):
        total = total.plus(usage, cost)
    shared = json.loads(run["frozen"])["settings"]["share_budget"]
    for one in snapshot.missing_children(below):
        total = total.plus(one.usage, one.cost_usd)
        used += one.tool_calls if shared else 0
    changed = (file_change(body) for body in _events(connection, run["run_id"]))
    changes = [*filter(None, changed), *(one for inner in below for one in inner.changes)]
    return Child(
        run["run_id"],
        run["specialist"],
        "aborted",
        int(used),
        total.usage,
        total.cost_usd,
        children=below,
        changes=merged_changes(changes),
    )


def _paid_since(connection: Connection, run_id: str, turn: int) -> Iterator[tuple[Usage, float | None]]:
    """Yield usage and cost of the replies received after a turn."""
    amounts = (turns.c[one.name] for one in fields(Usage) if one.name in turns.c)
    newer = select(*amounts, turns.c.blocks, turns.c.cost_usd).where(turns.c.run_id == run_id, turns.c.number > turn)
    for *counts, blocks, cost in connection.execute(newer):
        yield replace(Usage(*counts), web_search_requests=searches(json.loads(blocks))), cost


def _begun(connection: Connection, run_id: str) -> int:
    """Return the number of calls that a run has started, including those in progress when its process ended."""
    bodies = _events(connection, run_id)
    return sum(body["event"] == "tool_call" and body["phase"] == "started" for body in bodies)


def _events(connection: Connection, run_id: str) -> Iterator[Mapping[str, Any]]:
    query = select(events.c.body).where(events.c.run_id == run_id).order_by(events.c.number)
    return map(json.loads, connection.execute(query).scalars())
