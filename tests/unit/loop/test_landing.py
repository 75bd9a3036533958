"""The state of a landing: when it begins, what counts, what it requests."""

import pytest

from run_specialist.budget import Budget, Kind, Rung
from run_specialist.loop.account import Account
from run_specialist.loop.job import RunContext
from run_specialist.loop.landing import Landing
from run_specialist.loop.observing import Observers
from run_specialist.loop.retries import StopSignal
from run_specialist.providers.base import Choice
from run_specialist.providers.scripted import ScriptedProvider
from run_specialist.record.events import Landed
from tests.loop_jobs import job


def new_landing(style: str = "force", **settings) -> tuple[Landing, list[Rung]]:
    """Return a landing, and the list to which it adds the rung of each `Landed` event."""
    told = []
    observers = Observers(lambda event: isinstance(event, Landed) and told.append(event.how), None, None)
    made = job(ScriptedProvider([]), landing=style, **settings)
    return Landing(RunContext(made, Account(made.budget, made.provider), observers, StopSignal())), told


def test_a_second_limit_does_not_restart_the_landing():
    """A second limit reached during the landing changes neither its reason nor its rung."""
    landing, told = new_landing()
    landing.begin(Kind.TOOL_CALLS)
    landing.was_ignored()
    landing.begin(Kind.TIME)
    assert (landing.reason, landing.choice) == (Kind.TOOL_CALLS, Choice.AUTO)
    assert told == [Rung.FORCE, Rung.ORDER]


@pytest.mark.parametrize(("used", "lands"), [(0, False), (5, False), (9, False), (10, True), (11, True)])
def test_the_landing_begins_when_the_budget_is_spent(used, lands):
    """The first half of the budget is silent, the second counts down, and the landing begins when it is spent."""
    landing, _ = new_landing()
    landing.begin_if_spent(Budget.of({Kind.TOOL_CALLS: 10}).spend(used))
    assert landing.is_active is lands


def test_s0_10_a_pausing_model_gets_three_landing_requests():
    """A model that pauses at every landing request keeps its rung and gets three requests."""
    landing, told = new_landing()
    landing.begin(Kind.TOOL_CALLS)
    for _ in range(3):
        assert (landing.choice, landing.is_over) == (Choice.RESPOND, False)
        landing.was_paused()
    assert landing.is_over
    assert told == [Rung.FORCE]


def test_before_the_landing_replies_do_not_change_its_state():
    """Before the landing begins, a paused or refused reply does not change its state."""
    landing, told = new_landing()
    for what in (landing.was_paused, landing.was_ignored, landing.was_refused):
        what()
    assert (landing.position, landing.choice, landing.instruction, landing.is_over, told) == (
        None,
        Choice.AUTO,
        None,
        False,
        [],
    )
