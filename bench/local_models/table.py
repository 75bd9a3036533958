"""Format results as a Markdown table with one row for each variant and API."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median

from bench.local_models.results import Result

HEAD = (
    "variant",
    "API",
    "questions",
    "with a verified quote",
    "with a quote from the notes",
    "right",
    "JSON of a call",
    "statuses",
    "landings",
    "calls",
    "tokens in, median",
    "tokens out",
    "seconds, median",
)
NUMBERS = {2, 3, 4, 5, 6, 9, 10, 11, 12}
"""Columns that are aligned to the right."""


def table(results: Iterable[Result]) -> str:
    """Return the table; calls, tokens and seconds are those of all questions together, except for the median."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.variant, result.api), []).append(result)
    rule = ["---:" if column in NUMBERS else "---" for column in range(len(HEAD))]
    rows = [HEAD, rule, *(_row(*names, group) for names, group in groups.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def mixed(results: Iterable[Result]) -> str:
    """Return a warning if the results are of several commits, otherwise an empty text."""
    commits = sorted({result.commit for result in results})
    return f"**Results of several commits: {', '.join(commits)}.**" if len(commits) > 1 else ""


def _row(variant: str, api: str, group: Sequence[Result]) -> tuple[str, ...]:
    return (
        variant,
        api,
        str(len(group)),
        _count(group, lambda result: result.verified > 0),
        _count(group, lambda result: result.in_notes > 0),
        _count(group, lambda result: result.is_right),
        _count(group, lambda result: result.is_leaked_call),
        _counts(result.status for result in group),
        _counts(result.landing for result in group if result.landing),
        str(sum(result.calls for result in group)),
        f"{sum(result.input_tokens for result in group):,}, {median(result.input_tokens for result in group):,.0f}",
        f"{sum(result.output_tokens for result in group):,}",
        f"{sum(result.seconds for result in group):.0f}, {median(result.seconds for result in group):.0f}",
    )


def _count(group: Sequence[Result], holds: Callable[[Result], bool]) -> str:
    return str(sum(map(holds, group)))


def _counts(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(Counter(names).items())) or "-"
