"""Check the items of a batch before anything is sent."""

from collections.abc import Iterable, Iterator
from itertools import chain

from run_specialist.batch.item import InputRecord
from run_specialist.batch.items.input_values import fields_of
from run_specialist.batch.items.question_template import Template, ask
from run_specialist.batch.items.source import Source
from run_specialist.errors import UsageError
from run_specialist.specialist.problems import shown

_NAMED = 3
"""How many bad items are named."""


class CheckedItems:
    """Items that have been read once and are valid; they are read again for each iteration."""

    def __init__(self, source: Source, count: int) -> None:
        """Take the source and the number of its items."""
        self.source = source
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[InputRecord]:
        """Yield the items; raises UsageError if the source has become invalid since."""
        return iter(self.source)


def check(source: Source, template: Template | None) -> Iterable[InputRecord]:
    """Return the items of a source, checked as far as possible before anything is sent.

    All items are checked if they can be read twice; the result then has a length. Otherwise the first one is.
    template: None = each item is its question.
    Raises UsageError that names the first bad items.
    """
    if not source.is_repeatable:
        items = iter(source)
        first = next(items, None)
        if first is None:
            raise UsageError(f"{source.title} has no items")
        _check_first(first, template)
        return chain([first], items)
    return CheckedItems(source, _count(source, template))


def _count(source: Source, template: Template | None) -> int:
    """Return the number of items; raises UsageError if any is bad."""
    good, bad = 0, _BadItems()
    try:
        for given in source.read(bad.add):
            number = good + bad.count + 1
            if number == 1:
                _check_first(given, template)
            try:
                ask(given, template, number)
                good += 1
            except UsageError as error:
                bad.add(error)
    except UsageError as error:
        if not bad.count:
            raise
        bad.add(error)
    if bad.count:
        raise bad.error(source.title, good)
    if not good:
        raise UsageError(f"{source.title} has no items")
    return good


def _check_first(first: InputRecord, template: Template | None) -> None:
    """Check the template against the fields of the first item, because its errors are the same for all items."""
    if template is None:
        return
    if not template.fields:
        has = ", ".join(shown(name) for name in [*fields_of(first.input)][:5]) or "none"
        raise UsageError(
            f"the question {shown(template.text)!r} names no field, so it is the same for every item; put a field in "
            f"braces into it: {has}"
        )
    ask(first, template, 1)


class _BadItems:
    """The number of bad items, and the errors of the first few."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[str] = []

    def add(self, error: UsageError) -> None:
        self.count += 1
        if len(self._first) < _NAMED:
            self._first.append(str(error))

    def error(self, title: str, good: int) -> UsageError:
        if self.count == 1:
            return UsageError(self._first[0])
        more = self.count - len(self._first)
        named = " | ".join(self._first) + (f" | and {more:,} more" if more else "")
        return UsageError(f"{title}: {self.count:,} of {good + self.count:,} items cannot be asked about: {named}")
