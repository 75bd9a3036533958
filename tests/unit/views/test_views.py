"""The limit suggested from past runs."""

from dataclasses import replace

import pytest

from run_specialist.views.tune import Need, limit_for, suggest, tune
from tests.unit.views.past_runs import outcome, past


def ended(*calls, limit=30):
    """Return the needs of runs that ended by themselves."""
    return [Need(number, known=True, limit=limit) for number in calls]


def cut(*calls, limit=30, by="tool_calls"):
    """Return the needs of runs that were cut off by a limit."""
    return [Need(number, known=False, limit=limit, cut_by=by) for number in calls]


@pytest.mark.parametrize(
    ("needs", "now", "verdict", "limit"),
    [
        # The sufficient number is the second largest of ten.
        (ended(1, 2, 3, 4, 5, 6, 7, 8, 9, 20), 15, "keep", 15),
        (ended(1, 2, 3, 4, 5, 6, 7, 8, 9, 20), 9, "raise", 11),
        (ended(1, 2, 3, 4, 5, 6, 7, 8, 9, 20), 21, "keep", 21),
        (ended(1, 2, 3, 4, 5, 6, 7, 8, 9, 20), 22, "lower", 11),
        (ended(1, 2, 3, 4, 5, 6, 7, 8, 9, 20), None, "set", 11),
        # Too few runs, and a limit of 0 set on purpose.
        (ended(1, 2, 3, 4, 5, 6, 7, 8, 9), 30, "too early", None),
        ([], 30, "too early", None),
        (cut(0, 0, 0, 0, 0, limit=0), 0, "keep", 0),
        # Truncated by the current limit: a higher one is needed, but no run shows which.
        (cut(*[10] * 10, limit=10), 10, "probe", None),
        # The file's limit is new: the truncated runs had a lower one.
        (cut(*[10] * 10, limit=10), 30, "too early", None),
        (cut(*[9] * 10, limit=None, by="tokens"), None, "other cause", None),
        (cut(*[9] * 10, by="context"), 30, "other cause", None),
        # One run with a higher limit than the others is not enough evidence; five are.
        ([*cut(*[10] * 10, limit=10), *ended(50, limit=100)], 10, "probe", None),
        ([*cut(10, 10, 10, 10, 10, limit=10), *ended(20, 21, 22, 23, 24, limit=30)], 10, "raise", 30),
        # The slack does not lead above the highest limit that a run had.
        ([*cut(10, 10, 10, 10, 10, limit=10), *ended(20, 21, 22, 23, 24, limit=26)], 10, "raise", 26),
        # Runs truncated exactly at the number that sufficed for one block it too; one run of ten blocks nothing.
        ([*cut(*[50] * 10, limit=50), *ended(50, limit=100)], 10, "probe", None),
        ([*ended(*[3] * 8, limit=4), *cut(4, limit=4), *ended(9)], 8, "raise", 11),
        # Half of them were truncated by the call limit, so it may be raised.
        ([*cut(*[10] * 5, limit=10), *cut(*[8] * 5, limit=10, by="time")], 10, "probe", None),
        # A single truncated run among many blocks nothing.
        ([*ended(*[4] * 19), *cut(4, by="time")], 8, "keep", 8),
    ],
)
def test_each_combination_of_runs_and_limit_has_its_suggestion(needs, now, verdict, limit):
    """Each combination of past runs and current limit gives the expected verdict and limit."""
    suggestion = suggest(needs, now, 0.0)
    assert (suggestion.verdict, suggestion.tool_calls_limit) == (verdict, limit)


def test_the_reason_names_the_figures_of_the_suggestion():
    """The reason shown to the user names the figures behind the suggestion."""
    lower = suggest(ended(*[4] * 9, 6), 30, 0.0).reason
    assert lower == "9 of 10 runs ended by themselves with 4 tool calls or fewer"
    censored = suggest([*ended(*[4] * 19), *cut(4, by="time")], 8, 0.0).reason
    assert (
        censored
        == "19 of 20 runs ended by themselves with 4 tool calls or fewer, and the one that was cut may need more"
    )
    cut_short = "of 12 runs were cut before they showed the number of calls needed"
    probe = suggest(cut(*[30] * 12), 30, 0.0).reason
    assert probe == f"12 {cut_short}, so no run shows how many calls are enough"
    other = suggest(cut(*[9] * 12, by="tokens"), 30, 0.0).reason
    assert other == f"12 {cut_short}, 12 of them by the limit of tokens; raise total_tokens_limit first"
    new = suggest([*cut(*[10] * 11, limit=10), *ended(3)], 30, 0.0).reason
    assert new == f"11 {cut_short}, and 1 of them had the limit of 30; run more"
    few = suggest(ended(1), 30, 0.0).reason
    assert few == "1 run can be judged, and at least 10 are required"
    none = suggest([], 30, 0.0).reason
    assert none == "0 runs can be judged, and at least 10 are required"


def test_many_repeated_calls_suggest_a_prompt_change():
    """If a fifth or more of the calls are repeats, a prompt change is suggested instead of a limit."""
    needs = cut(*[30] * 10)
    assert suggest(needs, 30, 0.19).verdict == "probe"
    suggestion = suggest(needs, 30, 0.2)
    assert (suggestion.verdict, suggestion.tool_calls_limit) == ("prompt", None)
    assert "20 %" in suggestion.reason
    assert tune("looker", past(*[outcome(5)] * 10, repeated=1), 5).suggestion.verdict == "prompt"


@pytest.mark.parametrize(
    ("enough", "limit"),
    [(0, 1), (1, 2), (4, 5), (5, 7), (10, 13), (16, 20), (17, 25), (83, 100), (84, 110), (450, 550)],
)
def test_a_suggested_limit_adds_a_fifth_and_is_rounded_up(enough, limit):
    """A suggested limit adds a fifth and is rounded up to a round number: ones to 20, then fives, tens, fifties."""
    assert limit_for(enough) == limit


def runs(*outcomes, digest="new", changed=False, begin=0):
    """Return past runs of a version."""
    return [
        replace(run, run_id=f"{digest}-{begin + place}", digest=digest, limits_changed=changed,
                started_at=run.started_at + 3_600 * begin)
        for place, run in enumerate(past(*outcomes))
    ]  # fmt: skip


def test_limits_set_by_a_flag_do_not_count():
    """Runs whose limits a flag or a parent set are counted separately by status, and do not change any figure."""
    own = runs(*[outcome(9)] * 10)
    flagged = runs(*[outcome(2, 2, "landed", landed="tool_calls")] * 3, outcome(50, 60), changed=True, begin=10)
    tuning = tune("finder", [*own, *flagged], 30, digest="new")
    assert tuning.changed_limits == {"landed": 3, "answered": 1}
    assert (tuning.runs, tuning.hits, tuning.limit) == (10, [], 30)
    assert tuning.suggestion == tune("finder", own, 30, digest="new").suggestion


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
