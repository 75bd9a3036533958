"""HTML page of an eval: the verdicts, the variants, and a table of all cases with their runs."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from statistics import fmean
from typing import Any
from urllib.parse import quote

from run_specialist import budget
from run_specialist.views import page
from run_specialist.views.markdown import without_quotes

MOST_CASES = 5_000
"""Maximum number of rows; further cases are counted, not listed."""
# Maximum number of cases whose answers are compared word by word, which is slow.
_MOST_MARKED = 500
LONGEST_ANSWER = 8_000
"""Maximum length of an answer on the page [characters]."""
LONGEST = 600
"""Maximum length of a quote on the page [characters]."""
# Maximum length of a text in a check to copy [characters].
_LONGEST_CHECK = 120


def amount(value: float, name: str) -> str:
    """Return an amount of a run for people; name: its key in `AMOUNTS`."""
    if name in {"cost_usd", "seconds"}:
        return budget.dollars(value) if name == "cost_usd" else page.lasted(value)
    # Large numbers are shown without decimals.
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}".removesuffix(".0")  # noqa: PLR2004 - as above


_FILTERS: Mapping[str, Callable[..., Any]] = {
    "amount": amount,
    "change": lambda value, name: ("+" if value > 0 else "-" if value < 0 else "±") + amount(abs(value), name),
    "across": lambda value, reach: round(50 * (1 + value / reach), 2),
}
_PAGE = page.HtmlPage("eval_page", _FILTERS, styles=("report",))
AMOUNTS = {"cost_usd": "Cost", "tool_calls": "Tool calls", "tokens": "Tokens", "seconds": "Time"}
"""The amounts whose medians are compared, with their headings."""


def eval_page(result: Mapping[str, Any], reports: Mapping[str, str] | None = None) -> str:
    """Return the page as one self-contained HTML document; all untrusted text is escaped.

    result: as `specialists eval --json` prints it.
    reports: paths of the report files, from the folder of the page, by run id.
    """
    compared = {one["variant"]: one for one in result["comparison"]}
    differences = {(pair["case"], name): pair["difference"] for name, one in compared.items() for pair in one["pairs"]}
    by_cell: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for run in result["runs"]:
        by_cell[run["case"], run["variant"]].append(run)
    cases = []
    for number, case in enumerate(result["cases"][:MOST_CASES], 1):
        cells: list[dict[str, Any]] = [
            {"variant": name, "difference": differences.get((case, name)), **_figures(by_cell[case, name])}
            for name in (one["name"] for one in result["variants"])
        ]
        # Each answer is compared with that of the first other variant for the same repeat.
        for cell in cells:
            others = next((other["runs"] for other in cells if other is not cell and other["runs"]), ())
            other_of = {run["repeat"]: run for run in others} if number <= _MOST_MARKED else {}
            cell["read"] = [_read(run, other_of.get(run["repeat"])) for run in cell["runs"]]
        question = next((run.get("question") for cell in cells for run in cell["runs"]), "") or ""
        cases.append({"number": number, "name": case, "question": question, "cells": cells})
    variants = []
    for one in result["variants"]:
        runs = [run for run in result["runs"] if run["variant"] == one["name"]]
        variants.append({**one, "compared": compared.get(one["name"]), **_figures(runs)})
    # The largest distance from 0 on the axis of all intervals.
    ends = [abs(one["score"][end] or 0.0) for one in result["comparison"] if one["score"] for end in ("low", "high")]
    reach = 1.1 * max([0.1, *ends, *(1.5 * one["tolerance"] for one in result["comparison"])])
    links = {run_id: quote(path) for run_id, path in (reports or {}).items()}
    shown = {"cases": cases, "variants": variants, "amounts": AMOUNTS, "reach": reach}
    return _PAGE.render({"result": result, "links": links, **shown})


def _read(run: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a run with its answer in pieces, each with whether the other answer lacks it, and checks to copy."""
    answer, evidence = _answer(run), page.quotes_in(run)
    pieces, known = [(answer, False)], {one["quote"] for one in evidence}
    if other is not None and answer and other.get("answer"):
        theirs, ours = (re.findall(r"\S+|\s+", text) for text in (_answer(other), answer))
        codes = SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes()
        pieces = [("".join(ours[start:end]), tag != "equal") for tag, _, _, start, end in codes if end > start]
        known = {one["quote"] for one in page.quotes_in(other)}
    first = next((one for one in evidence if one["verified"]), None)
    right = [_check("Contains", first["quote"] if first else answer)]
    if first:
        right.insert(0, _check("CitesPath", re.sub(r":\d+([-:]\d+)?$", "", first["source"])))
    wrong = _check("Judge", f"The answer does not claim: {answer}")
    quotes = [{**one, "only": one["quote"] not in known, "quote": page.cut(one["quote"], LONGEST)} for one in evidence]
    return {"gaps": (), **run, "pieces": pieces, "evidence": quotes, "right": right if answer else (), "wrong": wrong}


def _answer(run: Mapping[str, Any]) -> str:
    """Return the answer of a run without the quotes that follow below."""
    quotes = ((one["source"], one["quote"]) for one in page.quotes_in(run))
    return without_quotes(str(run.get("answer") or ""), quotes)[:LONGEST_ANSWER]


def _check(name: str, text: str) -> str:
    # A text in JSON is valid YAML, too.
    return f"- {name}: {json.dumps(page.line(text, _LONGEST_CHECK).rstrip('…'), ensure_ascii=False)}"


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
        "runs": runs,
        "ended": len(ended),
        "passed": sum(one["passed"] for one in ended),
        "score": fmean(map(fmean, by_case.values())) if by_case else None,
        "totals": {name: page.total(run[name] for run in ended) for name in AMOUNTS},
    }
