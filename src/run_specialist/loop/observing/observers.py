"""Pass events and pieces of streamed replies to the listeners of a run; a failing listener cannot harm the run."""

import logging
from collections.abc import Callable, Sequence

from run_specialist.providers.base import Delta, Watch
from run_specialist.record.events import Event, FileChanged, Listener, Warned
from run_specialist.record.journal import EventLogged, Journal, Record
from run_specialist.record.outcome import FileChange
from run_specialist.redaction import redact

_log = logging.getLogger(__name__)


class Observers:
    """Notifies listeners and writes the journal. A listener that raises is dropped; errors of a watcher are ignored."""

    def __init__(  # noqa: PLR0913, PLR0917 - who observes, and what was before the run was resumed
        self,
        listener: Listener | None,
        watch: Watch | None,
        journal: Journal | None,
        warnings: Sequence[str] = (),
        hide: Callable[[str], str] = redact,
        changes: Sequence[FileChange] = (),
    ) -> None:
        self._listeners = [] if listener is None else [listener]
        self._watch = watch
        self._hide = hide
        self.journal = journal
        """Records every event; None if the run is not stored."""
        self.warnings = [*warnings]
        """The text of every warning so far."""
        self.changes = [*changes]
        """What the tools of the run have done to files so far, oldest first."""

    def notify(self, event: Event) -> None:
        """Record an event and notify the listeners; secrets are masked in a warning, which may quote foreign code."""
        if isinstance(event, Warned):
            event = Warned(self._hide(event.text))
        if self.journal is not None:
            self.journal.write(EventLogged(event))
        if isinstance(event, Warned):
            self.warnings.append(event.text)
        if isinstance(event, FileChanged) and not event.dry_run:
            self.changes.append(event.of_file)
        if self._listeners:
            self.pass_on(event)

    def record(self, record: Record) -> None:
        """Write a record that is not an event."""
        if self.journal is not None:
            self.journal.write(record)

    def pass_on(self, event: Event) -> None:
        """Notify the listeners of an event that is recorded elsewhere."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - foreign code
                self._listeners.remove(listener)
                self.warnings.append(f"the listener failed and was dropped: {self._hide(repr(error))}")

    def add(self, listener: Listener) -> None:
        """Add a listener for the events from now on."""
        self._listeners.append(listener)

    @property
    def is_watching(self) -> bool:
        """True if a watcher wants the pieces of replies, so that requests are streamed."""
        return self._watch is not None

    def show(self, delta: Delta) -> None:
        """Pass a piece of a streamed reply to the watcher."""
        try:
            if self._watch:
                self._watch(delta)
        except Exception:  # noqa: BLE001 - foreign code
            _log.debug("the watcher failed", exc_info=True)
