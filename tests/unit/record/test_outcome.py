"""Outcomes as JSON, written by this version and by earlier ones."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from run_specialist.record.events import Finished
from run_specialist.record.outcome import FileChange, Outcome, merged_changes
from tests.unit.record.outcomes import outcome


def test_the_kind_of_failure_and_the_wait_survive_storing():
    """Kind and wait are in the JSON of the outcome and of the event `finished`, and are read back from it."""
    failed = outcome(status="failed", error="the API answered 429", error_kind="rate_limited", retry_after=7.5)
    stored = json.loads(json.dumps(Finished(failed).as_json()["outcome"]))
    assert (stored["error_kind"], stored["retry_after"]) == ("rate_limited", 7.5)
    again = TypeAdapter(Outcome).validate_python(stored)
    assert (again.error_kind, again.retry_after) == ("rate_limited", 7.5)


@given(st.lists(st.sampled_from([None, "a", "b"]), min_size=2, max_size=6))
def test_p_5_the_changes_of_a_file_are_one_from_its_first_state_to_its_last(states):
    """A file that did not exist before and does not exist after is not listed, however often it was changed."""
    steps = [states[0], *(now for before, now in pairwise(states) if now != before)]
    kinds = {(True, False): "created", (False, True): "removed", (False, False): "changed"}
    changes = [
        FileChange("x", kinds[before is None, now is None], 2, None if now == "b" else 1, undoable=True)
        for before, now in pairwise(steps)
    ]
    merged = merged_changes([FileChange("w", "removed", 0, 1, undoable=False), *changes])
    kind = kinds.get((steps[0] is None, steps[-1] is None)) if changes else None
    assert [(one.path, one.change) for one in merged] == [("w", "removed"), *([("x", kind)] if kind else [])]


def test_p_5_lines_are_added_up_and_unknown_ones_stay_unknown():
    """One change that cannot be undone makes the whole file one that cannot."""
    first = FileChange("x", "changed", 2, 1, undoable=True)
    assert merged_changes([first, first]) == (FileChange("x", "changed", 4, 2, undoable=True),)
    unknown = FileChange("x", "removed", None, 3, undoable=False)
    assert merged_changes([first, unknown]) == (FileChange("x", "removed", None, 4, undoable=False),)
