"""Count the reasons why items of a batch failed."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from run_specialist.store.stored_batch import ItemResult

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
    error = _line(item.error or str(warnings[-1])) or item.status
    kind = outcome.get("error_kind")
    return (str(kind).replace("_", " ") if kind else error), error


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
