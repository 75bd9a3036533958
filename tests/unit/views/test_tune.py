"""What tuning reports from past runs about a limit: hits, costs and calls."""

import pytest

from run_specialist.views.tune import tune
from tests.unit.views.past_runs import outcome, past


def test_s1_8_how_often_each_limit_was_hit_is_counted():
    """Limit hits are counted by kind, rung and result over all runs, the most frequent first."""
    tuning = tune(
        "looker",
        past(
            outcome(),
            outcome(30, status="landed", landed="tool_calls"),
            outcome(30, status="partial", landed="tool_calls", how="salvage"),
            outcome(30, status="failed", landed="tool_calls", how="salvage"),
            outcome(9, status="landed", landed="tokens", how="order", tokens=8_000),
            outcome(9, status="landed", landed="tokens", how="none"),
            outcome(9, status="aborted", landed="time", how="salvage", time=60),
        ),
    )
    told = [tuple(hit[key] for key in ("reason", "runs", "how", "partial", "failed")) for hit in tuning.hits]
    assert told == [
        ("tool_calls", 3, {"salvage": 2, "force": 1}, 1, 1),
        ("context", 1, {"none": 1}, 0, 0),
        ("time", 1, {"salvage": 1}, 0, 1),
        ("tokens", 1, {"order": 1}, 0, 0),
    ]
    assert tuning.statuses == {"landed": 3, "aborted": 1, "answered": 1, "failed": 1, "partial": 1}
    assert (tuning.runs, tuning.judged, tuning.ended, tuning.landings) == (7, 5, 1, 6)


def test_s1_8_costs_are_given_as_medians_and_sums():
    """Costs are given as medians and sums; runs of unknown price are counted separately, not as free."""
    tuning = tune(
        "looker",
        past(
            outcome(cost=0.1),
            outcome(cost=0.2),
            outcome(30, status="landed", landed="tool_calls", cost=0.7),
            outcome(30, status="landed", landed="tool_calls", cost=None),
        ),
    )
    cost, landing = tuning.cost_usd, tuning.landing_cost_usd
    assert (cost.median, cost.total, cost.share, cost.unknown) == (0.2, 1.0, None, 1)
    assert (landing.median, landing.total, landing.share, landing.unknown) == (0.14, 0.14, 0.14, 1)
    assert (tuning.tokens.total, tuning.landing_tokens.total, tuning.landing_tokens.share) == (1_600, 200, 0.125)


def test_s1_8_calls_are_summed_up_over_all_runs():
    """Failed and skipped calls are summed from the outcomes, repeated ones from the stored calls."""
    calls = tune("looker", past(outcome(4, failed=2), outcome(30, landed="tool_calls"), repeated=3)).calls
    assert calls == {"run": 34, "repeated": 6, "failed": 2, "skipped": 1}


@pytest.mark.parametrize(
    ("current", "limit", "source"), [(12, 12, "file"), (0, 0, "file"), ("none", None, "file"), (None, 8, "run")]
)
def test_the_current_limit_is_that_of_the_file_or_the_newest_run(current, limit, source):
    """The file's limit applies, where `none` means no limit; otherwise the newest run's, in any order of runs."""
    runs = past(outcome(limit=30), outcome(limit=8))[::-1]
    tuning = tune("looker", runs, current)
    assert (tuning.limit, tuning.limit_from) == (limit, source)


@pytest.mark.parametrize("status", ["failed", "aborted"])
def test_failed_and_aborted_runs_suggest_nothing(status):
    """Failed and aborted runs count neither as a need nor for repeats, however many calls they made."""
    odd = past(*[outcome(29, status=status)] * 50, repeated=29)
    assert tune("looker", odd).suggestion.verdict == "too early"
    sound = past(*[outcome(9)] * 10)
    assert tune("looker", [*sound, *odd], 30).suggestion == tune("looker", sound, 30).suggestion
