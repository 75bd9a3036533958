"""Hide the location of the store from clients."""

import dataclasses
from pathlib import Path

from run_specialist.record.outcome import Outcome
from run_specialist.store.location import NONE, file_of, place, shown


class StoreLocation:
    """Replaces the path or URL of the store in texts for clients."""

    def __init__(self, store: str | None) -> None:
        """Set the store.

        store: the `store` argument of `Runner`.
        """
        url = place(store).url
        file = file_of(url)
        self._names = [] if url == NONE else [url, shown(url)]
        if file is not None and file.parent != Path(file.anchor):
            # Errors also contain the folder, and files next to the store.
            self._names.append(str(file.parent))

    def hide(self, text: str) -> str:
        """Return a text without the location of the store."""
        for name in self._names:
            text = text.replace(name, "the store")
        return text

    def hide_in(self, outcome: Outcome) -> Outcome:
        """Return an outcome without the location of the store in its warnings and error."""
        warnings = tuple(self.hide(warning) for warning in outcome.warnings)
        return dataclasses.replace(outcome, warnings=warnings, error=outcome.error and self.hide(outcome.error))
