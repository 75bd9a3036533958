"""A program watched from outside: its output until it was killed, and its progress."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.crash.fork_server import PATIENCE, Start
from tests.wire.simulator import MessagesSimulator


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

    def __init__(self, replies: Any, milestones: Milestones, **options: Any) -> None:
        super().__init__(replies, **options)
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
        pipes = [os.pipe() for _ in range(3)]
        self._process = start.start(command, where, env, [theirs for _, theirs in pipes])
        takers = (self._print, self._errors.append, self._tell)
        self._readers = [
            threading.Thread(target=_read, args=(ours, take), daemon=True)
            for (ours, _), take in zip(pipes, takers, strict=True)
        ]
        for reader, (_, theirs) in zip(self._readers, pipes, strict=True):
            os.close(theirs)  # so that the pipe ends when the program ends
            reader.start()
        threading.Thread(target=self._end_all, daemon=True).start()

    def _print(self, line: bytes) -> None:
        self._lines.append(line)
        self._milestones.pass_one("event")

    def _tell(self, line: bytes) -> None:
        what, key = json.loads(line)
        self.told.append((what, key))
        self._milestones.pass_one("call")

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


def _read(descriptor: int, take: Callable[[bytes], object]) -> None:
    with open(descriptor, "rb") as file:
        for line in file:
            # The last line of a killed program may be incomplete.
            if line.endswith(b"\n"):
                take(line)
