"""Whoever watches a run: told of each event, shown each piece of a reply, and never able to harm it."""

import logging
from collections.abc import Callable, Sequence

from run_specialist.loop.observing.partial_reply import PartialReply
from run_specialist.providers.base import Delta, Watch
from run_specialist.record.events import Event, Listener, Warned
from run_specialist.record.journal import EventLogged, Journal, Record
from run_specialist.redaction import redact

_log = logging.getLogger(__name__)


class Observers:
    """Passes on what happens; a listener that fails is dropped, a watcher that fails is passed over."""

    def __init__(
        self,
        listener: Listener | None,
        watch: Watch | None,
        journal: Journal | None,
        warnings: Sequence[str] = (),
        hide: Callable[[str], str] = redact,
    ) -> None:
        self._listeners = [] if listener is None else [listener]
        self._watch = watch
        self._hide = hide
        self.journal = journal
        """Where all that is told is put on record; None where nothing is kept."""
        self.warnings = [*warnings]
        """The text of every warning that was told."""
        self.draft = PartialReply()
        """What came through of the reply under way, where somebody watches."""

    def tell(self, event: Event) -> None:
        """Pass an event on; a warning, which may have words of other people's code, without secrets."""
        if isinstance(event, Warned):
            event = Warned(self._hide(event.text))
        if self.journal is not None:
            self.journal.write(EventLogged(event))
        if isinstance(event, Warned):
            self.warnings.append(event.text)
        self.pass_on(event)

    def keep(self, record: Record) -> None:
        """Put on record what is no event."""
        if self.journal is not None:
            self.journal.write(record)

    def pass_on(self, event: Event) -> None:
        """Pass an event on that is put on record elsewhere."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - it is somebody else's code
                self._listeners.remove(listener)
                self.warnings.append(f"the listener failed and was dropped: {self._hide(repr(error))}")

    def add(self, listener: Listener) -> None:
        """Let one more listen from now on."""
        self._listeners.append(listener)

    @property
    def watch(self) -> Watch | None:
        """What to call with the pieces of a reply; None where nobody watches, so that nothing is streamed."""
        return None if self._watch is None else self._show

    def _show(self, delta: Delta) -> None:
        self.draft.add(delta)
        try:
            if self._watch:
                self._watch(delta)
        except Exception:  # noqa: BLE001 - likewise
            _log.debug("the watcher failed", exc_info=True)
