"""Statistics of a specialist's stored runs, and a suggested tool-call limit; pure functions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, Literal, Self

from run_specialist.record.messages import Usage
from run_specialist.store.stored import PastRun
from run_specialist.views.advice import SHARE, Suggestion, suggest
from run_specialist.views.file_versions import FileVersion, Version, comparable
from run_specialist.views.needs import Need, NeedBar, bars, enough_for, reason


@dataclass(frozen=True, slots=True)
class LimitHits:
    """Runs that one kind of limit ended."""

    reason: str
    """The kind of limit, or `context` for a full context window."""
    runs: int
    how: dict[str, int]
    """Number of answers by rung of the landing, most frequent first."""
    partial: int
    """Number of runs whose answer was salvaged or cut."""
    failed: int
    """Number of runs without an answer, or aborted during the landing."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The tool calls of all runs."""

    run: int
    repeated: int
    """Number of run calls that were answered from the record of an identical call."""
    failed: int
    """Number of run calls that failed."""
    skipped: int
    """Number of calls that were not run; not counted elsewhere."""


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
    hits: tuple[LimitHits, ...]
    """Limits that ended any of the runs, most frequent first."""
    calls: Calls
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
    versions: tuple[Version, ...]
    """The versions of the file that have runs, the newest run first."""

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; times as ISO 8601 in UTC."""
        versions = [_with_times(asdict(version)) for version in self.versions]
        return _with_times(asdict(self)) | {"versions": versions}


def tune(  # noqa: PLR0913 - keyword arguments, all optional
    name: str,
    runs: Sequence[PastRun],
    current: int | Literal["none"] | None = None,
    *,
    file: FileVersion | None = None,
    all_versions: bool = False,
    last: int | None = None,
) -> Tuning:
    """Return the statistics of a specialist's runs, given in any order.

    current: the tool-call limit in its file, `none` for no limit; None uses the limit of the newest run.
    file: the current version; None uses that of the newest run.
    all_versions: count the runs of all versions of the file.
    last: count only so many of the newest runs.
    """
    found = comparable(sorted(runs, key=lambda run: (run.started_at, run.run_id)), file, all_versions=all_versions)
    runs = found.runs if last is None else found.runs[-last:]
    outcomes = [run.outcome for run in runs]
    limit = _current_limit(current, outcomes)
    judged = [(run, need) for run in runs if (need := Need.of(run.outcome)) is not None]
    needs = [need for _, need in judged]
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
        hits=_hits(outcomes),
        calls=_calls(runs),
        tokens=tokens,
        cost_usd=cost,
        landings=len(landings),
        landing_tokens=Bill.of([_tokens(landing) for landing in with_requests], tokens.total),
        landing_cost_usd=Bill.of([landing["cost_usd"] for landing in with_requests], cost.total),
        suggestion=suggest(needs, limit, _share_repeated([run for run, _ in judged])),
        changed_limits=found.changed_limits,
        versions=found.versions,
    )


def _current_limit(current: int | Literal["none"] | None, outcomes: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the tool-call limit of the file, else that of the newest run; None = no limit, or not known."""
    if current is None:
        return outcomes[-1]["tool_calls"]["limit"] if outcomes else None
    return None if current == "none" else current


def _hits(outcomes: Sequence[Mapping[str, Any]]) -> tuple[LimitHits, ...]:
    cut = [(cause, one) for one in outcomes if (cause := reason(one)) is not None]
    return tuple(_hit(cause, [one for by, one in cut if by == cause]) for cause in _counted(by for by, _ in cut))


def _hit(cause: str, outcomes: Sequence[Mapping[str, Any]]) -> LimitHits:
    statuses = Counter(one["status"] for one in outcomes)
    how = _counted(one["landing"]["how"] for one in outcomes)
    return LimitHits(cause, len(outcomes), how, statuses["partial"], statuses["failed"] + statuses["aborted"])


def _calls(runs: Sequence[PastRun]) -> Calls:
    counts = [run.outcome["tool_calls"] for run in runs]
    return Calls(
        run=sum(one["used"] for one in counts),
        repeated=sum(run.repeated for run in runs),
        failed=sum(one["failed"] for one in counts),
        skipped=sum(one["skipped"] for one in counts),
    )


def _share_repeated(runs: Sequence[PastRun]) -> float:
    calls = sum(run.calls for run in runs)
    return sum(run.repeated for run in runs) / calls if calls else 0.0


def _tokens(spent: Mapping[str, Any]) -> int:
    return Usage(**spent["usage"]).total_tokens


def _counted(words: Iterable[str]) -> dict[str, int]:
    """Return the number of each value, most frequent first, then alphabetically."""
    return dict(sorted(Counter(words).items(), key=lambda item: (-item[1], item[0])))


def _with_times(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"first_at": _iso(values["first_at"]), "last_at": _iso(values["last_at"])}


def _iso(at: float | None) -> str | None:
    return (
        None
        if at is None
        else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
