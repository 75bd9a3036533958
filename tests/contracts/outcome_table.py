"""The public contract, written by hand: the keys and types of an outcome.

A change here affects all users of the output: describe it in docs/json.md and CHANGELOG.md.
"""

from tests.contracts.values import ERROR_KINDS, HOW, KINDS, STATUSES

USAGE = {
    "input_tokens": "count",
    "cache_read_input_tokens": "count",
    "cache_creation_input_tokens": "count",
    "output_tokens": "count",
    "web_search_requests": "count",
}
CHANGE = {
    "path": "text",
    "change": {"created", "changed", "removed"},
    "added": "count?",
    "removed": "count?",
    "undoable": "flag",
}
EVIDENCE = {"source": "text", "quote": "text", "verified": "flag?"}
CHILD = {
    "run_id": "text",
    "specialist": "text",
    "status": STATUSES,
    "tool_calls": "count",
    "usage": USAGE,
    "cost_usd": "number?",
    "evidence": [EVIDENCE],
    "children": ["any"],
    "changes": [CHANGE],
}
OUTCOME = {
    "run_id": "text",
    "specialist": "text",
    "model": "text",
    "status": STATUSES,
    "answer": "text",
    "evidence": [EVIDENCE],
    "gaps": ["text"],
    "output": "any",
    "tool_calls": {"used": "count", "limit": "count?", "failed": "count", "skipped": "count"},
    "limits": {kind: {"used": "number?", "limit": "number?"} for kind in sorted(KINDS)},
    "landing": (
        {"reason": KINDS, "how": HOW, "requests": "count", "usage": USAGE, "cost_usd": "number?"},
        None,
    ),
    "usage": USAGE,
    "cost_usd": "number?",
    "duration_s": "number",
    "warnings": ["text"],
    "children": [CHILD],
    "error_kind": (ERROR_KINDS, None),
    "retry_after": "number?",
    "patch": "text?",
    "models": [
        {
            "model": "text",
            "since_turn": "count",
            "turns": "count",
            "usage": USAGE,
            "cost_usd": "number?",
            "failure": "text?",
        }
    ],
    "changes": [CHANGE],
}
PRINTED_OUTCOME = OUTCOME | {"error": ({"kind": "text", "message": "text"}, None)}
"""What `--json` of `run-specialist` and `specialists resume` prints."""
