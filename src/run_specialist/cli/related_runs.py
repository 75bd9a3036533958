"""Load everything that the page of a run shows: the run, its children, and the runs to compare it with."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from run_specialist.store.reader import Store
    from run_specialist.store.stored import StoredRun
    from run_specialist.views.page.side_by_side import RelatedRuns


def with_related(opened: "Store", run_id: str) -> tuple["StoredRun", Mapping[str, "StoredRun"], "RelatedRuns"]:
    """Return a run, all its descendants by id, and the runs to compare it with.

    Raises RunSpecialistError for a run that cannot be read.
    """
    from run_specialist.views.page.child_runs import descendants  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.page.side_by_side import kin  # noqa: PLC0415 - fast `--help`

    stored = opened.load(run_id)
    return stored, descendants(stored, opened.load), kin(stored, opened.load, opened.forks(stored))
