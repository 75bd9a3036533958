"""A run is killed at every point of storing its records, and resumed in another process."""

import itertools
import json
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from run_specialist import prompts
from run_specialist.cli import manage
from run_specialist.loop.job import EarlierCalls, Executed, ResumeState
from run_specialist.prompts import PROCESS_ENDED, SAME_CALL, STOPPED
from run_specialist.record.journal import RunSnapshot
from run_specialist.record.messages import ToolCall, Usage
from run_specialist.store.location import file_of
from run_specialist.store.stored import StoredRun
from tests.crash.boundary import NOTES
from tests.crash.checks import ReceivedRequest, broken_off, check_ended, check_stored_run, finished, stored
from tests.crash.kill_loop import KillLoop, Kills
from tests.crash.program import EDIT, command_line, runner_of
from tests.forked_program import ForkedProgram, run_forked
from tests.loop_jobs import LOOK, job, outcome_of, results
from tests.plugins.tiers import seed
from tests.scripted_provider import ScriptedProvider, calls, says

PLACES = [("half", 4), ("kept", 9), ("queued", 9), ("asked", 4), ("waited", 9)]
"""Point of the kill, and limit of tool calls: with 9 the run answers by itself, with 4 it lands."""


@dataclass
class Case:
    """One run, killed at one point."""

    store: str
    folder: Path
    name: str
    limit: int

    def go(self, run_id: str, at: str, number: int) -> int:
        """Start or resume the run; return the exit code."""
        logs = str(self.folder / self.name)
        command = command_line("boundary", self.store, logs, self.name, run_id, at, str(number), str(self.limit))
        done = run_forked(command, cwd=self.folder, capture_output=True)
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr.decode()
        return done.returncode

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
def test_s4_4_a_run_killed_at_any_boundary_can_be_resumed(request, store_url, tmp_path, at, limit):
    """After a kill at any point the store is consistent; resumed, each call has one result and ran at most once."""
    # With SQLite each third boundary, others in each run; a few with PostgreSQL, where each takes three times as long,
    # and in an ordinary run.
    few = store_url.startswith("postgresql") or not request.config.getoption("--exhaustive")
    numbers = itertools.count(2, 6) if few else itertools.count(1 + seed() % 3, 3)
    for number in numbers:
        case = Case(store_url, tmp_path, f"{at}-{number}", limit)
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
        resume(case, run, number % 4 if at == "kept" else 0)
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


# A process that is killed while it replaces a file: the run is resumed, and its change is taken back.
FILE = "---\nname: fixer\ndescription: Fixes.\ntools: read, edit\nwritable: docs/\n---\nYou fix.\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize(("moment", "content", "files"), [("before", "one\ntwo\n", 2), ("after", "one\n2\n", 1)])
async def test_a_killed_edit_is_not_repeated_and_can_be_undone(tmp_path, monkeypatch, moment, content, files):
    """The model learns that it is not known what was changed, and must read the file again; undo knows both states."""
    root = tmp_path / "root"
    for name, text in {".git/x": "", "docs/a.md": "one\ntwo\n", "specialists/fixer.md": FILE}.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    monkeypatch.chdir(root)
    killed = run_forked(command_line("edit", str(root), moment), capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert ((root / "docs/a.md").read_text(), len([*(root / "docs").iterdir()])) == (content, files)
    async with runner_of(root, calls(EDIT, first_id=3), says("done")) as runner:
        run = await runner.resume("last")
        outcome = await run.outcome()
    results = [block for message in run.transcript for block in message.content if block["type"] == "tool_result"]
    assert results[1]["content"].startswith(prompts.PROCESS_ENDED.format(tool="edit"))
    assert "docs/a.md was not read yet in this run; read it first" in results[2]["content"]
    assert (outcome.status, (root / "docs/a.md").read_text()) == ("answered", content)
    words = ["undo", outcome.run_id, "--store", f"sqlite:///{root}.db", "--root", str(root)]
    assert CliRunner().invoke(manage.app, words).exit_code == 0
    assert [(path.name, path.read_text()) for path in (root / "docs").iterdir()] == [("a.md", "one\ntwo\n")]


# Bugs found by random kills, each as a deterministic test.
@pytest.mark.parametrize(
    ("earlier", "again"),
    [
        (Executed(ToolCall("call_1", "look", {}), STOPPED.format(tool="look"), is_error=True), "note on '', part 0"),
        (Executed(ToolCall("call_1", "look", {}), PROCESS_ENDED.format(tool="look"), is_error=True), "note on ''"),
        (Executed(ToolCall("call_1", "look", {}), "what it said"), f"what it said\n{SAME_CALL}"),
    ],
    ids=["stopped", "process ended", "returned"],
)
async def test_x_13_an_interrupted_call_runs_when_it_is_repeated(earlier, again):
    """A repeatable call that was interrupted has no recorded result, so it runs if it is made after two resumes."""
    provider = ScriptedProvider([calls(("look", {}), first_id=2), says("Known.")])
    past = ResumeState(
        RunSnapshot({"tool_calls": 1, "turns": 1}, calls=1), earlier=EarlierCalls({1: earlier}, started=1)
    )
    tools = (replace(LOOK, repeatable=True),)
    await outcome_of(job(provider, 9, tools=tools, augmenters=(), resume_state=past))
    assert results(provider.requests[1].messages[-1])[0].startswith(again)


@pytest.mark.exhaustive
def test_s3_6_a_run_stopped_at_random_can_be_resumed(tmp_path):
    """After 5 SIGINT, SIGTERM or SIGKILL, `specialists runs` lists `aborted` or `interrupted`; no data is lost.

    A process that is struck before it has stored anything, or after its answer, leaves neither of these; then 3 more
    are struck, at most three times.
    """
    loop = KillLoop(3, tmp_path, signals=[signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    for kills in (5, 3, 3, 3):
        loop.work(Kills(kills), ForkedProgram)
        if {"aborted", "interrupted"} <= set(loop.counts.left_as):
            break
    assert set(loop.counts.left_as) <= {"aborted", "interrupted", "answered", "landed"}
    assert loop.counts.left_as["aborted"]
    assert loop.counts.left_as["interrupted"]
