"""What the past runs of one specialist tell about its limits. Pure values."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, Literal, Self

from run_specialist.store.stored import PastRun
from run_specialist.views.advice import SHARE, Suggestion, suggest
from run_specialist.views.needs import Need, NeedBar, bars, enough_for, reason


@dataclass(frozen=True, slots=True)
class Hit:
    """How often one kind of limit ended the work."""

    reason: str
    """The kind, or `context` where it was the model's own room that was full."""
    runs: int
    how: dict[str, int]
    """How often each rung gave the answer, the most frequent first."""
    partial: int
    """Runs whose answer was salvaged or cut."""
    failed: int
    """Runs without any answer, or aborted while they landed."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The tool calls of all runs together."""

    run: int
    repeated: int
    """Those of them that were answered from the record of an identical call."""
    failed: int
    """Those of them that failed."""
    skipped: int
    """Not run, and in no other number."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What something cost, a run."""

    median: float | None
    """None where nothing is known."""
    total: float
    share: float | None
    """Of what all runs cost; None where that is nothing, or these are all runs."""
    unknown: int
    """Runs whose price is not known; they are in no other number."""

    @classmethod
    def of(cls, amounts: Sequence[float | None], whole: float = 0) -> Self:
        """Sum up what each run cost; None = its price is not known.

        whole: what all runs cost, where these are only a part of it.
        """
        known = [amount for amount in amounts if amount is not None]
        total = round(sum(known), 8)
        middle = round(median(known), 8) if known else None
        return cls(middle, total, total / whole if whole else None, len(amounts) - len(known))


@dataclass(frozen=True, slots=True)
class Tuning:
    """What past runs tell, and the limit that follows from it."""

    specialist: str
    runs: int
    first_at: float | None
    """When the oldest run started [seconds since 1970]; None without runs."""
    last_at: float | None
    statuses: dict[str, int]
    """How many runs ended with each status, the most frequent first."""
    limit: int | None
    """The limit of tool calls that holds now; None = no limit, or no run that would tell."""
    limit_from: Literal["file", "run"]
    """Whether the specialist's file says so, or it is what the newest run had."""
    judged: int
    """Runs that tell what is needed: neither failed nor aborted."""
    ended: int
    """Those of them that ended by themselves; the others were cut."""
    enough: int | None
    """So many tool calls suffice for nine of ten of them; None where too many were cut to know it."""
    bars: tuple[NeedBar, ...]
    """How many tool calls they used."""
    hits: tuple[Hit, ...]
    """Limits that ended the work, the most frequent first; of all runs."""
    calls: Calls
    tokens: Bill
    cost_usd: Bill
    landings: int
    """Runs that landed at a limit, well or not."""
    landing_tokens: Bill
    """Of the landings' requests alone; those without a request are left out."""
    landing_cost_usd: Bill
    suggestion: Suggestion

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; times as ISO 8601 in UTC."""
        return asdict(self) | {"first_at": _iso(self.first_at), "last_at": _iso(self.last_at)}


def tune(name: str, runs: Sequence[PastRun], current: int | Literal["none"] | None = None) -> Tuning:
    """Return what the runs of one specialist tell, in whatever order they come.

    current: the limit of tool calls that its file sets, `none` for no limit; None where it is not known, and that of
        the newest run counts.
    """
    runs = sorted(runs, key=lambda run: (run.started_at, run.run_id))
    outcomes = [run.outcome for run in runs]
    limit = None if current == "none" else current
    if current is None and outcomes:
        limit = outcomes[-1]["tool_calls"]["limit"]
    told = [(run, need) for run in runs if (need := Need.of(run.outcome)) is not None]
    needs = [need for _, need in told]
    landings = [one["landing"] for one in outcomes if one["landing"] is not None]
    asked = [landing for landing in landings if landing["requests"]]
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
        hits=_hits(outcomes),
        calls=_calls(runs),
        tokens=tokens,
        cost_usd=cost,
        landings=len(landings),
        landing_tokens=Bill.of([_tokens(landing) for landing in asked], tokens.total),
        landing_cost_usd=Bill.of([landing["cost_usd"] for landing in asked], cost.total),
        suggestion=suggest(needs, limit, _share_repeated([run for run, _ in told])),
    )


def _hits(outcomes: Sequence[Mapping[str, Any]]) -> tuple[Hit, ...]:
    cut = [(why, one) for one in outcomes if (why := reason(one)) is not None]
    return tuple(_hit(why, [one for by, one in cut if by == why]) for why in _counted(why for why, _ in cut))


def _hit(why: str, outcomes: Sequence[Mapping[str, Any]]) -> Hit:
    statuses = Counter(one["status"] for one in outcomes)
    how = _counted(one["landing"]["how"] for one in outcomes)
    return Hit(why, len(outcomes), how, statuses["partial"], statuses["failed"] + statuses["aborted"])


def _calls(runs: Sequence[PastRun]) -> Calls:
    told = [run.outcome["tool_calls"] for run in runs]
    return Calls(
        run=sum(one["used"] for one in told),
        repeated=sum(run.repeated for run in runs),
        failed=sum(one["failed"] for one in told),
        skipped=sum(one["skipped"] for one in told),
    )


def _share_repeated(runs: Sequence[PastRun]) -> float:
    calls = sum(run.calls for run in runs)
    return sum(run.repeated for run in runs) / calls if calls else 0.0


def _tokens(spent: Mapping[str, Any]) -> int:
    return sum(spent["usage"].values())


def _counted(words: Iterable[str]) -> dict[str, int]:
    """Count words: the most frequent first, then by the alphabet."""
    return dict(sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])))


def _iso(at: float | None) -> str | None:
    return (
        None
        if at is None
        else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
