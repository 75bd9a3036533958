"""Runs stopped by Ctrl-C, by SIGTERM or during a request have the right status and can be resumed."""

import signal
import threading

import pytest

from tests.crash.fork_server import PATIENCE, ForkServer
from tests.crash.kill_loop import KillLoop, Kills
from tests.crash.watched_program import WatchedProgram


@pytest.mark.exhaustive
def test_s3_6_a_run_stopped_at_random_can_be_resumed(tmp_path):
    """After 8 SIGINT, SIGTERM or SIGKILL, `specialists runs` lists `aborted` or `interrupted`; no data is lost.

    A process that is struck before it has stored anything, or after its answer, leaves neither of these; then 4 more
    are struck, at most three times.
    """
    loop = KillLoop(3, tmp_path, signals=[signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    for kills in (8, 4, 4, 4):
        loop.work(Kills(kills), ForkServer())
        if {"aborted", "interrupted"} <= set(loop.counts.left_as):
            break
    assert set(loop.counts.left_as) <= {"aborted", "interrupted", "answered", "landed"}
    assert loop.counts.left_as["aborted"]
    assert loop.counts.left_as["interrupted"]


class KilledByServer(KillLoop):
    """A kill loop in which the server kills the program during a request."""

    def _go(self, run):
        self._dead = threading.Event()
        self._at = self.counts.kills % 3 + 1 if self._is_in_danger else 0
        before = len(self._api.requests)
        self._api.at_request = lambda number: number - before == self._at and self._dead.wait(PATIENCE)
        return super()._go(run)

    def _strike(self, program: WatchedProgram) -> bool:
        self._struck = "a request"
        return self._milestones.wait("request", self._at)

    def _after(self, program, before):
        self._dead.set()
        return super()._after(program, before)


@pytest.mark.exhaustive
def test_s4_4_a_run_killed_by_the_server_loses_nothing(tmp_path):
    """Killed during one of its first three requests, a process has stored all earlier replies; none is repeated."""
    loop = KilledByServer(4, tmp_path)
    loop.work(Kills(9), ForkServer())
    # The pending request is answered after the client has died.
    assert loop.counts.lost_replies == loop.counts.kills == 9
