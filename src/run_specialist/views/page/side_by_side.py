"""Compare a fork with its source run: the first turn that differs, and the calls, cost and answer of each after it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from run_specialist.errors import RunNotFound
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import NO_MODEL, OFFLINE
from run_specialist.store.stored import StoredRun, StoredTurn
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.views.page.answer_section import status
from run_specialist.views.page.child_runs import child_runs
from run_specialist.views.page.formats import brief

MOST_FORKS = 20
"""Maximum number of forks compared with their source; the newest are used."""
BRIEF = 120
"""Maximum length of the description of the first turn that differs [characters]."""


@dataclass(frozen=True, slots=True)
class RelatedRuns:
    """The runs that a run is compared with."""

    source: StoredRun | None = None
    """The source run of a fork; None for other runs, or if it is no longer stored."""
    forks: tuple[StoredRun, ...] = ()
    """The runs that begin with its turns, oldest first."""


NO_KIN = RelatedRuns()


def kin(run: StoredRun, load: Callable[[str], StoredRun], forks: Sequence[str]) -> RelatedRuns:
    """Return the runs that a run is compared with.

    load: returns a stored run by its whole id.
    forks: ids of its forks, oldest first.
    """
    found = tuple(other for one in forks[-MOST_FORKS:] if (other := _loaded(one, load)) is not None)
    return RelatedRuns(_loaded(run.forked_from, load) if run.forked_from else None, found)


def _loaded(run_id: str, load: Callable[[str], StoredRun]) -> StoredRun | None:
    try:
        found = load(run_id)
    except RunNotFound:
        return None
    # The id of a deleted run may be the beginning of another one.
    return found if found.run_id == run_id else None


def copied(run: StoredRun) -> dict[str, int]:
    """Return how many turns and tool calls a fork has copied."""
    calls = sum(call.turn <= (run.forked_at or 0) for call in run.calls)
    return {"turns": len(run.turns) - len(run.own_turns), "calls": calls}


def comparison(run: StoredRun, kin: RelatedRuns) -> list[dict[str, Any]]:
    """Return the pairs of the report: the run and its source, then the run and each of its forks."""
    pairs = [_pair(run, kin.source, run)] if run.forked_from else []
    return [*pairs, *(_pair(run, run, fork) for fork in kin.forks)]


def _pair(this: StoredRun, source: StoredRun | None, fork: StoredRun) -> dict[str, Any]:
    at = fork.forked_at or 0
    before = source or fork
    calls = sum(call.turn <= at for call in before.calls)
    gone = {"run_id": fork.forked_from, "kept": False, "model": (fork.frozen.get("fork") or {}).get("model")}
    sides = [
        {"role": "source", **(gone if source is None else _side(source, at))},
        {"role": "fork", **_side(fork, at)},
    ]
    return {"at": at, "calls": calls, "sides": [{**one, "this": one["run_id"] == this.run_id} for one in sides]}


def _side(run: StoredRun, at: int) -> dict[str, Any]:
    later = [turn for turn in run.turns if turn.number > at]
    outcome = run.outcome or {}
    evidence = outcome.get("evidence", ())
    tokens, cost = _spent(run, at, later)
    return {
        "run_id": run.run_id,
        "kept": True,
        "model": run.model,
        "status": run.status,
        "status_words": status(run),
        "turns": len(later),
        "calls": sum(call.turn > at for call in run.calls),
        "tokens": tokens,
        "cost_usd": cost,
        "next": _did(later[0]) if later else "",
        # With its quotes in place, because they are not listed below it.
        "answer": {"text": outcome.get("answer", ""), "evidence": []},
        "output": outcome.get("output"),
        "quotes": len(evidence),
        "verified": sum(one["verified"] is True for one in evidence),
        "unjudged": NO_MODEL if run.model == OFFLINE else None,
    }


def _spent(run: StoredRun, at: int, later: Sequence[StoredTurn]) -> tuple[int, float | None]:
    """Return tokens and cost of a run after its first turns, including summaries and child runs.

    at: number of these turns.
    """
    since = max((turn.at for turn in run.turns if turn.number <= at), default=run.started_at)
    summaries = [one.body for one in run.events if one.body.get("event") == "summarized" and one.at > since]
    children = [one.child for one in child_runs(run, {}) if one.call is None or one.call.turn > at]
    usages = [turn.usage for turn in later]
    usages += [Usage(**body["usage"]) for body in summaries]
    usages += [child.usage for child in children]
    costs = [turn.cost_usd for turn in later]
    costs += [body["cost_usd"] for body in summaries]
    costs += [child.cost_usd for child in children]
    known = [cost for cost in costs if cost is not None]
    return sum(usage.total_tokens for usage in usages), sum(known) if len(known) == len(costs) else None


def _did(turn: StoredTurn) -> str:
    """Return the calls of a turn, otherwise its text, on one line."""
    calls = [_call(one.name, one.arguments) for one in turn.calls]
    text = ", ".join(calls) or " ".join(turn.reply.text.split())
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 1]}…"


def _call(name: str, arguments: Mapping[str, Any] | None) -> str:
    return name if name == RESPOND else f"{name} {brief(arguments, BRIEF)}"
