"""The public contract, written by hand: exit codes, and the keys and types of all JSON output.

A change here affects all users of the output: describe it in docs/command-line.md and CHANGELOG.md.
"""

EXIT_CODES = {"OK": 0, "USAGE": 2, "PROVIDER": 3, "NO_ANSWER": 4, "INTERRUPTED": 130}

STATUSES = {"answered", "landed", "partial", "failed", "aborted"}
LISTED = STATUSES | {"running", "interrupted"}
KINDS = {"tool_calls", "turns", "tokens", "cost", "time", "characters"}
BUDGET_PHASES = {"silent", "countdown", "spent"}
CALL_PHASES = {"started", "finished", "failed", "skipped"}
HOW = {"force", "order", "schema", "none", "finalize", "salvage"}
STOPS = {"answered", "wants_tools", "paused", "truncated", "refused"}
CHOICES = {"auto", "none", "respond", "schema"}

ERROR_KINDS = {
    "rate_limited",
    "overloaded",
    "quota",
    "credentials",
    "model_missing",
    "connection",
    "server_error",
    "invalid_request",
    "context_exceeded",
    "store_lost",
    "internal",
}

USAGE = {
    "input_tokens": "count",
    "cache_read_input_tokens": "count",
    "cache_creation_input_tokens": "count",
    "output_tokens": "count",
    "web_search_requests": "count",
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
}

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
        "added": "count",
        "removed": "count",
        "is_new": "flag",
        "dry_run": "flag",
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
