"""Where the runs of a server are kept, which its clients do not learn."""

import dataclasses
from pathlib import Path

from run_specialist.record.outcome import Outcome
from run_specialist.store.location import NONE, file_of, place, shown


class StoreLocation:
    """Takes the path or URL of the store out of texts for clients."""

    def __init__(self, store: str | None) -> None:
        """Take the store, as `Runner` takes it."""
        url = place(store).url
        file = file_of(url)
        self._names = [] if url == NONE else [url, shown(url)]
        if file is not None and file.parent != Path(file.anchor):
            # Errors also name the folder, and files beside the store.
            self._names.append(str(file.parent))

    def hide(self, text: str) -> str:
        """Return a text in which the store has no location."""
        for name in self._names:
            text = text.replace(name, "the store")
        return text

    def hide_in(self, outcome: Outcome) -> Outcome:
        """Return an outcome whose warnings and error have no location of the store."""
        warnings = tuple(self.hide(warning) for warning in outcome.warnings)
        return dataclasses.replace(outcome, warnings=warnings, error=outcome.error and self.hide(outcome.error))
