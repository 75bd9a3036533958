"""The line at the end of a run: what came of it and what it cost."""

import math
import shlex
from collections.abc import Sequence

from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, Outcome

FLAGS = {kind: f"--{kind.key.replace('_', '-')}" for kind in Kind}
"""What raises each limit."""
SOME = {
    Kind.TOOL_CALLS: 10,
    Kind.TURNS: 10,
    Kind.TOKENS: 100_000,
    Kind.COST: 1,
    Kind.TIME: 60,
    Kind.CHARACTERS: 100_000,
}
"""What is proposed in place of a limit of 0."""


def summary(outcome: Outcome) -> str:
    """Return it: status, calls used and their limit, tokens by kind, cost, what the landing alone cost, time."""
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
        alone = "" if landing.cost_usd is None else f", {units.dollars(landing.cost_usd)}"
        parts.append(f"landing alone {landing.usage.total_tokens:,} tokens{alone}")
    parts.append(f"{outcome.duration_s:.1f} s")
    if outcome.evidence and outcome.status in ("answered", "landed"):
        verified = sum(one.verified for one in outcome.evidence)
        parts.append(f"{verified} of {len(outcome.evidence)} quotes verified")
    if outcome.children:
        parts.append(_asked(outcome.children))
    return " · ".join(parts)


def brief(outcome: Outcome) -> str:
    """Return the same in fewer words, for a specialist that another one asked: calls, tokens, cost, time."""
    parts = [_calls(outcome)]
    if outcome.usage.total_tokens:
        parts.append(f"{outcome.usage.total_tokens:,} tokens")
        parts += [] if outcome.cost_usd is None else [units.dollars(outcome.cost_usd)]
    return " · ".join([*parts, f"{outcome.duration_s:.1f} s"])


def resume_command(outcome: Outcome, store: str | None) -> str:
    """Return the command that goes on with a run, with twice the limit that it reached, or what it used of it.

    store: as it was given; None where none was.
    """
    words = ["specialists", "resume", outcome.run_id]
    kind = Kind(outcome.landing.reason) if outcome.landing else None
    spent = outcome.limits[kind] if kind else None
    if kind and spent and spent.limit is not None:
        words += [FLAGS[kind], f"{_twice(spent.limit, spent.used or 0) or SOME[kind]:.15g}"]
    return shlex.join([*words, *(["--store", store] if store else [])])


def _twice(limit: float, used: float) -> float:
    """Return twice the limit; where the landing used more of it, twice that, rounded up to two digits."""
    if used <= limit:
        return limit * 2
    unit = 10.0 ** (math.floor(math.log10(used * 2)) - 1)
    return math.ceil(used * 2 / unit) * unit


def how_to_go_on(outcome: Outcome, resume: str | None) -> str | None:
    """Return which limit ended the work and how to go on; None when none did.

    resume: the command that does; None where the run is not kept.
    """
    landing = outcome.landing
    if landing is None:
        return None
    kind = Kind(landing.reason)
    limit = outcome.limits[kind].limit
    if limit is None:
        return "the model's context was full; ask for less, or let it summarise earlier with summarize_at"
    onwards = f"to go on: {resume}" if resume else f"raise it with {FLAGS[kind]} to go on"
    return f"the limit of {units.amount(kind, limit)} was reached; {onwards}"


def _calls(outcome: Outcome) -> str:
    calls = outcome.tool_calls
    if calls.limit is None:
        return units.amount(Kind.TOOL_CALLS, calls.used)
    return f"{calls.used} of {units.of(Kind.TOOL_CALLS, calls.limit)}"


def _asked(children: Sequence[Child]) -> str:
    """Return what the specialists took that were asked on the way; each has in it what those below it took."""
    parts = [units.amount(Kind.TOOL_CALLS, sum(one.tool_calls for one in children))]
    if tokens := sum(one.usage.total_tokens for one in children):
        parts.append(f"{tokens:,} tokens")
        costs = [one.cost_usd for one in children if one.cost_usd is not None]
        parts += [units.dollars(sum(costs))] if len(costs) == len(children) else []
    asked = f"{len(children)} specialist{'' if len(children) == 1 else 's'} asked"
    return f"{asked}: {', '.join(parts)}, included"


def _tokens(usage: Usage) -> str:
    kinds = {
        "in": usage.input_tokens,
        "read from the cache": usage.cache_read_input_tokens,
        "written to it": usage.cache_creation_input_tokens,
        "out": usage.output_tokens,
    }
    told = ", ".join(f"{tokens:,} {name}" for name, tokens in kinds.items() if tokens)
    return f"{usage.total_tokens:,} tokens ({told})"
