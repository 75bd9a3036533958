"""A stored run without its transcript: enough to decide whether to begin, resume or return it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from run_specialist.record.outcome import Outcome
from run_specialist.store.from_rows import outcome_of
from run_specialist.store.packing import unpack
from run_specialist.store.to_rows import RUNNING


@dataclass(frozen=True, slots=True)
class KnownRun:
    """The row of a run."""

    run_id: str
    status: str
    """Status of the outcome; `running` while there is none, also if the run's process has died."""
    owner: str
    """Token of the process that began or resumed it."""
    specialist: str
    model: str
    question: str
    frozen: Mapping[str, Any]
    """Settings fixed at the start, as in `Opened.frozen`."""
    outcome: Outcome | None
    """The outcome of its last end; None if it has never ended."""

    @property
    def is_running(self) -> bool:
        """True if it has not ended since it was begun or resumed, also if its process has died."""
        return self.status == RUNNING

    @property
    def ended(self) -> Outcome | None:
        """The outcome; None while the run is in progress, or was interrupted."""
        return None if self.is_running else self.outcome


def known_run(run_id: str, *columns: Any) -> KnownRun:  # noqa: ANN401 - values of a database driver
    """Build a run from the columns `KNOWN`, whose long texts are packed."""
    status, owner, specialist, model, question, frozen, outcome = columns
    return KnownRun(
        run_id,
        status,
        owner,
        specialist,
        model,
        unpack(question),
        json.loads(unpack(frozen)),
        None if outcome is None else outcome_of(json.loads(unpack(outcome))),
    )
