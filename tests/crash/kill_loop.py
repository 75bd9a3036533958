"""Runs of the real command, killed at random and resumed until they answer; the store is checked after each kill."""

import itertools
import json
import os
import random
import secrets
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from run_specialist.record import messages
from run_specialist.record.messages import Stop, Usage
from run_specialist.store.stored import StoredRun
from tests.crash.checks import (
    BROKEN_OFF,
    ReceivedRequest,
    broken_off,
    check_ended,
    check_stored_run,
    finished,
    look,
    unmarked,
)
from tests.crash.program import REPORT, command_line
from tests.wire.simulator import MessagesSimulator, Recorded, Reply
from tests.wire.simulator.policies import ordered_to_respond
from tests.wire.simulator.prompt import as_blocks
from tests.wire.simulator.replies import respond, says, thinking, tool_use

PATIENCE = 120.0
"""Timeout, after which a hanging program fails the test [s]."""
FOREIGN = ("ANTHROPIC_", "OPENAI_", "SPECIALIST_")
"""Beginnings of the names of the user's variables that no program gets."""
Start = type[subprocess.Popen]
"""How programs are started: `Popen`, as users start them, or `ForkedProgram`, ten times faster."""


Call = tuple[str, Mapping[str, Any]]


class Researcher:
    """A model that makes one to four calls per turn, all different, and answers after some or when told to."""

    def __init__(self, chance: random.Random, *, thinks: bool, slow: float) -> None:
        """Set the source of randomness and the options.

        thinks: Whether replies begin with a thinking block, after which the earlier messages must not change.
        slow: Maximum delay of a reply [ms].
        """
        self._chance = chance
        self._thinks = thinks
        self._slow = slow
        self._numbers = itertools.count(1)
        self.calls = 8
        """Number of calls after which it answers."""
        self.retried: list[str] = []
        """Ids of the interrupted calls that it made again."""

    def __call__(self, request: Recorded) -> Reply:
        """Return the reply to a request."""
        number = next(self._numbers)
        forced = (request.tool_choice or {"type": "auto"})["type"] != "auto"
        thoughts = [thinking(f"Thought {number}.")] if self._thinks and not forced else []
        if forced or request.calls_so_far >= self.calls or ordered_to_respond(request):
            content = [respond(f"Answer {number}: owls eat mice.")]
        else:
            content = [tool_use(*call) for call in self._wishes(request)]
        return says(*thoughts, *content, delay=self._chance.uniform(0, self._slow / 1_000))

    def _wishes(self, request: Recorded) -> list[Call]:
        wishes = [self._fresh() for _ in range(self._chance.randint(1, 4))]
        broken_off = [call_id for call_id, text in request.results.items() if text.startswith(BROKEN_OFF)]
        if broken_off and self._chance.random() < 0.5:
            self.retried.append(broken_off[0])
            wishes[0] = _made_by(request, broken_off[0])
        return wishes

    def _fresh(self) -> Call:
        number = next(self._numbers)
        return self._chance.choice(
            [
                ("search", {"query": f"owls {number}"}),
                ("grep", {"pattern": f"owl {number}|mice"}),
                ("read", {"path": "notes/owls.md", "offset": number}),
                ("glob", {"pattern": f"**/*{number}*"}),
                ("read", {"path": f"notes/nothing-{number}.md"}),
            ]
        )


def _made_by(request: Recorded, call_id: str) -> Call:
    blocks = [block for message in request.messages for block in as_blocks(message["content"])]
    return next((block["name"], block["input"]) for block in blocks if block.get("id") == call_id)


class Milestones:
    """Counts the externally visible steps of a program: requests, replies, events, tool calls."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passed: Counter[str] = Counter()
        self._asked = self._answered = 0
        self._is_over = False

    def begin(self) -> None:
        """Count from 0 for the next process."""
        with self._changed:
            self._passed.clear()
            self._is_over = False

    def pass_one(self, kind: str) -> None:
        """Count one more `request`, `reply`, `event` or `call`; a call counts when it begins and when it returns."""
        with self._changed:
            self._passed[kind] += 1
            self._asked += kind == "request"
            self._answered += kind == "reply"
            self._changed.notify_all()

    def end(self) -> None:
        """Record that the program has ended."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def wait(self, kind: str, count: int) -> bool:
        """Wait until so many milestones of a kind are reached; return False if the program ended before."""
        with self._changed:
            passed = self._changed.wait_for(lambda: self._passed[kind] >= count or self._is_over, PATIENCE)
            assert passed, "the program hangs"
            return self._passed[kind] >= count

    @property
    def under_way(self) -> bool:
        """Whether the server is processing a request."""
        with self._changed:
            return self._asked > self._answered

    def settle(self) -> None:
        """Wait until the server has answered all requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._asked == self._answered, PATIENCE), "the server hangs"


class WatchedSimulator(MessagesSimulator):
    """A simulated API that counts its requests and replies as milestones."""

    def __init__(self, replies: Any, milestones: Milestones) -> None:
        super().__init__(replies)
        self._milestones = milestones

    def _answer(self, *arguments: Any) -> None:
        self._milestones.pass_one("request")
        try:
            super()._answer(*arguments)
        finally:
            self._milestones.pass_one("reply")


class WatchedProgram:
    """One process of a command, until it ends or is killed."""

    def __init__(
        self, start: Start, command: Sequence[str], where: Path, env: Mapping[str, str], milestones: Milestones
    ) -> None:
        self._lines: list[bytes] = []
        self.told: list[tuple[str, str]] = []
        """Its reports of tool calls: `begun` or `returned`, and the tool with its arguments."""
        self._errors: list[bytes] = []
        self._milestones = milestones
        milestones.begin()
        bare = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        self._process = start(
            command_line(*command), cwd=where, env={**bare, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        outputs = (self._process.stdout, self._print), (self._process.stderr, self._tell)
        self._readers = [threading.Thread(target=_read, args=each, daemon=True) for each in outputs]
        for reader in self._readers:
            reader.start()
        threading.Thread(target=self._end_all, daemon=True).start()

    def _print(self, line: bytes) -> None:
        self._lines.append(line)
        self._milestones.pass_one("event")

    def _tell(self, line: bytes) -> None:
        if line.startswith(REPORT):
            what, key = json.loads(line.removeprefix(REPORT))
            self.told.append((what, key))
            self._milestones.pass_one("call")
        else:
            self._errors.append(line)

    def _end_all(self) -> None:
        for reader in self._readers:
            reader.join()
        self._milestones.end()

    @property
    def printed(self) -> bytes:
        """Its standard output."""
        return b"".join(self._lines)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events that it printed, one per line."""
        return [json.loads(line) for line in self._lines]

    @property
    def is_over(self) -> bool:
        """Whether it has closed all its outputs."""
        return not any(reader.is_alive() for reader in self._readers)

    def end(self, signal: int | None = None) -> int:
        """Send a signal if one is given, wait for the process to end, and return its exit code."""
        if signal is not None:
            self._process.send_signal(signal)
        for reader in self._readers:
            reader.join(PATIENCE)
            assert not reader.is_alive(), "the program hangs"
        return self._process.wait(PATIENCE)

    @property
    def said(self) -> str:
        """Its standard error."""
        return b"".join(self._errors).decode()

    @property
    def calls_under_way(self) -> int:
        """Number of calls that have begun and not returned."""
        begun = sum(what == "begun" for what, _ in self.told)
        return begun - sum(what == "returned" for what, _ in self.told)


def _read(file: IO[bytes], take: Callable[[bytes], object]) -> None:
    with file:
        for line in file:
            # The last line of a killed program may be incomplete.
            if line.endswith(b"\n"):
                take(line)


MOMENTS = (("request", 5), ("reply", 5), ("call", 14), ("event", 50), ("event", 0))
"""The milestones after which a process is killed, and the highest count of each."""
FAREWELLS = {signal.SIGINT: 130, signal.SIGTERM: 130}
"""Exit codes of a process that handles these signals."""
MOST_KILLS = 5
"""Maximum number of kills per run, so that each run ends."""
SPECIALIST = "---\nname: finder\ndescription: Finds notes\n{}---\nYou find notes.\n"


@dataclass
class KillCounts:
    """Counts of all kills and of their effects."""

    kills: int = 0
    runs: int = 0
    requests: int = 0
    """Number of answered requests."""
    calls: int = 0
    """Number of stored calls."""
    lost_replies: int = 0
    """Replies that were sent but not stored, so that the requests were repeated."""
    told_and_lost: int = 0
    """Replies among them that the program had already reported as an event."""
    broken_off: int = 0
    """Calls that were running when their process was killed."""
    lost_outputs: int = 0
    """Calls among them that had just returned."""
    retried: int = 0
    """Calls among them that the model made again."""
    not_on_record: int = 0
    """Processes killed before their run was stored."""
    after_the_end: int = 0
    """Processes killed after the outcome of their run was stored."""
    struck: Counter[str] = field(default_factory=Counter)
    """Kills by the activity that they interrupted."""
    left_as: Counter[str] = field(default_factory=Counter)
    """Kills by the status of the run afterwards."""

    def __iadd__(self, other: "KillCounts") -> Self:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


class Kills:
    """The remaining kills of all parallel loops together; below 0 if two loops took the last one."""

    def __init__(self, count: int) -> None:
        self.left = count
        self._lock = threading.Lock()

    def take(self) -> None:
        """Subtract one kill."""
        with self._lock:
            self.left -= 1


class KillLoop:
    """Kills and resumes runs one after another against one simulated API."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        store: str | None = None,
        *,
        signals: Sequence[signal.Signals] = (signal.SIGKILL,),
        slow: float = 20,
    ) -> None:
        """Create a project for the runs.

        store: URL of a store that others may share; None for separate SQLite files.
        signals: Signals that end the processes.
        slow: Maximum delay of a reply or a tool [ms].
        """
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self.counts = KillCounts()
        self._folder = folder
        self._shared = store
        self._signals = signals
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
        """Start runs, kill them and resume them until they answer, as long as kills are left."""
        self._kills, self._start = kills, start
        with WatchedSimulator(self._model, self._milestones) as self._api:
            while kills.left > 0:
                try:
                    self._one()
                except AssertionError as error:
                    error.add_note(f"in {self._question}, after {self.counts.kills} kills; store: {self._store}")
                    raise

    def _one(self) -> None:
        self.counts.runs += 1
        self._begin_store()
        # No other run in a shared store may have this id.
        self._question = f"Question {secrets.token_hex(4)} of {self._folder.name}: what do owls eat?"
        self._first_request = len(self._api.requests)
        self._log: list[tuple[str, str]] = []
        self._begun: Counter[str] = Counter()
        self._limit = self._chance.choice([None, 4, 7])
        limit = "none" if self._limit is None else self._limit
        specialist = SPECIALIST.format(f"tool_calls_limit: {limit}\nmodel: {'sonnet' if self._thinks else 'haiku'}\n")
        (self._project / "specialists" / "finder.md").write_text(specialist)
        self._model.calls, self._model.retried = self._chance.randint(5, 14), []
        kills, run = 0, None
        while True:
            self._is_in_danger = kills < MOST_KILLS and self._kills.left > 0
            program = self._go(run)
            struck = self._is_in_danger and self._strike(program)
            number = self._chance.choice(self._signals)
            code = program.end(number if struck else None)
            self._log += program.told
            if not struck or code == 0:
                assert code == 0, program.said
                break
            # A process that is starting or exiting, without its handlers, dies from a signal like any other process.
            assert code in {-number, FAREWELLS.get(number)}, program.said
            kills += 1
            self._kills.take()
            run = self._after(program, run)
            if run and run.status in {"answered", "landed"}:
                self.counts.after_the_end += 1
                break
        self._at_the_end(run)

    def _begin_store(self) -> None:
        # A process is sometimes killed while it creates a file that does not exist yet.
        if self._shared is None and (not self._store or self._chance.random() < 0.3):
            self._store = f"sqlite:///{self._folder}/runs-{self.counts.runs}.db"

    def _go(self, run: StoredRun | None) -> WatchedProgram:
        """Start a run with the command, or resume one."""
        command = ["run-specialist", "finder", self._question] if run is None else ["specialists", "resume", run.run_id]
        self._env = {"ANTHROPIC_BASE_URL": self._api.base_url, "SLOW": str(self._slow)}
        self._env |= {"HOME": str(self._project / "home")}
        self._asked_before = len(self._api.requests)
        command += ["--store", self._store, "--events"]
        return WatchedProgram(self._start, command, self._project, self._env, self._milestones)

    def _strike(self, program: WatchedProgram) -> bool:
        """Wait for the moment to kill; return False if the process ended before."""
        kind, latest = self._chance.choice(MOMENTS)
        count = self._chance.randint(min(latest, 1), latest)
        longest = self._chance.choice([0, 0.005, 0.02]) if count else 0.5
        if not self._milestones.wait(kind, count):
            return False
        # Do not wait for an event: the moment itself is random.
        time.sleep(self._chance.uniform(0, longest))
        at = (
            (not program.events, "the start"),
            (program.calls_under_way, "tool calls"),
            (self._milestones.under_way, "a request"),
        )
        self._struck = next((moment for is_so, moment in at if is_so), "anything else")
        return not program.is_over

    def _after(self, program: WatchedProgram, before: StoredRun | None) -> StoredRun | None:
        """Check the stored run after a kill."""
        self._milestones.settle()
        asked = self._asked()
        self.counts.kills += 1
        self.counts.struck[self._struck] += 1
        self._check_first_request(before)
        run = look(self._store, self._question, self._folder)
        if run is None:
            assert len(asked) <= 1, "more than one request was sent, and the run is not stored"
            self.counts.not_on_record += 1
            self.counts.lost_replies += len(asked)
            self._first_request, self._log, self._begun = len(self._api.requests), [], Counter()
            return None
        check_stored_run(run, asked, self._limit)
        self.counts.told_and_lost += sum(
            event["event"] == "reply" and event["turn"] > len(run.turns) for event in program.events
        )
        self._check_executed(run, before)
        listed = self._listed(run) if len(self._signals) > 1 else run.status
        assert listed == run.status
        # The previous outcome stays until there is a new one.
        kept = before is not None and run.outcome == before.outcome
        assert run.status in {"interrupted" if kept else None, run.outcome["status"] if run.outcome else "interrupted"}
        self.counts.left_as[run.status] += 1
        return run

    def _listed(self, run: StoredRun) -> object:
        """Return the status that `specialists runs` shows."""
        command = ["specialists", "runs", run.run_id, "--store", self._store, "--json"]
        listing = WatchedProgram(self._start, command, self._project, self._env, self._milestones)
        assert listing.end() == 0, listing.said
        (listed,) = json.loads(listing.printed)["runs"]
        return listed["status"]

    def _at_the_end(self, before: StoredRun | None) -> None:
        self._milestones.settle()
        self._check_first_request(before)
        run = look(self._store, self._question, self._folder)
        assert run is not None
        asked = self._asked()
        kept = check_ended(run, asked, self._limit)
        self._check_executed(run, before)
        total = sum((one.usage for one in asked), Usage())
        assert total.total_tokens >= Usage(**(run.outcome or {})["usage"]).total_tokens
        if self._limit is not None:
            assert len(run.calls) <= self._limit
        self.counts.requests += len(asked)
        self.counts.calls += len(run.calls)
        self.counts.lost_replies += kept.lost
        returned = Counter(key for what, key in self._log if what == "returned")
        gone = [row for row in run.calls if broken_off(row)]
        self.counts.broken_off += len(gone)
        self.counts.lost_outputs += sum(returned[row.call.key] > finished(run)[row.call.key] for row in gone)
        self.counts.retried += len(self._model.retried)

    def _check_executed(self, run: StoredRun, before: StoredRun | None) -> None:
        """Check that no call ran more often than the model made it, or again after its output was stored."""
        begun = Counter(key for what, key in self._log if what == "begun")
        made = Counter(
            call.key for one in self._asked() for call in messages.Reply(Stop.WANTS_TOOLS, tuple(one.content)).calls
        )
        assert not begun - made, f"run too often: {begun - made}"
        never = [key for key in finished(run) if not begun[key]]
        assert not never, f"stored and never run: {never}"
        repeated = [row.whole for row in run.calls if row.repeated]
        assert not repeated, f"a call is answered from a record that holds no output: {repeated}"
        if before is not None:
            done = finished(before)
            assert not done - finished(run)
            twice = [key for key in done if begun[key] != self._begun[key]]
            assert not twice, f"run again although the output is stored: {twice}"
        self._begun = begun

    def _check_first_request(self, before: StoredRun | None) -> None:
        """Check that the first request after a kill begins with the bytes of the last one, system prompt included."""
        requests = self._api.requests
        accepted = [one for one in requests[self._first_request : self._asked_before] if one.status == 200]
        now = [one for one in requests[self._asked_before :] if one.status == 200]
        if before is None or not accepted or not now:
            return
        last, first = accepted[-1], now[0]
        answered = any(list(turn.reply.content) == last.content for turn in before.turns)
        assert _front(last) == _front(first)
        beginning = _message_bytes(last)
        whole = _message_bytes(first)
        assert whole.startswith(beginning), f"{whole!r}\ndoes not begin with\n{beginning!r}"
        assert answered is (len(whole) > len(beginning))

    def _asked(self) -> list[ReceivedRequest]:
        requests = self._api.requests[self._first_request :]
        return [
            ReceivedRequest(unmarked(one.messages), one.content, _usage(one)) for one in requests if one.status == 200
        ]


def _usage(request: Recorded) -> Usage:
    # The API names only what a request has used.
    return Usage(**{name: request.usage.get(name, 0) for name in Usage.__dataclass_fields__})


def _front(request: Recorded) -> str:
    return json.dumps([request.body["system"], request.body["tools"], request.body["model"]])


def _message_bytes(request: Recorded) -> bytes:
    """Return the bytes of the messages without cache markers, which an order places elsewhere."""
    said = request.raw.partition(b'"messages":[')[2].removesuffix(b"]}")
    return said.replace(b',"cache_control":{"type":"ephemeral"}', b"")
