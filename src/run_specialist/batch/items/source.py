"""The source of the items of a batch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from run_specialist.batch.item import InputRecord
from run_specialist.batch.items.decoded_lines import OnBad, stop


@dataclass(frozen=True, slots=True)
class Source:
    """A source of items, read one by one; passed to a batch as its items."""

    name: str
    """Absolute path, glob pattern with its root, or `-`: part of the identity of a batch."""
    title: str
    """Its name in messages, as the user wrote it."""
    read: Callable[[OnBad], Iterator[InputRecord]]
    """Reads the items; called with a function for bad items. Raises UsageError if it cannot continue."""
    is_repeatable: bool
    """Whether the items can be read more than once."""

    def __iter__(self) -> Iterator[InputRecord]:
        """Yield the items; raises UsageError for a bad one."""
        return self.read(stop)
