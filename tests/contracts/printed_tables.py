"""The public contract, written by hand: the keys and types of all that the commands print as JSON.

A change here affects all users of the output: describe it in docs/json.md and CHANGELOG.md.
"""

from tests.contracts.event_tables import BATCH_COUNTS
from tests.contracts.outcome_table import OUTCOME
from tests.contracts.values import KINDS, LISTED

PROBLEM = {
    "path": "text",
    "line": "count",
    "column": "count",
    "key": "text?",
    "text": "text",
    "level": {"error", "warning", "notice"},
}
FILE = {
    "name": "text",
    "description": "text",
    "path": "text",
    "dialect": {"run-specialist", "claude", "copilot", "gemini", "opencode", "codex", "cursor"},
    "tools": (["text"], None),
    "model": "text?",
    "tool_calls_limit": "limit?",
    "status": {"ok", "warning", "error"},
    "problems": [PROBLEM],
}
SETTING = {
    "value": "any",
    "source": {"flag", "file", "preset", "project", "user", "default"},
    "line": "count?",
    "path": "text?",
}
LISTED_RUN = {
    "run_id": "text",
    "parent_id": "text?",
    "specialist": "text",
    "model": "text",
    "question": "text",
    "status": LISTED,
    "started_at": "text",
    "ended_at": "text?",
    "tool_calls": "count",
    "cost_usd": "number?",
    "project": "text?",
    "duration_s": "number?",
    "forked_from": "text?",
    "forked_at": "count?",
}
RUNS = {"runs": [LISTED_RUN], "store": "text", "size_bytes": "count", "project": "text?"}
MESSAGES = {
    "user": {"role": {"user"}, "text": "text"},
    "assistant": {"role": {"assistant"}, "text": "text"},
    "tool_call": {"role": {"assistant"}, "name": "text", "id": "text", "arguments": ({"...": "any"}, None)},
    "tool_result": {"role": {"tool"}, "name": "text", "id": "text", "content": "text", "is_error": "flag"},
    "summary": {"role": {"assistant"}, "text": "text"},
}
BILL = {"median": "number?", "total": "number", "share": "number?", "unknown": "count"}

EFFECTIVE_MODEL = {
    "name": "text",
    "id": "text",
    "source": "text",
    "usd_per_million_tokens": ({"input": "number", "output": "number"}, None),
    "higher_price_above_tokens": "count?",
}

EFFECTIVE = {
    "tools": {
        "offered": (["text"], None),
        "dropped": [{"name": "text", "reason": "text", "key": "text?", "line": "count?"}],
    },
    "model": EFFECTIVE_MODEL,
    "fallback_models": [EFFECTIVE_MODEL],
    "limits": {"...": SETTING},
    "added_to_prompt": [{"name": "text", "chars": "count", "tokens": "count"}],
    "known_at_run_time": ["text"],
    "cannot_run": ["text"],
    "past_runs": {
        "runs": "count",
        "medians": [
            {"model": "text", "runs": "count", "tool_calls": "number", "seconds": "number", "cost_usd": "number?"}
        ],
        "note": "text?",
    },
}
TYPICAL = ({"median": "number", "nine_of_ten": "number"}, None)
PRINTED = {
    "specialists map": {
        "batch": "text",
        "specialist": "text",
        "items": "count",
        "counts": BATCH_COUNTS,
        "earlier": "count",
        "cost_usd": "number?",
        "duration_s": "number",
        "ended_because": "text?",
        "problem": "text?",
        "not_stored": "count",
        "out": "text?",
        "reduced": (OUTCOME, None),
    },
    "specialists map --dry-run": {
        "batch": "text",
        "items": "count?",
        "earlier": "count",
        "at_once": "count",
        "cost_limit": "number?",
        "first": [{"number": "count", "input": "any", "question": "text"}],
        "forecast": {
            "runs": "count",
            "tool_calls": TYPICAL,
            "seconds": TYPICAL,
            "cost_usd": TYPICAL,
            "total_seconds": "number?",
            "total_cost_usd": "number?",
            "total_cost_usd_90": "number?",
        },
    },
    "specialists config": {
        "settings": {
            "...": {
                "value": "any",
                "source": {"environment", "project", "user", "default"},
                "variable": "text?",
                "path": "text?",
                "line": "count?",
            }
        },
        "files": [
            {
                "path": "text",
                "scope": {"project", "user"},
                "state": {"read", "missing", "no_table", "ignored"},
                "reason": "text?",
            }
        ],
        "trusted": "flag?",
    },
    "specialists list": {"specialists": [{**FILE, "unavailable": "text?"}]},
    "specialists check": {"files": [FILE]},
    "specialists show": {
        **FILE,
        "unavailable": "text?",
        "settings": {"...": SETTING},
        "prompt": "text?",
        "trusted": "flag?",
        "effective": (EFFECTIVE, None),
    },
    "specialists runs": RUNS,
    "specialists runs --delete": {**RUNS, "deleted": ["text"]},
    "specialists transcript": {
        "run_id": "text",
        "specialist": "text",
        "status": LISTED,
        "parent_id": "text?",
        "children": [{"run_id": "text", "specialist": "text", "status": LISTED}],
        "forked_from": "text?",
        "forked_at": "count?",
        "copied_messages": "count",
        "messages": [{"...": "any"}],
    },
    "specialists report": {
        "run_id": "text",
        "parent_id": "text?",
        "specialist": "text",
        "model": "text",
        "models": [
            {"model": "text", "turns": "count", "tokens": "count", "cost_usd": "number?", "failure": "text?"},
        ],
        "question": "text",
        "status": LISTED,
        "status_words": "text",
        "started_at": "number",
        "ended_at": "number?",
        "seconds": "number",
        "forked_from": "text?",
        "forked_at": "count?",
        "copied": {"turns": "count", "calls": "count"},
        "comparison": ["any"],
        "changes": ["any"],
        "facts": {"...": "any"},
        "answer": {"...": "any"},
        "children": {"...": "any"},
        "budget": {"...": "any"},
        "timeline": {"...": "any"},
        "requests": {"...": "any"},
        "turns": ["any"],
        "after": ["any"],
        "setup": {"...": "any"},
    },
    "specialists tune": {
        "specialist": "text",
        "runs": "count",
        "first_at": "text?",
        "last_at": "text?",
        "statuses": {"...": "count"},
        "limit": "count?",
        "limit_from": {"file", "run"},
        "judged": "count",
        "ended": "count",
        "enough": "count?",
        "bars": [{"first": "count", "last": "count", "ended": "count", "cut": "count"}],
        "hits": [
            {
                "reason": KINDS | {"context"},
                "runs": "count",
                "how": {"...": "count"},
                "partial": "count",
                "failed": "count",
            }
        ],
        "calls": dict.fromkeys(("run", "repeated", "failed", "skipped"), "count"),
        "tokens": BILL,
        "cost_usd": BILL,
        "landings": "count",
        "landing_tokens": BILL,
        "landing_cost_usd": BILL,
        "suggestion": {
            "verdict": {"raise", "lower", "set", "keep", "probe", "prompt", "other cause", "too early"},
            "tool_calls_limit": "count?",
            "reason": "text",
        },
        "changed_limits": {"...": "count"},
        "versions": [
            {"digest": "text?", "runs": "count", "first_at": "text", "last_at": "text", "counted": "flag"},
        ],
    },
}
