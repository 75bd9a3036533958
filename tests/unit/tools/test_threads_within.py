"""`within` runs blocking work in a thread for a limited time."""

import threading

import pytest

from run_specialist.tools.threads import is_cancelled, when_cancelled, within


def test_the_result_or_the_error_is_passed_on():
    """The caller gets the result of the function, or the error that it raised."""

    def fail() -> None:
        raise LookupError("not there")

    assert within(60, lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(LookupError, match="not there"):
        within(60, fail)


def test_work_that_takes_too_long_is_abandoned_and_can_notice():
    """After the time TimeoutError is raised; the thread sees that it was cancelled and can stop."""
    noticed = threading.Event()
    seen: list[bool] = []

    def work() -> None:
        seen.append(is_cancelled())
        when_cancelled(noticed.set)
        noticed.wait()
        seen.append(is_cancelled())

    with pytest.raises(TimeoutError):
        within(0, work)
    assert noticed.wait(60)
    assert seen[:1] == [False]
