"""HTML page of an eval: the verdicts, the variants, and a table of all cases with their runs."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any
from urllib.parse import quote

from run_specialist import budget
from run_specialist.views import page
from run_specialist.views.page import HtmlPage

MOST_CASES = 5_000
"""Maximum number of rows; further cases are counted, not listed."""


def amount(value: float, name: str) -> str:
    """Return an amount of a run for people; name: its key in `AMOUNTS`."""
    if name in {"cost_usd", "seconds"}:
        return budget.dollars(value) if name == "cost_usd" else page.lasted(value)
    # Large numbers are shown without decimals.
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}".removesuffix(".0")  # noqa: PLR2004 - as above


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "amount": amount,
    "change": lambda value, name: ("+" if value > 0 else "-" if value < 0 else "±") + amount(abs(value), name),
}
_PAGE = HtmlPage("eval_page", _FILTERS, styles=("report",))
AMOUNTS = {"cost_usd": "Cost", "tool_calls": "Tool calls", "tokens": "Tokens", "seconds": "Time"}
"""The amounts whose medians are compared, with their headings."""


def eval_page(result: Mapping[str, Any], reports: Mapping[str, str] | None = None) -> str:
    """Return the page as one self-contained HTML document; all untrusted text is escaped.

    result: as `specialists eval --json` prints it.
    reports: paths of the report files, from the folder of the page, by run id.
    """
    compared = {one["variant"]: one for one in result["comparison"]}
    differences = {(pair["case"], name): pair["difference"] for name, one in compared.items() for pair in one["pairs"]}
    by_cell: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in result["runs"]:
        by_cell.setdefault((run["case"], run["variant"]), []).append(run)
    cases = []
    for number, case in enumerate(result["cases"][:MOST_CASES], 1):
        cells = []
        for one in result["variants"]:
            cell = case, one["name"]
            runs = by_cell.get(cell, [])
            figures = {"runs": runs, "difference": differences.get(cell), **_figures(runs)}
            cells.append({"variant": one["name"], **figures})
        cases.append({"number": number, "name": case, "cells": cells})
    variants = []
    for one in result["variants"]:
        runs = [run for run in result["runs"] if run["variant"] == one["name"]]
        variants.append({**one, "compared": compared.get(one["name"]), "planned": len(runs), **_figures(runs)})
    # The largest distance from 0 on the axis of all intervals.
    ends = [abs(one["score"][end] or 0.0) for one in result["comparison"] if one["score"] for end in ("low", "high")]
    reach = 1.1 * max([0.1, *ends, *(1.5 * one["tolerance"] for one in result["comparison"])])
    plots = [{**one, "plot": _plot(one, reach)} for one in result["comparison"]]
    links = {run_id: quote(path) for run_id, path in (reports or {}).items()}
    shown = {"cases": cases, "variants": variants, "compared": plots, "amounts": AMOUNTS}
    return _PAGE.render({"result": result, "links": links, **shown})


def _figures(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many runs have ended and passed, and the mean over their cases of each case's mean score."""
    ended = [one for one in runs if one["status"] not in {"not run", "aborted"}]
    by_case: dict[str, list[float]] = {}
    for run in ended:
        made = any(not isinstance(one["value"], str) for one in run["checks"])
        # The score does not count if none of the checks could be made.
        if made or not run["unmade_checks"] or run["status"] == "failed":
            by_case.setdefault(run["case"], []).append(run["score"])
    return {
        "ended": len(ended),
        "passed": sum(one["passed"] for one in ended),
        "score": fmean(map(fmean, by_case.values())) if by_case else None,
        "totals": {name: page.total(run[name] for run in ended) for name in AMOUNTS},
    }


def _plot(one: Mapping[str, Any], reach: float) -> dict[str, float] | None:
    """Return the positions of an interval on the axis, in percent; None without an interval."""
    score = one["score"]
    if score is None or score["low"] is None or score["high"] is None:
        return None

    def at(value: float) -> float:
        return float(round(50 * (1 + value / reach), 2))

    low, high, tolerance = score["low"], score["high"], one["tolerance"]
    return {
        "low": at(low),
        "wide": max(at(high) - at(low), 0.4),
        "mean": at(score["difference"]),
        "tolerance": at(-tolerance),
        "tolerated": at(tolerance) - at(-tolerance),
        "reach": reach,
    }
