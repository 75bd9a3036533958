"""Format the summary line of a run, and the command that resumes it."""

import math
import shlex
from collections.abc import Sequence

from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, Outcome

FLAGS = {kind: f"--{kind.key.replace('_', '-')}" for kind in Kind}
"""The option for each kind of limit."""
FALLBACK_LIMITS = {
    Kind.TOOL_CALLS: 10,
    Kind.TURNS: 10,
    Kind.TOKENS: 100_000,
    Kind.COST: 1,
    Kind.TIME: 60,
    Kind.CHARACTERS: 100_000,
}
"""Suggested new limits where the old limit was 0, which cannot be doubled."""


def summary(outcome: Outcome) -> str:
    """Return status, calls used and their limit, tokens by kind, cost, cost of the landing, time, on one line."""
    calls = outcome.tool_calls
    parts = [
        outcome.status,
        _calls(outcome),
        *([f"{calls.failed} failed"] if calls.failed else []),
        *([f"{calls.skipped} skipped"] if calls.skipped else []),
    ]
    if outcome.usage.total_tokens:
        parts += [
            _tokens(outcome.usage),
            "price unknown" if outcome.cost_usd is None else units.dollars(outcome.cost_usd),
        ]
    landing = outcome.landing
    if landing and landing.usage.total_tokens:
        cost = "" if landing.cost_usd is None else f", {units.dollars(landing.cost_usd)}"
        parts.append(f"landing alone {landing.usage.total_tokens:,} tokens{cost}")
    parts.append(f"{outcome.duration_s:.1f} s")
    looked_up = [one.verified for one in outcome.evidence if one.verified is not None]
    if looked_up and outcome.status in ("answered", "landed"):
        parts.append(f"{sum(looked_up)} of {len(looked_up)} quotes found")
    if outcome.children:
        parts.append(_children(outcome.children))
    return " · ".join(parts)


def brief(outcome: Outcome) -> str:
    """Return a shorter summary for a child run: calls, tokens, cost, time."""
    parts = [_calls(outcome)]
    if outcome.usage.total_tokens:
        parts.append(f"{outcome.usage.total_tokens:,} tokens")
        parts += [] if outcome.cost_usd is None else [units.dollars(outcome.cost_usd)]
    return " · ".join([*parts, f"{outcome.duration_s:.1f} s"])


def resume_command(outcome: Outcome, store: str | None) -> str:
    """Return the command that resumes a run with a doubled limit, or with double the usage if that is more.

    store: the value of `--store`; None if it was not given.
    """
    command = ["specialists", "resume", outcome.run_id]
    kind = Kind(outcome.landing.reason) if outcome.landing else None
    spent = outcome.limits[kind] if kind else None
    if kind and spent and spent.limit is not None:
        command += [FLAGS[kind], f"{_doubled(spent.limit, spent.used or 0) or FALLBACK_LIMITS[kind]:.15g}"]
    return shlex.join([*command, *(["--store", store] if store else [])])


def _doubled(limit: float, used: float) -> float:
    """Return twice the limit, or twice the usage, rounded up to two digits, if the landing exceeded the limit."""
    if used <= limit:
        return limit * 2
    unit = 10.0 ** (math.floor(math.log10(used * 2)) - 1)
    return math.ceil(used * 2 / unit) * unit


def undo_command(outcome: Outcome, store: str | None) -> str:
    """Return the command that undoes the changes of a run.

    store: as for `resume_command`.
    """
    return shlex.join(["specialists", "undo", outcome.run_id, *(["--store", store] if store else [])])


def changed_files(outcome: Outcome, undo: str | None) -> str:
    """Return what a run has done to files, and how to undo it, on one line; empty if it changed none.

    undo: the command that undoes it; None if the run is not stored.
    """
    counts = [(kind, sum(one.change == kind for one in outcome.changes)) for kind in ("created", "changed", "removed")]
    parts = [f"{count} {kind}" for kind, count in counts if count]
    if not parts:
        return ""
    number, kind = parts[0].split()
    parts[0] = f"{number} file{'' if number == '1' else 's'} {kind}"
    lasting = sum(not one.undoable for one in outcome.changes)
    if undo is None or lasting == len(outcome.changes):
        return f"{', '.join(parts)}; this cannot be undone"
    kept = f", but {lasting} of them cannot be undone" if lasting else ""
    return f"{', '.join(parts)}; to undo: {undo}{kept}"


def limit_hint(outcome: Outcome, resume: str | None) -> str | None:
    """Return which limit ended the run and how to continue; None if no limit was reached.

    resume: the command that resumes the run; None if the run is not stored.
    """
    landing = outcome.landing
    if landing is None:
        return None
    kind = Kind(landing.reason)
    limit = outcome.limits[kind].limit
    if limit is None:
        return "the model's context window was full; ask for less, or lower summarize_at to summarize earlier"
    advice = f"to resume: {resume}" if resume else f"raise it with {FLAGS[kind]} for a longer run"
    return f"the limit of {units.amount(kind, limit)} was reached; {advice}"


def _calls(outcome: Outcome) -> str:
    calls = outcome.tool_calls
    if calls.limit is None:
        return units.amount(Kind.TOOL_CALLS, calls.used)
    return f"{calls.used} of {units.of(Kind.TOOL_CALLS, calls.limit)}"


def _children(children: Sequence[Child]) -> str:
    """Return the total usage of the child runs; each child's usage includes its own children."""
    parts = [units.amount(Kind.TOOL_CALLS, sum(one.tool_calls for one in children))]
    if tokens := sum(one.usage.total_tokens for one in children):
        parts.append(f"{tokens:,} tokens")
        costs = [one.cost_usd for one in children if one.cost_usd is not None]
        parts += [units.dollars(sum(costs))] if len(costs) == len(children) else []
    count = f"{len(children)} specialist{'' if len(children) == 1 else 's'} asked"
    return f"{count}: {', '.join(parts)}, included"


def _tokens(usage: Usage) -> str:
    kinds = {
        "in": usage.input_tokens,
        "cache read": usage.cache_read_input_tokens,
        "cache write": usage.cache_creation_input_tokens,
        "out": usage.output_tokens,
    }
    by_kind = ", ".join(f"{tokens:,} {name}" for name, tokens in kinds.items() if tokens)
    return f"{usage.total_tokens:,} tokens ({by_kind})"
