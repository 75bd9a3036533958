"""Helpers for runs that are read as a stream."""

import asyncio
from dataclasses import dataclass, field

from run_specialist.api.runner import Runner
from run_specialist.specialist.fields import Specialist

FINDER = Specialist(name="finder", description="Finds", prompt="You find notes.", tools=(), tool_calls_limit=9)


@dataclass
class StreamingHarness:
    """A runner with a tool that hangs on request and records when it starts and when it is released."""

    runner: Runner
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def stream(self, **settings):
        """Return the stream of a run of the finder."""
        return self.runner.stream(FINDER, "What do owls eat?", **settings)
