"""Runs that reach a limit: a tool with long results, and a clock that tests set."""

from run_specialist.tools.base import Tool
from tests.wire.specialists import note

LONG = Tool("look", "Looks.", lambda query: f"{note(query)} {'x' * 2_000}")


class Clock:
    """A clock that shows the time a test has set."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Return the time that the test has set."""
        return self.now
