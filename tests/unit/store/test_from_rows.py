from dataclasses import asdict

from run_specialist.record.journal import RunSnapshot, Spending
from run_specialist.record.messages import Usage
from run_specialist.store.from_rows import run_snapshot


def test_extra_columns_of_an_older_program_are_ignored():
    """Extra columns written by an older program are ignored, and its run can be read and resumed."""
    kept = RunSnapshot({"tool_calls": 3}, Spending(Usage(10), 0.5), calls=3, warnings=("odd",))
    assert run_snapshot({**asdict(kept), "of_old": 1}) == kept
