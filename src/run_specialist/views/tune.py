"""Suggest limits from past runs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import count
from math import inf
from statistics import median
from typing import Any, Literal, Self

from run_specialist.budget import Kind, counted
from run_specialist.record.messages import Usage
from run_specialist.store.stored import PastRun
from run_specialist.views.page import iso

# Estimate the number of tool calls that questions need, from runs of which some were cut by a limit; pure functions.
#
# A run that ended by itself needed the calls it used. A run that a limit cut needed at least that many; ignoring it
# would underestimate the need exactly where the limit is too low. Such data are right-censored, and the product-limit
# estimator handles them: E. L. Kaplan and P. Meier, "Nonparametric Estimation from Incomplete Observations", Journal of
# the American Statistical Association 53 (1958), 457-481.

CONTEXT = "context"
"""Cause of a landing at a full context window: the outcome then gives `tokens` as the reason, without a limit."""
JUDGED = ("answered", "landed", "partial")
"""Statuses of runs that are evaluated; other runs ended for unrelated reasons."""
MOST_BARS = 12


@dataclass(frozen=True, slots=True)
class Need:
    """The tool calls that one run needed."""

    calls: int
    """Number of calls used."""
    known: bool
    """True if the run ended by itself and needed exactly `calls`; else it needed at least `calls`."""
    limit: int | None
    """The tool-call limit of the run; None = no limit."""
    cut_by: str | None = None
    """The kind of limit that cut the run, or `context`; None without a landing."""

    @classmethod
    def of(cls, outcome: Mapping[str, Any]) -> Self | None:
        """Return the need shown by an outcome in the form of `--json`; None if the run failed or was aborted."""
        if outcome["status"] not in JUDGED:
            return None
        calls = outcome["tool_calls"]
        return cls(calls["used"], outcome["status"] == "answered", calls["limit"], reason(outcome))

    def could_end_after(self, calls: int) -> bool:
        """Return whether the run could have used that many calls and then ended by itself."""
        return self.calls > calls or (self.known and (self.limit is None or self.limit > calls))


def reason(outcome: Mapping[str, Any]) -> str | None:
    """Return the cause of a landing: a kind of limit, or `context`; None if the run did not land."""
    landing = outcome["landing"]
    if landing is None:
        return None
    kind = str(landing["reason"])
    return CONTEXT if outcome["limits"][kind]["limit"] is None else kind


def enough_for(needs: Sequence[Need], share: Fraction) -> int | None:
    """Return the smallest number of calls within which this share of runs ends by itself.

    None if too many runs were cut to estimate it. A run cut after n calls counts as at risk only below n, because it
    might have ended after exactly n calls.
    Source: Kaplan and Meier (1958), see the module's docstring.
    """
    ended = Counter(need.calls for need in needs if need.known)
    cut = Counter(need.calls for need in needs if not need.known)
    surviving = Fraction(1)
    for calls in sorted(ended):
        at_risk = sum(ended[n] for n in ended if n >= calls) + sum(cut[n] for n in cut if n > calls)
        surviving *= 1 - Fraction(ended[calls], at_risk)
        if surviving <= 1 - share:
            return calls
    return None


@dataclass(frozen=True, slots=True)
class NeedBar:
    """One bar of a histogram of calls used."""

    first: int
    last: int
    """Largest number of calls in the bar, inclusive."""
    ended: int
    """Number of runs that ended by themselves."""
    cut: int
    """Number of runs that were cut."""

    def __contains__(self, calls: int) -> bool:
        return self.first <= calls <= self.last


def bars(needs: Sequence[Need]) -> tuple[NeedBar, ...]:
    """Return a histogram of calls used, with at most twelve bars of equal width."""
    if not needs:
        return ()
    least, most = min(need.calls for need in needs), max(need.calls for need in needs)
    width = next(
        size
        for ten in count()
        for size in (10**ten, 2 * 10**ten, 5 * 10**ten)
        if most // size - least // size < MOST_BARS
    )
    found = Counter((need.calls // width, need.known) for need in needs)
    return tuple(
        NeedBar(index * width, (index + 1) * width - 1, found[index, True], found[index, False])
        for index in range(least // width, most // width + 1)
    )


SHARE = Fraction(9, 10)
"""Target share of runs that end by themselves; the others land."""
# Minimum number of runs for a suggestion: with fewer, nothing can be said about nine of ten.
_FEWEST = 10
# Minimum number of runs that could have used the suggested number of calls and then ended by themselves.
_FEWEST_UNCUT = 5
# One extra call is added per this number of calls, which is 20 %.
_SLACK = 5
# From this share of repeated calls, usage reflects a flaw of the prompt rather than the need.
_REPEATS = 0.2

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
    if len(needs) < _FEWEST:
        shows = f"{counted(len(needs), 'run')} can be judged"
        return Suggestion("too early", None, f"{shows}, and at least {_FEWEST} are required")
    if repeated >= _REPEATS:
        return Suggestion(
            "prompt",
            None,
            f"{100 * repeated:.0f} % of its tool calls exactly repeated an earlier one; improve the prompt before "
            "the limit, e.g. explain how to search",
        )
    enough = enough_for(needs, SHARE)
    if enough is None:
        return _unknown(needs, now)
    # The estimate rests on few runs if most were cut before they used so many calls.
    many_cut = sum(not need.known and need.calls <= enough for need in needs) > len(needs) * (1 - SHARE)
    if many_cut and sum(need.could_end_after(enough) for need in needs) < _FEWEST_UNCUT:
        return _unknown(needs, now)
    return _known(needs, enough, now)


def limit_for(enough: int) -> int:
    """Return the limit for a run that needs `enough` calls, with 20 % slack.

    It is rounded up to a multiple of 5 above 20, of 10 above 100, of 50 above 500. It is at least one more than needed,
    because a run lands on its last call, even if it would answer next.
    """
    calls = enough + 1 + enough // _SLACK
    step = next((step for most, step in ((20, 1), (100, 5), (500, 10)) if calls <= most), 50)
    return -(-calls // step) * step


def _known(needs: Sequence[Need], enough: int, now: int | None) -> Suggestion:
    # No run shows the effect of a limit above all observed ones.
    observed = max(inf if need.limit is None else need.limit for need in needs)
    limit = int(min(limit_for(enough), max(observed, enough + 1)))
    ended = sum(need.known and need.calls <= enough for need in needs)
    cut = sum(not need.known for need in needs)
    others = f", and the {'one that was' if cut == 1 else f'{cut} that were'} cut may need more" if cut else ""
    calls = counted(enough, "tool call")
    why = f"{ended} of {counted(len(needs), 'run')} ended by themselves with {calls} or fewer{others}"
    if now is None:
        return Suggestion("set", limit, why)
    if now <= enough:
        return Suggestion("raise", limit, why)
    return Suggestion("keep", now, why) if now < 2 * limit else Suggestion("lower", limit, why)


def _unknown(needs: Sequence[Need], now: int | None) -> Suggestion:
    """Return a suggestion if too many runs were cut to estimate the need."""
    cut = Counter(need.cut_by for need in needs if not need.known)
    many = f"{cut.total()} of {counted(len(needs), 'run')} were cut before they showed the number of calls needed"
    if 2 * cut[Kind.TOOL_CALLS] < cut.total():
        by, times = next((by, times) for by, times in cut.most_common() if by != Kind.TOOL_CALLS)
        if by is None:
            cause = "by no limit; their warnings give the reason"
        elif by == CONTEXT:
            cause = "because the model's context window was full; lower summarize_at to summarize earlier"
        else:
            cause = f"by the limit of {Kind(by).label}; raise {Kind(by).key} first"
        return Suggestion("other cause", None, f"{many}, {times} of them {cause}")
    comparable = sum(need.limit is None or (now is not None and need.limit >= now) for need in needs)
    if now is None or comparable < _FEWEST:
        current = "no limit" if now is None else f"the limit of {now}"
        return Suggestion("too early", None, f"{many}, and {comparable} of them had {current}; run more")
    return Suggestion("probe", None, f"{many}, so no run shows how many calls are enough")


@dataclass(frozen=True, slots=True)
class Bill:
    """Amounts per run: tokens or cost."""

    median: float | None
    """None if no amount is known."""
    total: float
    share: float | None
    """Share of the total of all runs; None if that is zero, or if these are all runs."""
    unknown: int
    """Number of runs whose price is unknown; not counted elsewhere."""

    @classmethod
    def of(cls, amounts: Sequence[float | None], whole: float = 0) -> Self:
        """Aggregate the amounts of runs; None = price unknown.

        whole: total of all runs, if these are only some of them.
        """
        known = [amount for amount in amounts if amount is not None]
        total = round(sum(known), 8)
        middle = round(median(known), 8) if known else None
        return cls(middle, total, total / whole if whole else None, len(amounts) - len(known))


@dataclass(frozen=True, slots=True)
class Tuning:
    """Statistics of a specialist's runs, and the suggested limit."""

    specialist: str
    runs: int
    """Number of runs that count: of the current version of the file, with its limits."""
    first_at: float | None
    """Start of the oldest run [seconds since 1970]; None without runs."""
    last_at: float | None
    """Start of the newest run [seconds since 1970]; None without runs."""
    statuses: dict[str, int]
    """Number of runs by status, most frequent first."""
    limit: int | None
    """The current tool-call limit; None = no limit, or not known."""
    limit_from: Literal["file", "run"]
    """Source of `limit`: the specialist's file, or the newest run."""
    judged: int
    """Number of evaluated runs: neither failed nor aborted."""
    ended: int
    """Number of evaluated runs that ended by themselves; the others were cut."""
    enough: int | None
    """Calls that suffice for nine of ten evaluated runs; None if too many were cut to estimate it."""
    bars: tuple[NeedBar, ...]
    """Histogram of the calls used by evaluated runs."""
    hits: list[dict[str, Any]]
    """Limits that ended any of the runs, most frequent first: `reason`, a kind of limit or `context`; number of `runs`,
    and of answers by rung of the landing (`how`); how many are `partial`, and how many `failed` or were aborted."""
    calls: dict[str, int]
    """Tool calls of all runs: how many were `run`, and of these `repeated` from the record and `failed`; how many were
    `skipped`, which counts nowhere else."""
    tokens: Bill
    cost_usd: Bill
    landings: int
    """Number of runs that landed at a limit, with or without an answer."""
    landing_tokens: Bill
    """Tokens of the landings' requests; landings without a request are omitted."""
    landing_cost_usd: Bill
    suggestion: Suggestion
    changed_limits: dict[str, int]
    """Number of runs that do not count because a flag or a parent set their limits, by status."""
    versions: list[dict[str, Any]]
    """The versions of the file that have runs, the newest run first: SHA-256 (`digest`: None if unknown, empty without
    a file), `runs`, start of the oldest and the newest run (`first_at`, `last_at` [seconds since 1970]), and whether
    the version is `counted`."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; times as ISO 8601 in UTC."""
        return _with_times(asdict(self)) | {"versions": [*map(_with_times, self.versions)]}


def tune(  # noqa: PLR0913 - keyword arguments, all optional
    name: str,
    runs: Sequence[PastRun],
    current: int | Literal["none"] | None = None,
    *,
    digest: str | None = None,
    all_versions: bool = False,
    last: int | None = None,
) -> Tuning:
    """Return the statistics of a specialist's runs, given in any order.

    current: the tool-call limit in its file, `none` for no limit; None uses the limit of the newest run.
    digest: SHA-256 of its file now; None uses that of the newest run.
    all_versions: count the runs of all versions of the file.
    last: count only so many of the newest runs.
    """
    runs = sorted(runs, key=lambda run: (run.started_at, run.run_id))
    by_digest: dict[str | None, list[PastRun]] = {}
    for run in reversed(runs):
        by_digest.setdefault(run.digest, []).append(run)
    current_ones = set(by_digest) if all_versions else {digest if digest is not None else next(iter(by_digest), None)}
    versions = [
        {
            "digest": version,
            "runs": len(found),
            "first_at": found[-1].started_at,
            "last_at": found[0].started_at,
            "counted": version in current_ones,
        }
        for version, found in by_digest.items()
    ]
    runs = [run for run in runs if run.digest in current_ones]
    changed = [run.outcome["status"] for run in runs if run.limits_changed]
    runs = [run for run in runs if not run.limits_changed]
    runs = runs if last is None else runs[-last:]
    outcomes = [run.outcome for run in runs]
    limit: int | None = None if current == "none" else current
    if current is None and outcomes:
        limit = outcomes[-1]["tool_calls"]["limit"]
    judged = [(run, need) for run in runs if (need := Need.of(run.outcome)) is not None]
    needs = [need for _, need in judged]
    judged_calls = sum(run.calls for run, _ in judged)
    repeated = sum(run.repeated for run, _ in judged) / judged_calls if judged_calls else 0.0
    by_cause: dict[str, list[Mapping[str, Any]]] = {}
    for one in outcomes:
        if (cause := reason(one)) is not None:
            by_cause.setdefault(cause, []).append(one)
    landings = [one["landing"] for one in outcomes if one["landing"] is not None]
    with_requests = [landing for landing in landings if landing["requests"]]
    tokens = Bill.of([_tokens(one) for one in outcomes])
    cost = Bill.of([one["cost_usd"] for one in outcomes])
    return Tuning(
        specialist=name,
        runs=len(runs),
        first_at=runs[0].started_at if runs else None,
        last_at=runs[-1].started_at if runs else None,
        statuses=_counted(one["status"] for one in outcomes),
        limit=limit,
        limit_from="run" if current is None else "file",
        judged=len(needs),
        ended=sum(need.known for need in needs),
        enough=enough_for(needs, SHARE),
        bars=bars(needs),
        hits=[_hit(cause, by_cause[cause]) for cause in sorted(by_cause, key=lambda one: (-len(by_cause[one]), one))],
        calls={
            "run": sum(one["tool_calls"]["used"] for one in outcomes),
            "repeated": sum(run.repeated for run in runs),
            **{name: sum(one["tool_calls"][name] for one in outcomes) for name in ("failed", "skipped")},
        },
        tokens=tokens,
        cost_usd=cost,
        landings=len(landings),
        landing_tokens=Bill.of([_tokens(landing) for landing in with_requests], tokens.total),
        landing_cost_usd=Bill.of([landing["cost_usd"] for landing in with_requests], cost.total),
        suggestion=suggest(needs, limit, repeated),
        changed_limits=dict(Counter(changed).most_common()),
        versions=versions,
    )


def _hit(cause: str, outcomes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    statuses = Counter(one["status"] for one in outcomes)
    return {
        "reason": cause,
        "runs": len(outcomes),
        "how": _counted(one["landing"]["how"] for one in outcomes),
        "partial": statuses["partial"],
        "failed": statuses["failed"] + statuses["aborted"],
    }


def _tokens(spent: Mapping[str, Any]) -> int:
    return Usage(**spent["usage"]).total_tokens


def _counted(words: Iterable[str]) -> dict[str, int]:
    """Return the number of each value, most frequent first, then alphabetically."""
    return dict(sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])))


def _with_times(values: dict[str, Any]) -> dict[str, Any]:
    return values | {key: values[key] and iso(values[key]) for key in ("first_at", "last_at")}


def medians_by_model(outcomes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the medians of all runs with an answer, by model, the model with the most runs first.

    Each has `model`, number of `runs`, medians of `tool_calls`, `seconds` and `cost_usd`, which is None if the price of
    every run is unknown.
    """
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for one in outcomes:
        if one.get("status") in JUDGED:
            by_model.setdefault(one["model"], []).append(one)
    found = []
    for model, ended in sorted(by_model.items(), key=lambda one: -len(one[1])):
        costs = [one["cost_usd"] for one in ended if one["cost_usd"] is not None]
        found.append(
            {
                "model": model,
                "runs": len(ended),
                "tool_calls": median(one["tool_calls"]["used"] for one in ended),
                "seconds": round(median(one["duration_s"] for one in ended), 3),
                "cost_usd": round(median(costs), 8) if costs else None,
            }
        )
    return found
