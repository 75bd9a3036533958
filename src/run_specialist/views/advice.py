"""Which `tool_calls_limit` to write into a specialist's file, from what its past runs needed. Pure values."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from run_specialist.budget.budget import Kind
from run_specialist.views.needs import CONTEXT, Need, enough_for

SHARE = Fraction(9, 10)
"""So many of all runs shall end by themselves; the rest lands."""
FEWEST = 5
"""Fewer runs tell nothing."""
SLACK = 5
"""One call is added for each so many: a fifth."""
REPEATS = 0.2
"""From this share of repeated calls on, what was used says more of the prompt than of the need."""

Verdict = Literal["raise", "lower", "set", "keep", "probe", "prompt", "other cause", "too early"]
"""Write a higher limit; a lower one; a first one; leave it; try a higher one to learn more; mend the prompt first; see
to what else cut the runs; nothing can be said yet."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to do about a limit of tool calls, and why."""

    verdict: Verdict
    tool_calls_limit: int | None
    """The limit to have; None where none can be named."""
    reason: str
    """One sentence."""


def suggest(needs: Sequence[Need], now: int | None, repeated: float) -> Suggestion:
    """Return the limit with which nine runs of ten end by themselves, with some slack.

    now: the limit that holds for the next run; None = no limit.
    repeated: share of the calls that repeated an earlier one.
    """
    if now == 0:
        return Suggestion("keep", 0, "a limit of 0 means that it answers at once, whatever it would need")
    if len(needs) < FEWEST:
        some = "no run tells" if not needs else f"only {_runs(len(needs))} {'tells' if len(needs) == 1 else 'tell'}"
        return Suggestion("too early", None, f"{some} what it needs; {FEWEST} are the least to judge by")
    if repeated >= REPEATS:
        return Suggestion(
            "prompt",
            None,
            f"{100 * repeated:.0f} % of its tool calls repeated an earlier one word for word; mend the prompt before "
            "the limit, for example let it say how to search",
        )
    enough = enough_for(needs, SHARE)
    return _unknown(needs, now) if enough is None or _is_thin(needs, enough) else _known(enough, now)


def limit_for(enough: int) -> int:
    """Return the limit with which a run that needs `enough` calls ends by itself, with a fifth of slack, rounded up.

    At least one more than is needed: a run lands when it makes its last call, even if it would have answered next.
    """
    return _rounded(enough + 1 + enough // SLACK)


def _is_thin(needs: Sequence[Need], enough: int) -> bool:
    """Say whether a need rests on a few runs that had more room than the many which were cut before it."""
    cut_before = sum(not need.known and need.calls <= enough for need in needs)
    return cut_before > len(needs) * (1 - SHARE) and sum(need.had(enough) for need in needs) < FEWEST


def _known(enough: int, now: int | None) -> Suggestion:
    limit = limit_for(enough)
    need = f"nine runs of ten end by themselves with {_calls(enough)} or fewer"
    if now is None:
        return Suggestion("set", limit, f"{need}; without a limit nothing holds back a run that goes astray")
    if now <= enough:
        return Suggestion(
            "raise", limit, f"{need}, and those that need the most land at the limit of {now} before they are through"
        )
    if now < 2 * limit:
        return Suggestion("keep", now, f"{need}, which a limit of {now} allows without being far above it")
    return Suggestion(
        "lower",
        limit,
        f"{need}, far below the limit of {now}; a countdown from half of the limit would begin after "
        f"{_calls(_half(limit))} instead of {_half(now)}, and a run that goes astray would feel it earlier",
    )


def _unknown(needs: Sequence[Need], now: int | None) -> Suggestion:
    """Say what to do where too many runs were cut to know what they need."""
    cut = Counter(need.cut_by for need in needs if not need.known)
    many = f"{cut.total()} of {_runs(len(needs))} were cut before they had shown what they need"
    if 2 * cut[Kind.TOOL_CALLS] < cut.total():
        by, times = next((by, times) for by, times in cut.most_common() if by != Kind.TOOL_CALLS)
        return Suggestion("other cause", None, f"{many}, {times} of them {_cause(by)}")
    had = sum(need.limit is None or (now is not None and need.limit >= now) for need in needs)
    if had < FEWEST:
        holds = "no limit" if now is None else f"the limit of {now}"
        few = "none" if not had else "only one" if had == 1 else f"only {had}"
        return Suggestion("too early", None, f"{many}, and {few} of them had {holds} that holds now; let some more run")
    if now is None:
        return Suggestion("too early", None, f"{many}; there is no limit to raise, let some more run")
    most = max(now, *(need.calls for need in needs))
    step = _rounded(most + (most + 1) // 2)
    what = "half again as much" if most == now else f"half again as much as the {_calls(most)} that one of them used"
    return Suggestion("probe", step, f"{many}; {what} is a step to find out, then look again after some runs")


def _cause(cut_by: str | None) -> str:
    if cut_by is None:
        return "by no limit; their warnings say why"
    if cut_by == CONTEXT:
        return "because the model's context was full; let it summarise earlier with summarize_at"
    kind = Kind(cut_by)
    return f"by the limit of {kind.words}; raise {kind.key} first"


def _rounded(calls: int) -> int:
    """Round up: to fives above twenty, to tens above a hundred, to fifties above five hundred."""
    step = next((step for most, step in ((20, 1), (100, 5), (500, 10)) if calls <= most), 50)
    return -(-calls // step) * step


def _half(limit: int) -> int:
    """Return the call after which half of a limit is used."""
    return -(-limit // 2)


def _calls(number: int) -> str:
    return f"{number} tool call{'' if number == 1 else 's'}"


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"
