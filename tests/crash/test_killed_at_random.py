"""The real command is killed at random moments and resumed until it answers."""

import pytest

from tests.crash.fork_server import ForkServer
from tests.crash.kill_loop import KillLoop, Kills

KILLS = 20


@pytest.mark.exhaustive
def test_s4_4_nothing_acknowledged_is_lost_by_kills_at_random(tmp_path):
    """After 20 kills at seeded moments all sent messages are stored, and no reply or finished call is paid twice."""
    loop = KillLoop(1, tmp_path)
    loop.work(Kills(KILLS), ForkServer())
    assert loop.counts.kills == KILLS
