"""A run is killed at every point of storing its records, and resumed in another process."""

import itertools
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from run_specialist.record.messages import Usage
from run_specialist.store.location import file_of
from run_specialist.store.stored import StoredRun
from tests.crash.boundary import NOTES
from tests.crash.checks import ReceivedRequest, broken_off, check_ended, check_stored_run, finished, stored
from tests.crash.fork_server import KILLED, ForkServer
from tests.crash.watched_program import Milestones, WatchedProgram

PLACES = [("half", 4), ("kept", 9), ("kept", 4), ("queued", 9), ("asked", 4), ("waited", 9)]
"""Point of the kill, and limit of tool calls: with 9 the run answers by itself, with 4 it lands."""


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """Start a fork server, which launches programs quickly."""
    with ForkServer() as started:
        yield started


@dataclass
class Case:
    """One run, killed at one point."""

    fork_server: ForkServer
    store: str
    folder: Path
    name: str
    limit: int

    def go(self, run_id: str, at: str, number: int) -> int:
        """Start or resume the run; return the exit code."""
        logs = str(self.folder / self.name)
        command = ["boundary", self.store, logs, self.name, run_id, at, str(number), str(self.limit)]
        program = WatchedProgram(self.fork_server, command, self.folder, {}, Milestones())
        code = program.end()
        assert code in {0, KILLED}, program.said
        return code

    def lines(self, what: str) -> list[Any]:
        """Return the lines of one of the run's log files."""
        path = self.folder / f"{self.name}-{what}"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The requests of the run, without those for notes."""
        asked = [line for line in self.lines("asked") if "notes" not in line]
        return [ReceivedRequest(one["messages"], one["content"], Usage(**one["usage"])) for one in asked]

    def look(self) -> StoredRun | None:
        """Return the stored run, or None if it is not stored."""
        return stored(self.store, self.name)

    def check(self, run: StoredRun, *, ended: bool = False) -> None:
        """Check the stored run and the executed calls."""
        kept = (check_ended if ended else check_stored_run)(run, self.requests, self.limit, self._for_notes(run))
        assert kept.lost <= 2
        begun = Counter(query for what, query in self.lines("executed") if what == "begun")
        assert set(begun.values()) <= {1}, f"run twice: {begun}"
        never = [row for row in run.calls if row.call.name == "look" and not broken_off(row)]
        assert {(row.call.arguments or {})["query"] for row in never} <= set(begun)
        fronts = {line["front"] for line in self.lines("asked") if "front" in line}
        assert len(fronts) <= 1

    def _for_notes(self, run: StoredRun) -> Usage:
        """Return the usage booked for summaries: a whole number of requests, at least one per stored summary."""
        booked, turns = (run.snapshot.total.usage, run.snapshot.turns) if run.snapshot else (Usage(), 0)
        count = (
            booked.input_tokens - sum(turn.reply.usage.input_tokens for turn in run.turns[:turns])
        ) // NOTES.input_tokens
        parts = max((one.part for one in run.messages), default=0)
        assert parts <= count <= sum("notes" in line for line in self.lines("asked"))
        return sum([NOTES] * count, Usage())


def check_resumed(before: StoredRun, lines_before: int, case: Case) -> None:
    """Check that the first request after a kill begins with the last one before, unless a summary came between."""
    lines = case.lines("asked")
    earlier = [at for at, line in enumerate(lines[:lines_before]) if "messages" in line]
    later = [at for at, line in enumerate(lines) if at >= lines_before and "messages" in line]
    if not earlier or not later or any("notes" in line for line in lines[earlier[-1] : later[0]]):
        return
    last, first = lines[earlier[-1]], lines[later[0]]
    is_stored = any(list(turn.reply.content) == last["content"] for turn in before.turns)
    assert first["messages"][: len(last["messages"])] == last["messages"]
    assert is_stored is (len(first["messages"]) > len(last["messages"]))


@pytest.mark.exhaustive(one_in=len(PLACES))
@pytest.mark.parametrize(("at", "limit"), PLACES)
def test_s4_4_a_run_killed_at_any_boundary_can_be_resumed(fork_server, store_url, tmp_path, at, limit):
    """After a kill at any point the store is consistent; resumed, each call has one result and ran at most once."""
    # Every boundary with SQLite; every second one with PostgreSQL, where each takes three times as long.
    for number in itertools.count(1, 2 if store_url.startswith("postgresql") else 1):
        case = Case(fork_server, store_url, tmp_path, f"{at}-{number}", limit)
        code = case.go("", at, number)
        run = case.look()
        if code == 0:
            assert run is not None
            case.check(run, ended=True)
            break
        if run is None:
            assert len(case.requests) <= 1
            continue
        case.check(run)
        resume(case, run, number % 4 if at == "kept" and number % 2 else 0)
    assert number >= 5
    if file := file_of(store_url):
        with closing(sqlite3.connect(file)) as connection:
            assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def resume(case: Case, run: StoredRun, number: int) -> None:
    """Resume a run until it has its answer; kill it once more at the n-th record, unless `number` is 0."""
    while run.outcome is None:
        lines = len(case.lines("asked"))
        done = finished(run)
        code = case.go(run.run_id, "kept", number)
        check_resumed(run, lines, case)
        after = case.look()
        assert after is not None
        assert not done - finished(after)
        case.check(after, ended=code == 0)
        run, number = after, 0
