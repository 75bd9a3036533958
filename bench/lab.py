"""Where laps are run: the server, temporary folders, processes, and what was noted."""

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
    """What the server saw of one run."""

    requests: int
    billed: float
    first_wall: float
    """From the start of the latest process to the run's first request [s]."""
    first_cpu: float | None
    """[s]"""


class Lab:
    """Runs laps against one server, and keeps what they measured."""

    def __init__(self) -> None:
        self.series: defaultdict[str, list[float]] = defaultdict(list)
        """What was measured, by name; times in seconds."""
        self.failures: dict[str, str] = {}
        """Why laps failed, by the beginning of the names that they were to measure."""
        self.pythons: dict[str, str] = {}
        """The interpreters of peers that have an environment of their own."""
        self.lap_number = 0
        self._runs = 0
        self._started = 0.0
        self._notes: dict[int, tuple[Path, list[str]]] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="bench-")
        # The folders of programs are not those of the bench, so that a lap finds nothing that a lap before it left.
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
        """Return a new empty folder that goes with the lab."""
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def notes(self, count: int) -> tuple[Path, list[str]]:
        """Return a folder of so many notes, made at the first time, and words that they hold."""
        if count not in self._notes:
            folder = self.folder()
            self._notes[count] = folder, notes.write(folder, count)
        return self._notes[count]

    def new_run(self) -> str:
        """Return a name under which the server shall count; what it counted before is forgotten."""
        self.ask("/forget")
        self._runs += 1
        return f"run-{self._runs}"

    def command(self, *command: str, home: Path | None = None, run: str | None = None, seconds: float = 60) -> Done:
        """Run one of our commands at the top of the repository, where its notes are.

        home: in place of a new one.
        run: what the server counts it as, for a command that asks the server.
        """
        more = {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "none"} if run else {}
        program = str(Path(sys.executable).parent / command[0])
        return self._run([program, *command[1:]], TOP, home or self.folder(), seconds, run, more)

    def imported(self, *command: str) -> set[str]:
        """Return the modules that one of our commands imports."""
        program = str(Path(sys.executable).parent / command[0])
        done = self._run([sys.executable, "-X", "importtime", program, *command[1:]], TOP, self.folder(), 60, None, {})
        lines = (line for line in done.err.splitlines() if line.startswith("import time:"))
        return {line.rpartition("|")[2].strip() for line in lines}

    def lap(self, peer: str, mode: str, run: str, *, seconds: float = 120, **given: object) -> dict[str, Any]:
        """Run a peer in a process of its own, in an empty folder, and return what it measured.

        Raises LapFailed where it did not do its work.
        """
        home = self.folder()
        asked = json.dumps({"url": self.url, "run": run, **given})
        python = self.pythons.get(peer, sys.executable)
        done = self._run([python, str(LAP), peer, mode, asked], home, home, seconds, run, {})
        measured: dict[str, Any] = json.loads(done.out.splitlines()[-1])
        if not measured["answered"]:
            raise LapFailed(measured.get("told") or "it did not answer, or did not run the calls that were wanted")
        return measured

    def tally(self, run: str) -> Seen:
        """Return what the server saw of a run.

        Raises LapFailed where it refused a request, or saw none.
        """
        told = self.ask(f"/tallies?run={run}")["runs"].get(run)
        if not told or not told["requests"]:
            raise LapFailed("no request came to the server")
        if told["refusals"]:
            raise LapFailed(f"the server refused {told['refusals']} requests: {told['refused'][0]}")
        return Seen(told["requests"], told["billed"], told["first_at"] - self._started, told["first_cpu"])

    def ask(self, target: str) -> dict[str, Any]:
        """Ask the server something about itself."""
        with self._open(self.url + target, timeout=30) as response:
            told: dict[str, Any] = json.load(response)
        return told

    def in_turn(self, *peers: str) -> Iterator[str]:
        """Yield peers in an order that is turned round with each lap, so that none is always the first."""
        yield from peers if self.lap_number % 2 == 0 else reversed(peers)

    def note(self, name: str, value: float) -> None:
        """Keep what was measured."""
        self.series[name].append(value)

    def has(self, name: str) -> bool:
        """Tell whether something was measured under a name."""
        return name in self.series

    @contextmanager
    def failing(self, start: str) -> Iterator[None]:
        """Keep the reason where a lap fails, and go on.

        start: with it begin the names of all that the lap was to measure.
        """
        try:
            yield
        except LapFailed as failed:
            self.failures[start] = str(failed)

    def _run(  # noqa: PLR0913, PLR0917 - all that differs
        self, command: list[str], folder: Path, home: Path, seconds: float, name: str | None, more: dict[str, str]
    ) -> Done:
        def watch(pid: int) -> None:
            if name is not None:
                self.ask(f"/watch?run={name}&pid={pid}")

        self._started = monotonic()
        return run(command, folder, environment(home, **more), seconds, watch)
