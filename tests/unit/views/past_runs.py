"""Test data: past runs, and the parts of their outcomes that tuning reads."""

from run_specialist.store.stored import PastRun

USAGE = {"input_tokens": 60, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 0, "output_tokens": 10}


def outcome(used=4, limit=30, status="answered", *, landed=None, how="force", requests=1, cost=0.5, failed=0, **limits):
    """Return the parts of an outcome that tuning reads; `landed` is the kind of limit that was reached."""
    given = {"tool_calls": limit} | limits
    usage = USAGE if requests else dict.fromkeys(USAGE, 0)
    landing = {"reason": landed, "how": how, "requests": requests, "usage": usage, "cost_usd": cost and cost / 5}
    return {
        "status": status,
        "tool_calls": {"used": used, "limit": limit, "failed": failed, "skipped": 1 if landed else 0},
        "limits": {kind: {"used": used, "limit": given.get(kind)} for kind in ("tool_calls", "tokens", "time")},
        "landing": landing if landed else None,
        "usage": {name: 4 * number for name, number in USAGE.items()},
        "cost_usd": cost,
    }


def past(*outcomes, repeated=0):
    """Return past runs with these outcomes, one hour apart."""
    return [
        PastRun(f"run-{place}", 3_600.0 * place, told, told["tool_calls"]["used"], repeated)
        for place, told in enumerate(outcomes)
    ]
