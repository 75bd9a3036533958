"""What came of a run: its status in words, the answer, what it rests on, and what was odd."""

from collections.abc import Mapping, Sequence
from typing import Any

from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.store.stored import StoredCall, StoredRun
from run_specialist.views.page.budget_chart import HOW
from run_specialist.views.page.formats import counted

_STATUS = {
    "answered": "answered by itself",
    "landed": "answered at a limit",
    "partial": "only a part of an answer, or what was gathered",
    "failed": "no answer could be had",
    "aborted": "stopped before it had answered",
    "running": "under way; this is what was kept until now",
    "interrupted": "its process ended before there was an answer",
}


def status(run: StoredRun) -> str:
    """Return what the status means, with the limit that was reached."""
    said = _STATUS.get(run.status, run.status)
    outcome = run.outcome or {}
    landing = outcome.get("landing")
    if not landing:
        return said
    kind = Kind(landing["reason"])
    limit = outcome["limits"][kind]["limit"]
    what = "the context was full" if limit is None else f"the limit of {units.amount(kind, limit)} was reached"
    how = HOW.get(landing["how"], landing["how"])
    requests = landing["requests"]
    took = f" in {counted(requests, 'request')}" if requests else ""
    return ("" if run.status == "landed" else f"{said}; ") + f"{what}, and {how}{took}"


def answer(
    run: StoredRun,
    said: Sequence[Mapping[str, Any]],
    holders: Sequence[StoredCall | None],
) -> dict[str, Any]:
    """Return the answer with its evidence, each quote with the place in the page where it stands.

    said: the turns as the page shows them.
    holders: for each piece of evidence the call that holds it.
    """
    outcome = run.outcome or {}
    marked = {piece["quote"] for turn in said for call in turn["calls"] for piece in call["result"]}
    return {
        "text": outcome.get("answer", ""),
        "output": outcome.get("output"),
        "newest_text": "" if run.outcome or not run.standing else run.standing.last_text,
        "evidence": [
            {
                "number": number,
                "source": one["source"],
                "quote": one["quote"],
                "verified": one["verified"],
                "call": call and call.number,
                "name": call and call.call.name,
                "target": call and (f"quote-{number}" if number in marked else f"result-{call.number}"),
            }
            for number, (one, call) in enumerate(zip(outcome.get("evidence", ()), holders, strict=True), 1)
        ],
        "gaps": list(outcome.get("gaps", ())),
        "warnings": list(outcome.get("warnings", _warnings(run))),
        "error": outcome.get("error"),
    }


def _warnings(run: StoredRun) -> Sequence[str]:
    return run.standing.warnings if run.standing else ()


def facts(run: StoredRun, kinds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the run took.

    kinds: what was used of each kind, as the page shows it.
    """
    used = {kind["kind"]: kind["used"] for kind in kinds}
    outcome = run.outcome or {}
    booked = run.standing.skipped if run.standing else 0
    return {
        "calls": int(used[Kind.TOOL_CALLS]),
        "limit": next(kind["limit"] for kind in kinds if kind["kind"] == Kind.TOOL_CALLS),
        "failed": sum(call.is_error for call in run.calls),
        "skipped": outcome["tool_calls"]["skipped"] if outcome else booked,
        "turns": len(run.turns),
        # A budget of its own does not hold what those took who were asked; the bill does.
        "tokens": sum(outcome["usage"].values()) if outcome else int(used[Kind.TOKENS]),
        "cost_usd": outcome.get("cost_usd", run.cost_usd),
    }
