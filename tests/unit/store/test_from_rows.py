import json
from dataclasses import asdict

from run_specialist.record.journal import RunSnapshot, Spending
from run_specialist.record.messages import Usage
from run_specialist.store.rows import restored


def test_a_snapshot_is_read_as_it_was_stored():
    """The values of JSON become those of the snapshot again."""
    kept = RunSnapshot({"tool_calls": 3}, Spending(Usage(10), 0.5), calls=3, warnings=("odd",))
    assert restored(RunSnapshot, json.loads(json.dumps(asdict(kept)))) == kept
