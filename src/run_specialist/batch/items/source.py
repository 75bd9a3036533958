"""Where the items of a batch come from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from run_specialist.batch.item import InputRecord
from run_specialist.batch.items.decoded_lines import OnBad, stop


@dataclass(frozen=True, slots=True)
class Source:
    """Items that are read one by one; a batch takes it as its items."""

    name: str
    """Absolute path, glob pattern with its root, or `-`: part of the identity of a batch."""
    title: str
    """Its name in messages, as the user wrote it."""
    read: Callable[[OnBad], Iterator[InputRecord]]
    """Reads the items; is called with a function for bad items. Raises UsageError where it cannot continue."""
    is_repeatable: bool
    """Whether the items can be read more than once."""

    def __iter__(self) -> Iterator[InputRecord]:
        """Yield the items; raises UsageError for a bad one."""
        return self.read(stop)
