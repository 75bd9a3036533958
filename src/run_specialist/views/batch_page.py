"""The page of a batch, and its failures."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

from run_specialist.record.outcome import NO_MODEL, OFFLINE
from run_specialist.store.batches import StoredBatch
from run_specialist.store.stored import BatchTotals, ItemResult
from run_specialist.views import page
from run_specialist.views.markdown import answer_html

LONGEST = 200
"""Maximum length of a reason [characters]."""
EXAMPLES = 5
"""Number of items named for each reason."""


@dataclass(slots=True)
class Failure:
    """A reason why items have no answer."""

    reason: str
    count: int = 0
    numbers: list[int] = field(default_factory=list)
    """Numbers of the first items, from 1."""
    example: str = ""
    """Error of the first item; empty if it is the same as the reason."""


def failures(items: Iterable[ItemResult]) -> list[Failure]:
    """Return the reasons of failed items, the most frequent first.

    items: iterated once, and not kept.
    """
    found: dict[str, Failure] = {}
    for item in items:
        reason, error = reason_of(item)
        failure = found.setdefault(reason, Failure(reason, example=error if error != reason else ""))
        failure.count += 1
        if len(failure.numbers) < EXAMPLES:
            failure.numbers.append(item.number)
    return sorted(found.values(), key=lambda failure: -failure.count)


def reason_of(item: ItemResult) -> tuple[str, str]:
    """Return the reason by which a failed item is counted, and its error; each is one line.

    The reason is the kind of the error, if it has one.
    """
    outcome = item.outcome or {}
    warnings = outcome.get("warnings") or [""]
    # The error of an outcome is the last of its warnings.
    error = page.line(item.error or str(warnings[-1]), LONGEST) or item.status
    kind = outcome.get("error_kind")
    return (str(kind).replace("_", " ") if kind else error), error


MOST_ITEMS = 10_000
"""Maximum number of rows; further items are counted, not listed."""
LONGEST_ANSWER = 20_000
"""Maximum length of an answer on the page [characters]."""
LONGEST_QUOTE = 400
# Maximum length of an input or of the beginning of an answer in a row [characters].
_LONGEST_BEGINNING = 160

_OF_ITEM = ("number", "run_id", "input", "question", "status", "tool_calls", "cost_usd", "seconds")
# Markdown marks that are removed from the beginning of an answer.
_MARKS = re.compile(r"^ {0,3}(#{1,6} |```.*$|> |[-*+] )|[*`]", re.MULTILINE)


def batch_data(
    batch: StoredBatch,
    tally: BatchTotals,
    failures: Sequence[Failure],
    items: Iterable[ItemResult],
    reports: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """Return the data of the page as JSON values.

    items: in the order of the rows; those after `MOST_ITEMS` are not read.
    reports: paths of the report files, from the folder of the page, by run id.
    """
    rows = [_row(item, (reports or {}).get(item.run_id)) for item in islice(items, MOST_ITEMS)]
    return {
        **{key: value for key, value in asdict(batch).items() if key != "frozen"},
        **asdict(tally),
        "total": tally.items,
        "failures": [asdict(one) for one in failures],
        "items": rows,
        "unjudged": sum(row["unjudged"] is not None for row in rows),
        "omitted": max(tally.items - len(rows), 0),
    }


batch_page = page.HtmlPage("batch_page", {"answer_html": answer_html}, styles=("report",)).render
"""Return the page with the data of `batch_data` as one self-contained HTML document; all untrusted text is escaped."""


def _row(item: ItemResult, report: str | None) -> dict[str, Any]:
    outcome = item.outcome or {}
    evidence = [{**one, "quote": page.cut(one["quote"], LONGEST_QUOTE)} for one in page.quotes_in(outcome)]
    answer = str(outcome.get("answer", ""))
    failed = item.status in {"failed", "aborted", "dead"} or item.error
    reason = reason_of(item)[1] if failed else None
    # A string unchanged, a row as its values, anything else as JSON.
    given = shown = item.input
    if isinstance(given, Mapping) and given.keys() == {"path", "name", "stem"}:
        shown = str(given["path"])  # an item of `--files`, whose other fields repeat parts of the path
    elif isinstance(given, Mapping) and all(isinstance(one, str | int | float | None) for one in given.values()):
        shown = ", ".join("" if one is None else str(one) for one in given.values())
    elif not isinstance(given, str):
        shown = page.brief(given, _LONGEST_BEGINNING)
    return {
        **{key: getattr(item, key) for key in _OF_ITEM},
        "shown_input": shortened(shown),
        "error": reason,
        "beginning": shortened(_MARKS.sub("", answer[:LONGEST_ANSWER])) or shortened(reason or ""),
        "answer": answer[:LONGEST_ANSWER],
        "left_out": max(len(answer) - LONGEST_ANSWER, 0),
        "evidence": evidence,
        "support": list(outcome.get("support") or ()),
        "gaps": [str(one) for one in outcome.get("gaps") or ()],
        "verified": sum(one["verified"] is True for one in evidence),
        "has_run": item.started_at is not None,
        "unjudged": NO_MODEL if outcome.get("model") == OFFLINE else None,
        "report": None if report is None else quote(report),
    }


def shortened(text: str) -> str:
    """Return the beginning of a text on one line."""
    # No more than this can be shown, however long the text is.
    return page.line(text[: 4 * _LONGEST_BEGINNING], _LONGEST_BEGINNING)
