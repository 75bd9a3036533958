"""Ctrl-C, SIGTERM, and a server that kills the program: the status is right, and the run goes on."""

import signal
import threading

import pytest

from tests.crash.fork_server import PATIENCE, ForkServer
from tests.crash.kill_loop import KillLoop, Kills
from tests.crash.watched_program import WatchedProgram


@pytest.mark.exhaustive
def test_s3_6_a_run_that_is_stopped_at_random_can_be_gone_on_with(tmp_path):
    """8 times Ctrl-C, SIGTERM or SIGKILL: `specialists runs` tells `aborted` or `interrupted`, and nothing is lost."""
    loop = KillLoop(3, tmp_path, signals=[signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    loop.work(Kills(8), ForkServer())
    assert set(loop.counts.left_as) <= {"aborted", "interrupted", "answered", "landed"}
    assert loop.counts.left_as["aborted"]
    assert loop.counts.left_as["interrupted"]


class KilledByServer(KillLoop):
    """A kill loop whose programs are killed by the server itself, in the middle of a request."""

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
def test_s4_4_killed_by_the_server_a_run_has_lost_nothing(tmp_path):
    """At the first, second or third request of each process: every reply before it is stored, and asked for once."""
    loop = KilledByServer(4, tmp_path)
    loop.work(Kills(9), ForkServer())
    # The request that was under way is answered when nobody listens any more.
    assert loop.counts.lost_replies == loop.counts.kills == 9
