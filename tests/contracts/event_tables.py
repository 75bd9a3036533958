"""The public contract, written by hand: the keys and types of the events of a run and of a batch.

A change here affects all users of the output: describe it in docs/json.md and CHANGELOG.md.
"""

from tests.contracts.outcome_table import OUTCOME, USAGE
from tests.contracts.values import BUDGET_PHASES, CALL_PHASES, CHOICES, ERROR_KINDS, HOW, KINDS, STATUSES, STOPS

EVENTS = {
    "started": {
        "run_id": "text",
        "specialist": "text",
        "model": "text",
        "question": "text",
        "tools": ["text"],
        "limits": dict.fromkeys(sorted(KINDS), "number?"),
    },
    "resumed": {
        "run_id": "text",
        "used": dict.fromkeys(sorted(KINDS), "number"),
        "note": "text",
        "tokens": "count",
        "cost_usd": "number?",
    },
    "forked": {
        "run_id": "text",
        "source": "text",
        "at": "count",
        "used": {"tool_calls": "number", "turns": "number", "characters": "number"},
        "note": "text",
    },
    "retrying": {"status": "count?", "seconds": "number", "attempt": "count", "reason": "text"},
    "waiting": {"phase": {"started", "finished"}, "seconds": "number?", "reason": "text"},
    "model_changed": {
        "turn": "count",
        "before": "text",
        "model": "text",
        "reason": "text",
        "kind": ERROR_KINDS,
        "left_out": "text",
        "cold_tokens": "count?",
        "cold_cost_usd": "number?",
    },
    "request": {"turn": "count", "choice": CHOICES},
    "reply": {
        "turn": "count",
        "stop": STOPS,
        "reason": "text",
        "text": "text",
        "usage": USAGE,
        "cost_usd": "number?",
    },
    "tool_call": {
        "phase": CALL_PHASES,
        "id": "text",
        "name": "text",
        "arguments": ({"...": "any"}, None),
        "characters": "count",
        "duration_s": "number",
        "text": "text",
    },
    "file_changed": {
        "call_id": "text",
        "path": "text",
        "diff": "text",
        "added": "count?",
        "removed": "count?",
        "is_new": "flag",
        "dry_run": "flag",
        "change": {"created", "changed", "removed"},
        "undoable": "flag",
    },
    "budget": {
        "kind": KINDS,
        "limit": "number?",
        "used": "number",
        "remaining": "number?",
        "phase": BUDGET_PHASES,
    },
    "landing": {"reason": KINDS, "how": HOW},
    "summarized": {
        "summary": "text",
        "archived": "count",
        "tokens_before": "count",
        "tokens_after": "count",
        "usage": USAGE,
        "cost_usd": "number?",
    },
    "warning": {"text": "text"},
    "child": {"run_id": "text", "specialist": "text", "told": {"...": "any"}},
    "finished": {"outcome": OUTCOME},
}

BATCH_COUNTS = {
    "answered": "count",
    "landed": "count",
    "partial": "count",
    "failed": {"...": "count"},
    "aborted": "count",
    "at_work_elsewhere": "count",
    "not_run": "count",
}
BATCH_EVENTS = {
    "batch_started": {"batch": "text", "total": "count?", "at_once": "count", "cost_limit": "number?"},
    "item_started": {"number": "count", "run_id": "text"},
    "item_ended": {
        "number": "count",
        "run_id": "text",
        "state": STATUSES | {"not run", "at work elsewhere"},
        "cost_usd": "number?",
        "error_kind": "text?",
        "is_earlier": "flag",
    },
    "batch_paused": {"kind": "text", "reason": "text", "seconds": "number"},
    "batch_resumed": {"kind": "text"},
    "batch_ended": {
        "counts": {**BATCH_COUNTS, "under_way": "count", "earlier": "count", "total": "count?", "done": "count"},
        "cost_usd": "number",
        "reason": "text?",
    },
}
