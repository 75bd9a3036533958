"""HTML index of stored runs: one table that can be sorted and filtered, with links to the reports."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import quote

from run_specialist.store.stored import ListedRun
from run_specialist.views import page

MOST_RUNS = 5_000
"""Maximum number of rows; older runs are counted, not listed."""
# Longest question of a row [characters].
_QUESTION_LENGTH = 160

_OF_RUN = (
    *("run_id", "parent_id", "forked_from", "forked_at", "specialist", "model", "status", "started_at"),
    *("tool_calls", "cost_usd"),
)


def index_data(
    runs: Sequence[ListedRun],
    outcomes: Mapping[str, Mapping[str, Any]],
    reports: Mapping[str, str],
    place: str,
    project: str | None = None,
) -> Mapping[str, Any]:
    """Return the data of the index as JSON values.

    runs: In the order of the rows.
    outcomes: Outcomes as `--json` prints them, by run id; runs without one are missing.
    reports: Names of the report files in the folder of the index, by run id.
    place: Name of the store, without a password.
    project: Project of the runs; None = all projects.
    """
    rows = [_row(run, outcomes.get(run.run_id), reports.get(run.run_id)) for run in islice(runs, MOST_RUNS)]
    ids = {run.run_id for run in runs}
    # The cost of a child is part of its parent's.
    counted = [run for run in runs if run.parent_id not in ids]
    costs = [run.cost_usd for run in counted]
    return {
        "store": place,
        "project": project,
        "runs": rows,
        "omitted": len(runs) - len(rows),
        "specialists": len({run.specialist for run in runs}),
        "cost_usd": sum(cost for cost in costs if cost is not None),
        "unknown_costs": sum(cost is None for cost in costs),
        "statuses": sorted({run.status for run in runs}),
    }


run_index = page.HtmlPage("run_index", styles=("report",)).render
"""Return the index with the data of `index_data` as one self-contained HTML document; all untrusted text is escaped."""


def _row(run: ListedRun, outcome: Mapping[str, Any] | None, report: str | None) -> dict[str, Any]:
    ended = outcome or {}
    evidence, took = page.quotes_in(ended), ended.get("duration_s")
    if not isinstance(took, int | float):
        took = None if run.ended_at is None else max(run.ended_at - run.started_at, 0)
    return {
        **{key: getattr(run, key) for key in _OF_RUN},
        "question": page.line(run.question, _QUESTION_LENGTH),
        "seconds": took,
        "quotes": len(evidence),
        "verified": sum(one["verified"] is True for one in evidence),
        "report": None if report is None else quote(report, safe=""),
    }
