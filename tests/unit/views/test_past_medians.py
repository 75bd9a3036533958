"""The medians of past runs."""

from run_specialist.views.tune import medians_by_model


def outcome(model="m", status="answered", calls=3, seconds=2.0, cost=0.5):
    """Return the parts of an outcome that count."""
    return {
        "model": model,
        "status": status,
        "tool_calls": {"used": calls},
        "duration_s": seconds,
        "cost_usd": cost,
    }


def test_runs_without_an_answer_do_not_count():
    """Failed and aborted runs, and an outcome that is empty, are left out."""
    outcomes = [outcome(status=status) for status in ("answered", "landed", "partial", "failed", "aborted")]
    assert medians_by_model([*outcomes, {}]) == [
        {"model": "m", "runs": 3, "tool_calls": 3, "seconds": 2.0, "cost_usd": 0.5}
    ]
    assert medians_by_model([outcome(status="failed")]) == []


def test_models_are_kept_apart_the_most_used_first():
    """Each model has its own medians."""
    outcomes = [outcome("rare", calls=9), outcome("often", calls=1), outcome("often", calls=2)]
    assert [(one["model"], one["runs"], one["tool_calls"]) for one in medians_by_model(outcomes)] == [
        ("often", 2, 1.5),
        ("rare", 1, 9),
    ]


def test_unknown_prices_are_left_out_of_the_median():
    """The cost is the median of the known ones, and unknown if none is."""
    known = medians_by_model([outcome(cost=None), outcome(cost=0.1), outcome(cost=0.3)])
    assert known[0]["cost_usd"] == 0.2
    assert medians_by_model([outcome(cost=None)])[0]["cost_usd"] is None
