"""What a batch may take, from past runs."""

import pytest

from run_specialist.batch.limits import forecast
from run_specialist.store.stored import PastRun


def run(status="answered", *, calls=5, seconds=10.0, cost=0.02):
    """Return a past run."""
    outcome = {"status": status, "tool_calls": {"used": calls}, "duration_s": seconds, "cost_usd": cost}
    return PastRun("run-1", 0.0, outcome, calls, 0)


def test_ten_runs_tell_the_typical_and_the_dear_item():
    """The median, and what nine of ten runs took at most; the totals are those of all items."""
    past = [run(calls=number, seconds=10.0 * number, cost=0.01 * number) for number in range(1, 11)]
    told = forecast(past, 112)
    assert (told.runs, told.items) == (10, 112)
    assert (told.calls.median, told.calls.high) == (5.5, 9)
    assert (told.seconds.high, told.cost_usd.high) == (90.0, 0.09)
    assert told.total_cost_low == pytest.approx(112 * 0.055)
    assert told.total_cost_high == pytest.approx(112 * 0.09)
    assert told.total_seconds(8) == pytest.approx(112 * 55 / 8)


def test_runs_without_an_answer_do_not_count():
    """A run that failed or was aborted says nothing about what an answer takes."""
    assert forecast([run("failed", cost=9.0), run("aborted", cost=9.0), run("partial")], 1).runs == 1
    nothing = forecast([run("failed")], 3)
    assert (nothing.runs, nothing.calls, nothing.total_cost_high, nothing.total_seconds(8)) == (0, None, None, None)


def test_one_unknown_price_makes_the_cost_unknown():
    """The other figures are known."""
    told = forecast([run(), run(cost=None)], 3)
    assert (told.cost_usd, told.total_cost_low, told.calls.median) == (None, None, 5)


def test_an_unknown_number_of_items_has_no_totals():
    """What an item takes is known."""
    told = forecast([run()], None)
    assert (told.total_cost_high, told.total_seconds(8), told.cost_usd.high) == (None, None, 0.02)


@pytest.mark.parametrize(("items", "seconds"), [(0, 0.0), (1, 10.0), (8, 10.0), (16, 20.0)])
def test_a_round_takes_as_long_as_an_item(items, seconds):
    """Few items do not take less time than one of them."""
    assert forecast([run()], items).total_seconds(8) == seconds
