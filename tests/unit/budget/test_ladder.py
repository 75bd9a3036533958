"""The ladder of a landing: which rung follows."""

from itertools import product
from typing import get_args

import pytest

from run_specialist.budget.budget import Kind
from run_specialist.budget.ladder import LadderPosition, Rung, Style, ladder

COUNTED = {Rung.FORCE, Rung.ORDER, Rung.FINALIZE, Rung.NONE}


@pytest.mark.parametrize("style", get_args(Style))
@pytest.mark.parametrize("forced_choice", [True, False])
def test_s0_10_every_ladder_ends_in_salvage_after_three_requests_at_most(style, forced_choice):
    """Every ladder ends in a salvage after at most three landing requests, however many the model ignores."""
    landing = LadderPosition(Kind.TOOL_CALLS, ladder(style, forced_choice=forced_choice))
    seen = []
    while landing.rung is not Rung.SALVAGE:
        seen.append(landing.rung)
        landing = landing.ignored()
    assert len(seen) == len(set(seen))
    assert landing.requests == len(COUNTED & set(seen)) <= 3


@pytest.mark.parametrize(
    ("style", "forced_choice", "rungs"),
    [
        ("auto", True, [Rung.FORCE, Rung.ORDER, Rung.NONE]),
        ("auto", False, [Rung.ORDER, Rung.NONE]),
        ("force", False, [Rung.FORCE, Rung.ORDER, Rung.NONE]),
        ("order", True, [Rung.ORDER, Rung.NONE]),
        ("finalize", True, [Rung.WAIT, Rung.FINALIZE, Rung.NONE]),
        ("none", True, [Rung.NONE]),
        ("stop", True, []),
    ],
)
def test_rungs_of_each_style(style, forced_choice, rungs):
    """Order follows force, and none follows order."""
    assert list(ladder(style, forced_choice=forced_choice)) == rungs


def test_s0_10_a_refused_request_is_not_counted():
    """Only answered requests count: a refused one (400) only removes the forced rung."""
    landing = LadderPosition(Kind.TOOL_CALLS, ladder("force", forced_choice=True)).refused()
    assert (landing.rung, landing.requests) == (Rung.ORDER, 0)


def test_s0_10_any_other_answer_at_the_limit_counts_too():
    """Paused replies keep the rung and count; after three of them no further request is made."""
    landing = LadderPosition(Kind.TOOL_CALLS, ladder("force", forced_choice=True))
    seen = [landing.rung]
    for _ in range(3):
        landing = landing.answered()
        seen.append(landing.rung)
    assert seen == [Rung.FORCE] * 3 + [Rung.SALVAGE]
    assert landing.requests == 3


def test_a_landing_that_is_given_up_asks_nothing_more():
    """Giving up a landing, also on its first rung, ends its requests; earlier ones still count."""
    landing = LadderPosition(Kind.TIME, ladder("auto", forced_choice=True)).ignored().given_up()
    assert (landing.rung, landing.requests) == (Rung.SALVAGE, 1)


@pytest.mark.parametrize("style", get_args(Style))
def test_whatever_is_answered_the_way_is_down_and_short(style):
    """Each sequence of five events leads down from the top of each ladder in a few steps.

    No rung comes back, at most three requests count, the waiting rung counts none, and force is not tried again after a
    refusal. A ladder whose requests are all ignored ends after as many requests as it has rungs.
    """
    down = (LadderPosition.answered, LadderPosition.ignored, LadderPosition.refused, LadderPosition.given_up)
    for forced_choice, happened in product((True, False), product(down, repeat=5)):
        rungs = ladder(style, forced_choice=forced_choice)
        landing, order, was_refused = LadderPosition(Kind.TOOL_CALLS, rungs), [*rungs, Rung.SALVAGE], False
        for what in happened:
            before, landing = landing, what(landing)
            was_refused |= what is LadderPosition.refused
            assert order.index(landing.rung) >= order.index(before.rung)
            assert landing.requests <= 3 or before.rung is Rung.SALVAGE
            counts = what in {LadderPosition.answered, LadderPosition.ignored} and before.rung is not Rung.WAIT
            assert landing.requests - before.requests == counts
            assert not (was_refused and landing.rung is Rung.FORCE)
    landing = LadderPosition(Kind.TOOL_CALLS, rungs)
    for _ in rungs:
        landing = landing.ignored()
    assert landing.rung is Rung.SALVAGE
