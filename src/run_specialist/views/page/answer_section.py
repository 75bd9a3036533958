"""The answer section: status, answer, evidence, gaps and warnings."""

from collections.abc import Mapping, Sequence
from typing import Any

from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import NO_MODEL, OFFLINE
from run_specialist.store.stored import StoredCall, StoredRun
from run_specialist.views.page.budget_chart import HOW
from run_specialist.views.page.formats import counted

_STATUS = {
    "answered": "answered by itself",
    "landed": "answered at a limit",
    "partial": "a partial answer, or the gathered material",
    "failed": "no answer",
    "aborted": "stopped before it answered",
    "running": "still running; this report shows the data stored so far",
    "interrupted": "its process ended before it answered",
}


def status(run: StoredRun) -> str:
    """Return the status as a sentence, with the limit that was reached."""
    meaning = _STATUS.get(run.status, run.status)
    outcome = run.outcome or {}
    landing = outcome.get("landing")
    if not landing:
        return meaning
    kind = Kind(landing["reason"])
    limit = outcome["limits"][kind]["limit"]
    cause = "the context window was full" if limit is None else f"the limit of {units.amount(kind, limit)} was reached"
    how = HOW.get(landing["how"], landing["how"])
    requests = landing["requests"]
    effort = f" in {counted(requests, 'request')}" if requests else ""
    return ("" if run.status == "landed" else f"{meaning}; ") + f"{cause}, and {how}{effort}"


def answer(
    run: StoredRun,
    turns: Sequence[Mapping[str, Any]],
    holders: Sequence[StoredCall | None],
) -> dict[str, Any]:
    """Return the answer with its evidence; each quote links to its position in the report.

    turns: the turns as shown in the report.
    holders: for each piece of evidence, the call whose result contains it.
    """
    outcome = run.outcome or {}
    marked = {piece["quote"] for turn in turns for call in turn["calls"] for piece in call["result"]}
    return {
        "text": outcome.get("answer", ""),
        "output": outcome.get("output"),
        "newest_text": "" if run.outcome or not run.snapshot else run.snapshot.last_text,
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
        "unjudged": NO_MODEL if run.model == OFFLINE else None,
        "error": outcome.get("error"),
    }


def _warnings(run: StoredRun) -> Sequence[str]:
    return run.snapshot.warnings if run.snapshot else ()


def facts(run: StoredRun, kinds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the calls, turns, tokens and cost of the run.

    kinds: usage by kind, as shown in the report.
    """
    used = {kind["kind"]: kind["used"] for kind in kinds}
    outcome = run.outcome or {}
    skipped = run.snapshot.skipped if run.snapshot else 0
    return {
        "calls": int(used[Kind.TOOL_CALLS]),
        "limit": next(kind["limit"] for kind in kinds if kind["kind"] == Kind.TOOL_CALLS),
        "failed": sum(call.is_error for call in run.calls),
        "skipped": outcome["tool_calls"]["skipped"] if outcome else skipped,
        "turns": len(run.own_turns),
        # `usage` includes child runs, also if they do not share the budget.
        "tokens": Usage(**outcome["usage"]).total_tokens if outcome else int(used[Kind.TOKENS]),
        "cost_usd": outcome.get("cost_usd", run.cost_usd),
    }
