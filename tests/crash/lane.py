"""Runs of the real command that are killed at random and resumed until they have their answer, checked each time."""

import json
import random
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from run_specialist.messages import Usage
from run_specialist.store.place import file_of
from run_specialist.store.reading import Store
from run_specialist.store.stored import StoredRun
from tests.crash.checks import Asked, broken_off, check_ended, check_kept, finished, unmarked
from tests.crash.going import Going, Milestones, WatchedSimulator
from tests.crash.model import Researcher
from tests.crash.nursery import KILLED, Start
from tests.wire.simulator import Recorded

MOMENTS = (("request", 5), ("reply", 5), ("call", 14), ("event", 50), ("event", 0))
"""What a process is killed after, and how many of them at most."""
MOST_KILLS = 5
"""Of one run, so that each comes to an end."""
SPECIALIST = "---\nname: finder\ndescription: Finds notes\n{}---\nYou find notes.\n"


@dataclass
class Tally:
    """What came of all kills."""

    kills: int = 0
    runs: int = 0
    requests: int = 0
    """That were answered."""
    calls: int = 0
    """That are stored."""
    lost_replies: int = 0
    """Answered and not stored: asked for once more."""
    told_and_lost: int = 0
    """Replies among those that the program had told of by an event."""
    broken_off: int = 0
    """Calls under way when their process was killed."""
    lost_outputs: int = 0
    """Calls among those that had just returned."""
    retried: int = 0
    """Calls among those that the model made once more."""
    not_on_record: int = 0
    """Processes that were killed before their run was stored."""
    after_the_end: int = 0
    """Processes that were killed when their run had its outcome already."""
    struck: Counter[str] = field(default_factory=Counter)
    """Kills by what was under way."""

    def __iadd__(self, other: "Tally") -> Self:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


class Kills:
    """How many are left, for all lanes together."""

    def __init__(self, count: int) -> None:
        self.left = count
        self._lock = threading.Lock()

    def take(self) -> None:
        """Note that one was made."""
        with self._lock:
            self.left -= 1


class Lane:
    """One run after another, with a simulated API of its own."""

    def __init__(self, seed: int, folder: Path, store: str | None = None, *, slow: float = 20) -> None:
        """Make a project to work in.

        store: URL of a store that others may share; None for SQLite files of its own.
        slow: the longest that a reply or a tool takes [ms].
        """
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self.tally = Tally()
        self._folder = folder
        self._shared = store
        self._slow = slow
        self._thinks = seed % 2 == 0
        self._model = Researcher(self._chance, thinks=self._thinks, slow=slow)
        self._milestones = Milestones()
        self._project = folder / "project"
        for name in (".git", "specialists", "notes", "home"):
            (self._project / name).mkdir(parents=True)
        lines = "".join(f"Line {number}: owl {number} eats {number} mice.\n" for number in range(1, 2_000))
        (self._project / "notes" / "owls.md").write_text(lines)
        self._store = store or ""

    def work(self, kills: Kills, start: Start) -> None:
        """Begin runs, kill and resume them for as long as kills are left; each comes to its end."""
        self._kills = kills
        with start as self._start, WatchedSimulator(self._model, self._milestones) as self._api:
            while kills.left:
                try:
                    self._one()
                except AssertionError as error:
                    error.add_note(f"in {self._question}, after {self.tally.kills} kills; store: {self._store}")
                    raise

    def _one(self) -> None:
        self.tally.runs += 1
        self._begin_store()
        self._question = f"Question {self.tally.runs} of {self._folder.name}: what do owls eat?"
        self._first_request = len(self._api.requests)
        self._log: list[tuple[str, str]] = []
        self._limit = self._chance.choice([None, 4, 7])
        limit = "none" if self._limit is None else self._limit
        specialist = SPECIALIST.format(f"tool_calls_limit: {limit}\nmodel: {'sonnet' if self._thinks else 'haiku'}\n")
        (self._project / "specialists" / "finder.md").write_text(specialist)
        self._model.calls, self._model.retried = self._chance.randint(5, 14), []
        kills, run = 0, None
        while True:
            going = self._go(run)
            if not (kills < MOST_KILLS and self._kills.left and self._strike(going)):
                code = going.end()
                self._log += going.told
                assert code == 0, going.said
                break
            if going.end(signal.SIGKILL) != KILLED:
                # It was faster than the signal.
                self._log += going.told
                break
            kills += 1
            self._kills.take()
            run = self._after(going, run)
            if run and run.outcome:
                self.tally.after_the_end += 1
                break
        self._at_the_end()

    def _begin_store(self) -> None:
        # A file that is not there yet is made while somebody is killed now and then.
        if self._shared is None and (not self._store or self._chance.random() < 0.3):
            self._store = f"sqlite:///{self._folder}/runs-{self.tally.runs}.db"

    def _go(self, run: StoredRun | None) -> Going:
        """Start the command, or go on with a run."""
        command = ["run-specialist", "finder", self._question] if run is None else ["specialists", "resume", run.run_id]
        env = {"ANTHROPIC_BASE_URL": self._api.base_url, "SLOW": str(self._slow), "HOME": str(self._project / "home")}
        self._asked_before = len(self._api.requests)
        command += ["--store", self._store, "--events"]
        return Going(self._start, command, self._project, env, self._milestones)

    def _strike(self, going: Going) -> bool:
        """Wait for the moment to kill; False when the process ended before."""
        kind, latest = self._chance.choice(MOMENTS)
        count = self._chance.randint(min(latest, 1), latest)
        longest = self._chance.choice([0, 0.005, 0.02]) if count else 0.5
        if not self._milestones.wait(kind, count):
            return False
        # No wait for anything: the moment itself is what is random.
        time.sleep(self._chance.uniform(0, longest))
        at = (
            (not going.events, "the start"),
            (going.calls_under_way, "tool calls"),
            (self._milestones.under_way, "a request"),
        )
        self._struck = next((moment for is_so, moment in at if is_so), "anything else")
        return not going.is_over

    def _after(self, going: Going, before: StoredRun | None) -> StoredRun | None:
        """Check what is stored once a process was killed."""
        self._milestones.settle()
        self._log += going.told
        asked = self._asked()
        self.tally.kills += 1
        self.tally.struck[self._struck] += 1
        self._check_first_request(before)
        run = self._look()
        if run is None:
            assert len(asked) <= 1, "more than one request was sent, and the run is not stored"
            self.tally.not_on_record += 1
            self.tally.lost_replies += len(asked)
            self._first_request, self._log = len(self._api.requests), []
            return None
        check_kept(run, asked, self._limit)
        self.tally.told_and_lost += sum(
            event["event"] == "reply" and event["turn"] > len(run.turns) for event in going.events
        )
        self._check_executed(run, before)
        if run.outcome is None:
            assert run.status == "interrupted"
        return run

    def _at_the_end(self) -> None:
        self._milestones.settle()
        run = self._look()
        assert run is not None
        asked = self._asked()
        kept = check_ended(run, asked, self._limit)
        self._check_executed(run, None)
        total = sum((one.usage for one in asked), Usage())
        assert total.total_tokens >= Usage(**(run.outcome or {})["usage"]).total_tokens
        if self._limit is not None:
            assert len(run.calls) <= self._limit
        self.tally.requests += len(asked)
        self.tally.calls += len(run.calls)
        self.tally.lost_replies += kept.lost
        returned = Counter(key for what, key in self._log if what == "returned")
        gone = [row for row in run.calls if broken_off(row)]
        self.tally.broken_off += len(gone)
        self.tally.lost_outputs += sum(returned[row.call.key] > finished(run)[row.call.key] for row in gone)
        self.tally.retried += len(self._model.retried)

    def _check_executed(self, run: StoredRun, before: StoredRun | None) -> None:
        """No call was run twice, but for those that the model made again because their result was lost."""
        begun = Counter(key for what, key in self._log if what == "begun")
        again = Counter(row.call.key for row in run.calls if broken_off(row))
        twice = [key for key, count in begun.items() if count > 1 + again[key]]
        assert not twice, f"run twice: {twice}"
        never = [key for key in finished(run) if not begun[key]]
        assert not never, f"stored and never run: {never}"
        repeated = [row.whole for row in run.calls if row.repeated]
        assert not repeated, f"a call is answered from a record that holds no output: {repeated}"
        if before is not None:
            assert not finished(before) - finished(run)

    def _check_first_request(self, before: StoredRun | None) -> None:
        """What is asked first after a kill begins with the bytes that were sent last, system prompt and tools too."""
        requests = self._api.requests
        accepted = [one for one in requests[self._first_request : self._asked_before] if one.status == 200]
        now = [one for one in requests[self._asked_before :] if one.status == 200]
        if before is None or not accepted or not now:
            return
        last, first = accepted[-1], now[0]
        answered = any(list(turn.blocks) == last.content for turn in before.turns)
        assert _front(last) == _front(first)
        beginning = _said(last)
        assert _said(first).startswith(beginning), f"{_said(first)!r}\ndoes not begin with\n{beginning!r}"
        assert answered is (len(_said(first)) > len(beginning))

    def _asked(self) -> list[Asked]:
        requests = self._api.requests[self._first_request :]
        return [Asked(unmarked(one.messages), one.content, _usage(one)) for one in requests if one.status == 200]

    def _look(self) -> StoredRun | None:
        """Read the run, from a copy where the store is a file, so that the next process finds it as it was left."""
        store = self._store
        if (file := file_of(store)) is not None:
            if not file.exists() or not file.read_bytes()[:100]:
                return None
            copy = self._folder / "copy.db"
            for end in ("", "-wal", "-journal"):
                copy.with_name(f"copy.db{end}").unlink(missing_ok=True)
                if (part := file.with_name(f"{file.name}{end}")).exists():
                    shutil.copyfile(part, copy.with_name(f"copy.db{end}"))
            with sqlite3.connect(copy) as connection:
                assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
                if not connection.execute("select 1 from sqlite_schema where name = 'runs'").fetchall():
                    return None
            connection.close()
            store = f"sqlite:///{copy}"
        with Store(store) as opened:
            found = [one for one in opened.runs() if one.question == self._question]
            return opened.load(found[0].run_id) if found else None


def _usage(request: Recorded) -> Usage:
    return Usage(**{name: request.usage[name] for name in Usage.__dataclass_fields__})


def _front(request: Recorded) -> str:
    return json.dumps([request.body["system"], request.body["tools"], request.body["model"]])


def _said(request: Recorded) -> bytes:
    return request.raw.partition(b'"messages":[')[2].removesuffix(b"]}")
