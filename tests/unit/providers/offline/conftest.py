"""Example notes, and runs that answer offline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from run_specialist import Outcome, Runner, Specialist
from run_specialist.record.messages import Message, ToolCall

NOTES = {
    "notes/cache.md": (
        "# Cache\n\nWe put a cache before the resolver.\n\n## Removal\n\n"
        "- The cache was removed because stale entries broke logins after a deploy.\n"
        "- Removing it made a request 12 ms slower.\n"
    ),
    "notes/2024-01-05_database.md": (
        "# Database\n\n## Decision\n\nWe settled on PostgreSQL 16 (not 17), since the hosting offers no newer one.\n"
        "The pool holds 40 connections.\n"
    ),
    "notes/2024-02-01_load-test.md": (
        "# Load test\n\nThe first load test of the importer reached 300 rows a second.\n"
        "After batching the importer reached 9,000 rows a second.\n"
    ),
    "notes/release.md": "# Release\n\nRelease 2.4 went out on 2024-03-11. The changelog is written by hand.\n",
    "notes/pool.md": "The pool holds 25 connections since the outage.\n",
    "notes/lunch.md": "# Lunch\n\nOn Mondays there is soup.\n",
}


@dataclass(frozen=True)
class Finished:
    """A run that has ended."""

    outcome: Outcome
    messages: Sequence[Message]

    @property
    def calls(self) -> list[ToolCall]:
        """The calls, without that of `respond`."""
        used = [block for one in self.messages for block in one.blocks if block["type"] == "tool_use"]
        return [ToolCall(one["id"], one["name"], one["input"]) for one in used if one["name"] != "respond"]

    @property
    def results(self) -> list[str]:
        """The results of all calls."""
        return [block["content"] for one in self.messages for block in one.blocks if block["type"] == "tool_result"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with a few notes."""
    for name, text in NOTES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def ask(root: Path):
    """Return a function that asks a question about the notes and more of them, and returns the finished run."""

    async def run(
        question: str,
        *,
        limit: int = 30,
        tools: Sequence[str] = ("search", "grep", "glob", "read", "ls"),
        notes: Mapping[str, str] | None = None,
    ) -> Finished:
        for name, text in (notes or {}).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        finder = Specialist(name="finder", description="", prompt="Find.", tools=tuple(tools), tool_calls_limit=limit)
        async with Runner(root=root, model="offline", store="none") as runner:
            one = await runner.prepare(finder, question)
            return Finished(await one.outcome(), one.transcript)

    return run
