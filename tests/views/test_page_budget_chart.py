"""The budget chart on the page of a run: limits, phases, and calls that overlap in time."""

from itertools import pairwise

import pytest

from run_specialist.views.report import data, report
from tests.views import odd
from tests.views.full import full_run


def test_time_between_segments_takes_no_space_on_the_axis(full):
    """Two hours between two segments are mentioned but take no space on the time axis."""
    assert full["seconds"] == pytest.approx(54.6, abs=0.1)
    assert [mark["words"] for mark in full["timeline"]["marks"]][1] == "Resumed after 2 h 10 min"
    begins = [turn["begin"] for turn in full["turns"]]
    assert begins == sorted(begins)
    assert begins[-1] < full["seconds"]


def test_the_chart_restarts_where_a_limit_is_raised(full):
    """The chart rises in steps and restarts where a limit is raised: 11 calls are 69 % of 16 and 55 % of 20."""
    kinds = {kind["kind"]: kind for kind in full["budget"]["kinds"]}
    assert [kind for kind in kinds if kinds[kind]["lines"]] == ["tool_calls", "tokens", "time"]
    first, second = kinds["tool_calls"]["lines"]
    assert first[0] == [0.0, 0.0]
    assert (first[-1][1], second[0][1], second[-1][1]) == (0.6875, 0.55, 1.0)
    assert kinds["tool_calls"]["share"] == 1.0
    for kind in ("tokens", "time"):
        before, after = kinds[kind]["lines"]
        assert before[-1][1] == pytest.approx(after[0][1], abs=0.001)
    for kind in kinds.values():
        for line in kind["lines"]:
            assert line == sorted(line)
    assert kinds["tokens"]["lines"][1][-1][1] == pytest.approx(kinds["tokens"]["share"], abs=0.001)


def test_phases_are_silent_countdown_and_spent(full):
    """The phases are silent up to half of the calls, then countdown, then spent from the landing on."""
    bands = full["budget"]["bands"]
    assert [band["phase"] for band in bands] == ["silent", "countdown", "spent"]
    assert all(one["end"] == two["begin"] for one, two in pairwise(bands))
    (landing,) = full["budget"]["landings"]
    assert (landing["how"], landing["at"]) == ("force", bands[-1]["begin"])


def test_a_run_without_limits_has_no_chart():
    """A run without limits has no chart, but its usage is shown."""
    assert not data(odd.huge_run())["budget"]["limited"]
    assert "This run had no limits." in report(odd.huge_run())
    assert "This run had no limits." not in report(full_run())
