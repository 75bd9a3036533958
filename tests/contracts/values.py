"""The public contract, written by hand: exit codes, and the values that a field of the JSON output can have.

A change here affects all users of the output: describe it in docs/json.md and CHANGELOG.md.
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
