"""Runs stopped by Ctrl-C, by SIGTERM or during a request have the right status and can be resumed."""

import signal

import pytest

from tests.crash.fork_server import ForkServer
from tests.crash.kill_loop import KillLoop, Kills


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
