"""What becomes of a job once its run has ended."""

from typing import get_args

import pytest

from run_specialist.batch.item import LimitReached, NotAffordable
from run_specialist.errors import AtWork, StoreUnusable, UsageError
from run_specialist.fleet.worker import (
    AT_WORK_DELAY,
    MAX_SERVER_ERRORS,
    SHARE_DELAY,
    STORE_DELAY,
    JobFinished,
    JobRequeued,
    judge,
    unbegun,
)
from run_specialist.record.outcome import ErrorKind
from run_specialist.spawning.spawner import PriceUnknown
from tests.unit.record.outcomes import outcome as make_outcome

HELD_UP = {"rate_limited", "overloaded", "quota", "connection"}
STOPS = {"credentials": "stop the worker", "model_missing": "pause the batch"}


def outcome(status="failed", kind=None, error=None, retry_after=None):
    """Return an outcome with what matters here."""
    return make_outcome(status=status, error=error, error_kind=kind, retry_after=retry_after)


@pytest.mark.parametrize("kind", [None, *get_args(ErrorKind)])
def test_every_kind_of_failure_has_one_consequence(kind):
    """A failure of the endpoint or the store goes back to the queue; one of the item ends it."""
    verdict = judge(outcome(kind=kind, error="why", retry_after=7.0), attempts=0)
    if kind == "store_lost":
        assert verdict == JobRequeued(STORE_DELAY)
    elif kind in HELD_UP:
        assert verdict == JobRequeued(also="close the gate", wait=7.0, reason="why")
    elif kind in STOPS:
        assert verdict == JobRequeued(also=STOPS[kind], reason="why")
    elif kind == "server_error":
        assert verdict == JobRequeued(30.0, counts=True, reason="why")
    else:
        assert verdict == JobFinished()


def test_a_server_error_that_stays_is_a_failure():
    """A question that breaks the server does not come back for ever; each wait is twice as long."""
    broken = outcome(kind="server_error", error="500")
    delays = [judge(broken, attempts).delay for attempts in range(MAX_SERVER_ERRORS - 1)]
    assert delays == [30.0, 60.0]
    assert judge(broken, MAX_SERVER_ERRORS - 1) == JobFinished()


def test_an_aborted_run_goes_back_unless_its_batch_was_cancelled():
    """SIGTERM of a worker does not count as the end of an item."""
    assert judge(outcome("aborted"), 0) == JobRequeued()
    assert judge(outcome("aborted"), 0, cancelled=True) == JobFinished("cancelled")


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (AtWork("busy"), JobRequeued(AT_WORK_DELAY, waits=False)),
        (StoreUnusable("away"), JobRequeued(STORE_DELAY)),
        (NotAffordable("b1"), JobRequeued(SHARE_DELAY)),
        (LimitReached("b1"), JobFinished(state=None)),
        (PriceUnknown("no price"), JobRequeued(also="pause the batch", reason="no price")),
        (UsageError("wrong"), JobFinished(error="wrong")),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_prevents_a_run_decides_about_its_job(error, verdict):
    """Only an error of the item ends it; without money it waits, or stays as it is once the batch has ended."""
    assert unbegun(error) == verdict
