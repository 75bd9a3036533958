"""Inputs shared by all peers: system prompt, tool, tool result, model and the conditions of a lap.

The sizes are typical of a specialist that searches notes: a prompt of 6.5 kB and results of 2 kB (500 tokens).
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SYSTEM_SIZE, NOTE_SIZE = 6510, 2000
"""Sizes of the system prompt and of a tool result [characters]."""
MODEL = "claude-sonnet-4-6"
"""A model that supports forced tool choice, so that every kind of landing can be measured."""
MAX_TOKENS = 4096
PATIENCE = 600.0
"""Timeout of the SDK [s]. With its default connect timeout of 5 s most of a thousand children would fail on a busy
machine."""
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
"""Asks the peer a question and returns its answer, which is empty if there is none."""


@dataclass(slots=True)
class Conditions:
    """Conditions for a peer in one lap."""

    url: str
    """URL of the server."""
    limit: int = 10_000
    """Maximum tool calls, or the nearest setting of the peer."""
    landing: str = "auto"
    """Kind of landing, for peers that support several."""
    folder: Path = field(default_factory=Path)
    """Folder for files of the peer."""
    calls: int = 0
    """Tool calls run so far."""
    moments: list[tuple[float, float]] = field(default_factory=list)
    """Wall and CPU times at the start and end of each call, for peers that observe calls [s]."""
    result: str = ""
    """Result of the latest call, for the same peers."""

    def search(self) -> str:
        """Run the tool: count the call and return a note."""
        self.calls += 1
        return NOTE


Peer = Callable[[Conditions], AbstractAsyncContextManager[Child]]
"""Type of the function `opened` in each module of `bench.peers`."""
