"""Receive what tools report about their calls besides results: events, and records that must be stored first."""

from collections.abc import Callable
from dataclasses import fields, replace

from run_specialist.loop.observing.observers import Observers
from run_specialist.record.events import Event
from run_specialist.record.journal import Record


class CallLog:
    """Implements `RunLog` for the calls of one run."""

    def __init__(self, observers: Observers, hide: Callable[[str], str]) -> None:
        """Set the observers of the run, and the function that masks its credentials."""
        self._observers = observers
        self._hide = hide

    def notify(self, event: Event) -> None:
        """Report and store an event; credentials in its texts are masked."""
        texts = {one.name: value for one in fields(event) if isinstance(value := getattr(event, one.name), str)}
        self._observers.notify(replace(event, **{name: self._hide(text) for name, text in texts.items()}))

    @property
    def is_stored(self) -> bool:
        """Whether the run is stored."""
        return self._observers.journal is not None

    async def stored(self, record: Record) -> bool:
        """Store a record and wait; return whether it was stored. True if the run is not stored at all."""
        journal = self._observers.journal
        if journal is None:
            return True
        journal.write(record)
        return await journal.has_stored()
