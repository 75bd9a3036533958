"""Suggest a `tool_calls_limit` for a specialist from its stored runs; pure functions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Literal

from run_specialist.budget.budget import Kind
from run_specialist.views.needs import CONTEXT, Need, enough_for

SHARE = Fraction(9, 10)
"""Target share of runs that end by themselves; the others land."""
FEWEST = 10
"""Minimum number of runs for a suggestion: with fewer, nothing can be said about nine of ten."""
FEWEST_UNCUT = 5
"""Minimum number of runs that could have used the suggested number of calls and then ended by themselves."""
SLACK = 5
"""One extra call is added per this number of calls, which is 20 %."""
REPEATS = 0.2
"""From this share of repeated calls, usage reflects a flaw of the prompt rather than the need."""

Verdict = Literal["raise", "lower", "set", "keep", "probe", "prompt", "other cause", "too early"]
"""Raise the limit; lower it; set a first one; keep it; raise it as an experiment; fix the prompt first; fix another
cause of cut runs; not enough data."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A recommended tool-call limit and its reason."""

    verdict: Verdict
    tool_calls_limit: int | None
    """The suggested limit; None without a suggestion, and if the runs do not show which limit is enough."""
    reason: str
    """One sentence."""


def suggest(needs: Sequence[Need], now: int | None, repeated: float) -> Suggestion:
    """Return the limit with which nine of ten runs end by themselves, with some slack.

    now: the current limit; None = no limit.
    repeated: share of calls that repeated an earlier one, 0 to 1.
    """
    if now == 0:
        return Suggestion("keep", 0, "with a limit of 0 it answers immediately, without tool calls")
    if len(needs) < FEWEST:
        count = "no run shows" if not needs else f"{_runs(len(needs))} {'shows' if len(needs) == 1 else 'show'}"
        more = f"{FEWEST - len(needs)}{' more' if needs else ''}"
        return Suggestion("too early", None, f"{count} the number of calls needed, and {more} are required")
    if repeated >= REPEATS:
        return Suggestion(
            "prompt",
            None,
            f"{100 * repeated:.0f} % of its tool calls exactly repeated an earlier one; improve the prompt before "
            "the limit, e.g. explain how to search",
        )
    enough = enough_for(needs, SHARE)
    return _unknown(needs, now) if enough is None or _is_thin(needs, enough) else _known(needs, enough, now)


def limit_for(enough: int) -> int:
    """Return the limit for a run that needs `enough` calls, with 20 % slack, rounded up.

    The limit is at least one more than needed, because a run lands on its last call, even if it would answer next.
    """
    return _rounded(enough + 1 + enough // SLACK)


def _is_thin(needs: Sequence[Need], enough: int) -> bool:
    """Return whether the estimate rests on few runs, because most were cut before using so many calls."""
    cut_before = sum(not need.known and need.calls <= enough for need in needs)
    return cut_before > len(needs) * (1 - SHARE) and sum(need.could_end_after(enough) for need in needs) < FEWEST_UNCUT


def _known(needs: Sequence[Need], enough: int, now: int | None) -> Suggestion:
    # No run shows the effect of a limit above all observed ones.
    observed = max(inf if need.limit is None else need.limit for need in needs)
    limit = int(min(limit_for(enough), max(observed, enough + 1)))
    ended = sum(need.known and need.calls <= enough for need in needs)
    cut = sum(not need.known for need in needs)
    others = f", and the {'one that was' if cut == 1 else f'{cut} that were'} cut may need more" if cut else ""
    why = f"{ended} of {_runs(len(needs))} ended by themselves with {_calls(enough)} or fewer{others}"
    if now is None:
        return Suggestion("set", limit, why)
    if now <= enough:
        return Suggestion("raise", limit, why)
    return Suggestion("keep", now, why) if now < 2 * limit else Suggestion("lower", limit, why)


def _unknown(needs: Sequence[Need], now: int | None) -> Suggestion:
    """Return a suggestion if too many runs were cut to estimate the need."""
    cut = Counter(need.cut_by for need in needs if not need.known)
    many = f"{cut.total()} of {_runs(len(needs))} were cut before they showed the number of calls needed"
    if 2 * cut[Kind.TOOL_CALLS] < cut.total():
        by, times = next((by, times) for by, times in cut.most_common() if by != Kind.TOOL_CALLS)
        return Suggestion("other cause", None, f"{many}, {times} of them {_cause(by)}")
    comparable = sum(need.limit is None or (now is not None and need.limit >= now) for need in needs)
    if comparable < FEWEST:
        current = "no limit" if now is None else f"the limit of {now}"
        few = "none" if not comparable else "only one" if comparable == 1 else f"only {comparable}"
        return Suggestion("too early", None, f"{many}, and {few} of them had the current setting, {current}; run more")
    if now is None:
        return Suggestion("too early", None, f"{many}; there is no limit to raise, run more")
    return Suggestion("probe", None, f"{many}, so no run shows how many calls are enough")


def _cause(cut_by: str | None) -> str:
    if cut_by is None:
        return "by no limit; their warnings give the reason"
    if cut_by == CONTEXT:
        return "because the model's context window was full; lower summarize_at to summarize earlier"
    kind = Kind(cut_by)
    return f"by the limit of {kind.label}; raise {kind.key} first"


def _rounded(calls: int) -> int:
    """Round up to a multiple of 5 above 20, of 10 above 100, of 50 above 500."""
    step = next((step for most, step in ((20, 1), (100, 5), (500, 10)) if calls <= most), 50)
    return -(-calls // step) * step


def _calls(number: int) -> str:
    return f"{number} tool call{'' if number == 1 else 's'}"


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"
