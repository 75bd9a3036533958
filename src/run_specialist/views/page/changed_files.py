"""The changes of files by a run and its child runs, as diffs."""

from collections.abc import Iterator
from typing import Any

from run_specialist.store.stored import StoredRun
from run_specialist.views.page.child_runs import Descendants

MOST_LINES = 2_000
"""Maximum number of lines shown of one diff."""
_KINDS = {"+": "new", "-": "old", "@": "place"}
_HEADERS = ("diff --git ", "--- ", "+++ ", "new file mode ", "deleted file mode ")


def file_changes(run: StoredRun, descendants: Descendants) -> list[dict[str, Any]]:
    """Return the changes in the order in which they were made, each with the lines of its diff.

    descendants: the child runs and their child runs, by id.
    """
    found = [(at, change) for one in (run, *descendants.values()) for at, change in _changes(one, run)]
    return [change for _, change in sorted(found, key=lambda one: one[0])]


def _changes(run: StoredRun, top: StoredRun) -> Iterator[tuple[float, dict[str, Any]]]:
    numbers = {call.call.id: call.number for call in run.calls}
    for event in run.events:
        body = event.body
        if body.get("event") != "file_changed":
            continue
        diff = str(body["diff"]).removesuffix("\n")
        lines = [*_shown(diff.split("\n"))] if diff else []
        yield (
            event.at,
            {
                "path": str(body["path"]),
                "is_new": bool(body["is_new"]),
                "change": str(body.get("change", "created" if body["is_new"] else "changed")),
                "undoable": bool(body.get("undoable", True)),
                "dry_run": bool(body["dry_run"]),
                "added": body["added"],
                "removed": body["removed"],
                "by": None if run is top else run.specialist,
                "call": numbers.get(str(body["call_id"])) if run is top else None,
                "lines": lines[:MOST_LINES],
                "left_out": max(len(lines) - MOST_LINES, 0),
            },
        )


def _shown(lines: list[str]) -> Iterator[dict[str, str]]:
    begun = False
    for line in lines:
        begun = begun or line.startswith("@@")
        if not begun and line.startswith(_HEADERS):
            continue
        yield {"kind": _KINDS.get(line[:1], "same"), "text": line}
