"""Which past runs count for tuning: those of the current version of the file with its limits."""

from dataclasses import replace

from run_specialist.views.tune import tune
from tests.unit.views.past_runs import outcome, past


def runs(*outcomes, digest="new", changed=False, begin=0):
    """Return past runs of a version."""
    return [
        replace(run, run_id=f"{digest}-{begin + place}", digest=digest, limits_changed=changed,
                started_at=run.started_at + 3_600 * begin)
        for place, run in enumerate(past(*outcomes))
    ]  # fmt: skip


def test_other_versions_of_the_file_are_kept_apart():
    """Only runs of the current version count; each version is listed, that of the newest run first."""
    old, new = runs(*[outcome(3)] * 12, digest="old"), runs(*[outcome(9)] * 10, begin=12)
    tuning = tune("finder", [*new, *old], 30, digest="new")
    assert (tuning.runs, tuning.enough, tuning.calls["run"]) == (10, 9, 90)
    assert [(one["digest"], one["runs"]) for one in tuning.versions] == [("new", 10), ("old", 12)]
    assert [one["counted"] for one in tuning.versions] == [True, False]
    every = tune("finder", [*new, *old], 30, digest="new", all_versions=True)
    assert (every.runs, [one["counted"] for one in every.versions]) == (22, [True, True])
    assert tune("finder", [*new, *old], 30, digest="new", last=4).runs == 4


def test_limits_set_by_a_flag_do_not_count():
    """Runs whose limits a flag or a parent set are counted separately by status, and do not change any figure."""
    own = runs(*[outcome(9)] * 10)
    flagged = runs(*[outcome(2, 2, "landed", landed="tool_calls")] * 3, outcome(50, 60), changed=True, begin=10)
    tuning = tune("finder", [*own, *flagged], 30, digest="new")
    assert tuning.changed_limits == {"landed": 3, "answered": 1}
    assert (tuning.runs, tuning.hits, tuning.limit) == (10, [], 30)
    assert tuning.suggestion == tune("finder", own, 30, digest="new").suggestion
