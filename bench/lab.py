"""Run laps: start the server, temporary folders and processes, and collect measurements."""

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self
from urllib.request import ProxyHandler, build_opener

from bench import notes
from bench.process import Done, LapFailed, environment, run

TOP = Path(__file__).parents[1]
LAP = Path(__file__).with_name("lap.py")


@dataclass(frozen=True, slots=True)
class Seen:
    """One run as seen by the server."""

    requests: int
    billed: float
    """Cost of the input [input tokens]."""
    first_wall: float
    """Wall time from the start of the latest process to the first request of the run [s]."""
    first_cpu: float | None
    """CPU time of the process until then [s]."""


class Lab:
    """Runs laps against one server and stores their measurements."""

    def __init__(self) -> None:
        self.series: defaultdict[str, list[float]] = defaultdict(list)
        """Measurements by name; times in seconds."""
        self.failures: dict[str, str] = {}
        """Reasons for failed laps, by the common prefix of the series that they were to measure."""
        self.pythons: dict[str, str] = {}
        """Interpreters of peers with a separate environment."""
        self.lap_number = 0
        self._runs = 0
        self._started = 0.0
        self._notes: dict[int, tuple[Path, list[str]]] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        # Processes get their own home folders, so that laps do not find files of earlier laps.
        self._server = subprocess.Popen(
            [sys.executable, "-m", "bench.server"],
            cwd=TOP,
            env=environment(self.folder()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout is not None  # noqa: S101 - it is a pipe
        self.url = f"http://127.0.0.1:{int(self._server.stdout.readline())}"
        self._open = build_opener(ProxyHandler({})).open
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.kill()
        self._server.communicate()
        self._folder.cleanup()

    def folder(self) -> Path:
        """Return a new empty folder, which is removed with the lab."""
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def notes(self, count: int) -> tuple[Path, list[str]]:
        """Return a folder with `count` notes, created on first use, and words contained in them."""
        if count not in self._notes:
            folder = self.folder()
            self._notes[count] = folder, notes.write(folder, count)
        return self._notes[count]

    def new_run(self) -> str:
        """Return a new run name for the server's statistics; the earlier statistics are cleared."""
        self.ask("/forget")
        self._runs += 1
        return f"run-{self._runs}"

    def command(self, *command: str, home: Path | None = None, run: str | None = None, seconds: float = 60) -> Done:
        """Run a command of this package at the top of the repository, where the notes are.

        home: Home folder; default: a new one.
        run: Run name for the server's statistics, for commands that send requests.
        """
        more = {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "none"} if run else {}
        program = str(Path(sys.executable).parent / command[0])
        return self._run([program, *command[1:]], TOP, home or self.folder(), seconds, run, more)

    def imported(self, *command: str) -> set[str]:
        """Return the modules that a command of this package imports."""
        program = str(Path(sys.executable).parent / command[0])
        done = self._run([sys.executable, "-X", "importtime", program, *command[1:]], TOP, self.folder(), 60, None, {})
        lines = (line for line in done.err.splitlines() if line.startswith("import time:"))
        return {line.rpartition("|")[2].strip() for line in lines}

    def lap(self, peer: str, mode: str, run: str, *, seconds: float = 120, **given: object) -> dict[str, Any]:
        """Run a peer in a separate process, in an empty folder, and return its measurements.

        Raises LapFailed if the peer did not answer.
        """
        home = self.folder()
        arguments = json.dumps({"url": self.url, "run": run, **given})
        python = self.pythons.get(peer, sys.executable)
        done = self._run([python, str(LAP), peer, mode, arguments], home, home, seconds, run, {})
        measured: dict[str, Any] = json.loads(done.out.splitlines()[-1])
        if not measured["answered"]:
            raise LapFailed(measured.get("reason") or "no answer, or wrong number of tool calls")
        return measured

    def tally(self, run: str) -> Seen:
        """Return the server's statistics of a run.

        Raises LapFailed if the server rejected a request or received none.
        """
        tally = self.ask(f"/tallies?run={run}")["runs"].get(run)
        if not tally or not tally["requests"]:
            raise LapFailed("the server received no request")
        if tally["refusals"]:
            raise LapFailed(f"the server rejected {tally['refusals']} requests: {tally['refused'][0]}")
        return Seen(tally["requests"], tally["billed"], tally["first_at"] - self._started, tally["first_cpu"])

    def ask(self, target: str) -> dict[str, Any]:
        """Send a control request to the server and return its reply."""
        with self._open(self.url + target, timeout=30) as response:
            reply: dict[str, Any] = json.load(response)
        return reply

    def in_turn(self, *peers: str) -> Iterator[str]:
        """Yield the peers, in reverse order in every second lap, so that none always runs first."""
        yield from peers if self.lap_number % 2 == 0 else reversed(peers)

    def note(self, name: str, value: float) -> None:
        """Store a measurement."""
        self.series[name].append(value)

    def has(self, name: str) -> bool:
        """Return whether a series has measurements."""
        return name in self.series

    @contextmanager
    def failing(self, start: str) -> Iterator[None]:
        """Store the reason if a lap fails, and continue.

        start: Common prefix of the names of the series that the lap measures.
        """
        try:
            yield
        except LapFailed as failed:
            self.failures[start] = str(failed)

    def _run(  # noqa: PLR0913, PLR0917 - private
        self, command: list[str], folder: Path, home: Path, seconds: float, name: str | None, more: dict[str, str]
    ) -> Done:
        def watch(pid: int) -> None:
            if name is not None:
                self.ask(f"/watch?run={name}&pid={pid}")

        self._started = monotonic()
        return run(command, folder, environment(home, **more), seconds, watch)
