"""Items in every state, and the pages of batches with them."""

import re

from run_specialist.store.batches import StoredBatch
from run_specialist.store.stored import BatchTotals, ItemResult
from run_specialist.views import batch_page
from run_specialist.views.batch_page import batch_data, failures

STATUSES = ("answered", "landed", "partial", "failed", "aborted", "dead", "running", "interrupted", "not run")
BATCH = StoredBatch("b1f00d", "looker", "What does {path} say?", 1_795_348_800.0, cost_limit=5.0, project="/home/ada")
EVIDENCE = [
    {"source": "a.md:1", "quote": "It leaks.", "verified": True},
    {"source": "b.md:2", "quote": "It does not.", "verified": False},
]


def item(number=1, status="answered", **changed):
    """Return an item; one that has ended has an outcome."""
    answer = f"**Answer** {number} about leaks."
    ended = {"answer": answer, "evidence": EVIDENCE, "gaps": ["when"], "warnings": ["the model refused"], "model": "m"}
    has_run = status not in {"not run", "dead"}
    values = {
        "number": number,
        "run_id": f"b1f00d-{number:04}",
        "input": {"path": f"docs/{number}.md", "line": number},
        "question": f"What does docs/{number}.md say?",
        "status": status,
        "outcome": ended if status in STATUSES[:5] else None,
        "error": None,
        "tool_calls": number if has_run else 0,
        "cost_usd": 0.25 if has_run else None,
        "seconds": 65.0 if has_run else None,
        "started_at": 1_795_348_800.0 + number if has_run else None,
    }
    return ItemResult(**(values | changed))


def data_of(*items, batch=BATCH, reports=None, **tally):
    """Return the data of a page."""
    counts = {status: sum(one.status == status for one in items) for status in STATUSES}
    values = {"counts": {status: count for status, count in counts.items() if count}, "runs": len(items)} | tally
    found = failures(one for one in items if one.status in {"failed", "aborted", "dead"})
    return batch_data(batch, BatchTotals(**values), found, iter(items), reports)


def page_of(*items, **given):
    """Return a page."""
    return batch_page.batch_page(data_of(*items, **given))


def cells(page):
    """Return the texts of the cells of each row, without what is folded in."""
    rows = re.findall(r"<tr id=.*?</tr>", re.sub(r'<div class="inside".*?</details>', "", page, flags=re.DOTALL))
    return [[re.sub("<[^>]+>", "", cell) for cell in re.findall(r"<t[dh][ >].*?</t[dh]>", row)] for row in rows]
