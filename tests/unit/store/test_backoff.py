"""The pauses between attempts to reach an unavailable store."""

from run_specialist.store.base import Backoff
from tests.loop_jobs import Clock


def pauses(backoff, clock, patience):
    """Return all pauses, advancing the clock by each of them."""
    made = []
    for pause in backoff.pauses(patience):
        made.append(round(pause, 3))
        clock.now += pause
    return made


def test_pauses_double_up_to_the_maximum_until_the_timeout():
    """The first retry is immediate, pauses double up to the longest, and the last retry is made at the timeout."""
    clock = Clock()
    backoff = Backoff(clock=clock)
    assert pauses(backoff, clock, 60.0)[:7] == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    made = pauses(backoff, clock, 5.0)
    assert made == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 1.9]


def test_time_spent_on_attempts_counts_towards_the_timeout():
    """After a wait for a lock that took the entire timeout, exactly one retry is made."""
    clock = Clock()
    made = []
    for pause in Backoff(clock=clock).pauses(10.0):
        made.append(pause)
        clock.now += 10
    assert made == [0]


def test_an_explicit_timeout_overrides_the_default():
    """An explicit timeout overrides the timeout that suits the store."""
    clock = Clock()
    assert sum(pauses(Backoff(clock=clock, patience=1.0), clock, 60.0)) == 1.0
