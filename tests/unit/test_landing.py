"""The ladder of the landing: which rung comes next."""

from typing import get_args

import pytest

from run_specialist.budget import Kind
from run_specialist.landing import Landing, Rung, Style, ladder

COUNTED = {Rung.FORCE, Rung.ORDER, Rung.FINALIZE, Rung.NONE}


@pytest.mark.parametrize("style", get_args(Style))
@pytest.mark.parametrize("forced_choice", [True, False])
def test_s0_10_every_ladder_ends_in_salvage_after_three_requests_at_most(style, forced_choice):
    """Whatever is ignored, at most three landing requests are made."""
    landing = Landing(Kind.TOOL_CALLS, ladder(style, forced_choice=forced_choice))
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
    """Force is followed by order, order by none."""
    assert list(ladder(style, forced_choice=forced_choice)) == rungs


def test_s0_10_a_refused_request_is_not_counted():
    """Only answered requests count; a 400 takes the forced rung out."""
    landing = Landing(Kind.TOOL_CALLS, ladder("force", forced_choice=True)).refused()
    assert (landing.rung, landing.requests) == (Rung.ORDER, 0)
