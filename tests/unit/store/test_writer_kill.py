"""No acknowledged record is lost, whenever the process is killed; KILLS=200 sets the number of kills."""

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace

from tests.plugins.tiers import examples, seed
from tests.unit.store.killed import CHILDREN, output
from tests.unit.store.records import ask, stored, turn_of, unpacked, write

KILLS = int(os.environ.get("KILLS", examples(20) // 2 * 2))
SEED = seed()


def killed(url: str) -> dict[str, int]:
    """Kill pairs of writers; return the newest acknowledged turn of each run."""
    command = [sys.executable, "-m", "tests.unit.store.killed", url, str(KILLS // 2), str(SEED)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0), f"seed {SEED}"
    told: dict[str, int] = {}
    for line in done.stdout.splitlines():
        run_id, turn = line.split()
        told[run_id] = max(int(turn), told.get(run_id, 0))
    return told


def numbers(url: str, query: str) -> dict[str, list[int]]:
    """Return the numbers that a query finds for each run, sorted."""
    found: dict[str, list[int]] = {}
    for run_id, number in ask(url, query):
        found.setdefault(run_id, []).append(number)
    return {run_id: sorted(those) for run_id, those in found.items()}


def test_s4_4_acknowledged_records_survive_a_kill(store_url, make_writer):
    """Each acknowledged turn has its reply, call, entire output and messages, and the run can be resumed."""
    told = killed(store_url)
    assert len(told) >= KILLS // 2
    queries = {table: f"select run_id, number from {table}" for table in ("turns", "calls")}  # noqa: S608 - fixed
    queries["messages"] = "select run_id, place from messages"
    kept = {table: numbers(store_url, query) for table, query in queries.items()}
    runs = {run_id: unpacked(snapshot) for run_id, snapshot in ask(store_url, "select run_id, standing from runs")}
    assert set(told) <= set(runs)
    done = {run_id: json.loads(snapshot)["used"]["turns"] if snapshot else 0 for run_id, snapshot in runs.items()}
    for run_id, turns in done.items():
        assert turns >= told.get(run_id, 0)
        assert kept["messages"].get(run_id, []) == (list(range(2 * turns + 1)) if runs[run_id] else [])
        # One more reply and then its call may have been stored; neither was acted upon.
        newest = [len(kept[table].get(run_id, [])) for table in ("turns", "calls")]
        assert newest in ([turns, turns], [turns + 1, turns], [turns + 1, turns + 1])
        for table, number in zip(("turns", "calls"), newest, strict=True):
            assert kept[table].get(run_id, []) == list(range(1, number + 1))
    bodies = ask(store_url, "select number, body from calls")
    assert all(json.loads(unpacked(body))["whole"] == output(number) for number, body in bodies)
    if store_url.startswith("sqlite"):
        assert ask(store_url, "pragma integrity_check") == [("ok",)]
    unheard = sum(done.values()) - sum(told.values())
    figures = f"{KILLS} killed, {len(runs)} runs, {sum(told.values())} turns told, {unheard} kept and not told"
    print(figures)  # noqa: T201 - for a manual run with more kills
    for run_id in list(told)[:CHILDREN]:
        calls = len(kept["calls"][run_id])
        run = replace(stored(run_id, calls), turns=(None,) * len(kept["turns"][run_id]))
        assert asyncio.run(write(make_writer(store_url).claim(run), *turn_of(calls + 1))) is None
