"""Outcomes as JSON, written by this version and by earlier ones."""

import json

from pydantic import TypeAdapter

from run_specialist.record.events import Finished
from run_specialist.record.outcome import Outcome
from tests.unit.record.outcomes import outcome


def test_the_kind_of_failure_and_the_wait_survive_storing():
    """Kind and wait are in the JSON of the outcome and of the event `finished`, and are read back from it."""
    failed = outcome(status="failed", error="the API answered 429", error_kind="rate_limited", retry_after=7.5)
    stored = json.loads(json.dumps(Finished(failed).as_json()["outcome"]))
    assert (stored["error_kind"], stored["retry_after"]) == ("rate_limited", 7.5)
    again = TypeAdapter(Outcome).validate_python(stored)
    assert (again.error_kind, again.retry_after) == ("rate_limited", 7.5)
