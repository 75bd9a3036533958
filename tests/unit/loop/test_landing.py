"""A landing while it happens: when it begins, what counts, what it asks for."""

import pytest

from run_specialist.budget.budget import Budget, Kind
from run_specialist.budget.ladder import Rung
from run_specialist.loop.landing import Landing
from run_specialist.loop.observing.observers import Observers
from run_specialist.providers.base import Choice
from run_specialist.providers.scripted import ScriptedProvider
from run_specialist.record.events import Landed
from tests.loop_jobs import job


def descending(style: str = "force", **settings) -> tuple[Landing, list[Rung]]:
    """Make a descent, and the list of the rungs that it tells."""
    told = []
    audience = Observers(lambda event: isinstance(event, Landed) and told.append(event.how), None, None)
    return Landing(job(ScriptedProvider([]), landing=style, **settings), audience), told


def test_it_begins_once():
    """A second limit that is reached on the way neither changes the reason nor goes back up."""
    descent, told = descending()
    descent.begin(Kind.TOOL_CALLS)
    descent.was_ignored()
    descent.begin(Kind.TIME)
    assert (descent.reason, descent.choice) == (Kind.TOOL_CALLS, Choice.AUTO)
    assert told == [Rung.FORCE, Rung.ORDER]


@pytest.mark.parametrize(("used", "lands"), [(0, False), (5, False), (9, False), (10, True), (11, True)])
def test_it_begins_when_the_budget_is_spent_and_not_while_it_counts_down(used, lands):
    """The first half is silent, the second counts down, and at the end it lands."""
    descent, _ = descending()
    descent.begin_if_spent(Budget.of({Kind.TOOL_CALLS: 10}).spend(used))
    assert descent.is_landing is lands


def test_s0_10_a_model_that_pauses_at_each_landing_request_is_asked_three_times():
    """The rung stays, and each request counts."""
    descent, told = descending()
    descent.begin(Kind.TOOL_CALLS)
    for _ in range(3):
        assert (descent.choice, descent.is_over) == (Choice.RESPOND, False)
        descent.was_paused()
    assert descent.is_over
    assert told == [Rung.FORCE]


def test_before_it_begins_nothing_changes_anything():
    """A reply that pauses or is refused on the way belongs to the work."""
    descent, told = descending()
    for what in (descent.was_paused, descent.was_ignored, descent.was_refused, descent.give_up):
        what()
    assert (descent.landing, descent.choice, descent.words, descent.is_over, told) == (
        None,
        Choice.AUTO,
        None,
        False,
        [],
    )
