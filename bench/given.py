"""What every peer is given: the system prompt, the tool, what the tool returns, the model and the conditions of a lap.

The sizes are those of a specialist that searches notes: a prompt of 6.5 kB and results of 2 kB, half a thousand tokens.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SYSTEM_SIZE, NOTE_SIZE = 6510, 2000
"""Characters."""
MODEL = "claude-sonnet-4-6"
"""One that may be forced to call a tool, so that every way of landing can be tried."""
MAX_TOKENS = 4096
PATIENCE = 600.0
"""How long the SDK waits for anything [s]. By itself it gives up a connection after 5 s, and on a busy machine most
of a thousand children would be lost."""
TOOL = "search_notes"
TOOL_SAYS = "Search the notes and return matching passages."
QUERY_SAYS = "words to look for"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": QUERY_SAYS}},
    "required": ["query"],
}
QUESTION = "What do the notes say about queues between agents?"


def _repeated(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


SYSTEM = _repeated(
    "You look through the notes of a team and report what was thought, tried and decided, with quotes. Read little, "
    "and say what you did not find.\n",
    SYSTEM_SIZE,
)
NOTE = _repeated(
    'A "bounded queue" stands between any two agents.\n'
    "- decided: a full queue holds up the sender\n- open: who empties it, and when?\n",
    NOTE_SIZE,
)

Child = Callable[[str], Awaitable[str]]
"""Puts a question to the peer and returns its answer, empty where there is none."""


@dataclass(slots=True)
class Conditions:
    """Under which a peer works in one lap."""

    url: str
    """Of the server."""
    limit: int = 10_000
    """Tool calls, or what the peer has in their place."""
    landing: str = "auto"
    """For peers that know several ways."""
    folder: Path = field(default_factory=Path)
    """Where it may keep something."""
    calls: int = 0
    """Tool calls that were run so far."""
    moments: list[tuple[float, float]] = field(default_factory=list)
    """When a call began or ended, for a peer that watches them: wall and CPU time [s]."""
    result: str = ""
    """What the latest call returned, for the same."""

    def search(self) -> str:
        """Do what the tool does: count, and return a note."""
        self.calls += 1
        return NOTE


Peer = Callable[[Conditions], AbstractAsyncContextManager[Child]]
"""What a module in `bench.peers` has under the name `opened`."""
