"""Example notes, and the offline provider in a simulated run without the runner."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from run_specialist.errors import ToolError
from run_specialist.providers.base import Choice, Opening, Request
from run_specialist.providers.offline import OfflineProvider
from run_specialist.record.messages import Message, ToolCall, ToolResult
from run_specialist.tools.base import Toolset
from run_specialist.tools.files import file_tools
from run_specialist.tools.respond import Response, respond_tool

MAX_TOKENS = 4096
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
    "notes/lunch.md": "# Lunch\n\nOn Mondays there is soup.\n",
}


@dataclass(frozen=True)
class Finished:
    """The result of a simulated run."""

    response: Response
    calls: tuple[ToolCall, ...]
    messages: tuple[Message, ...]
    results: tuple[str, ...]


Ask = Callable[..., Finished]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with a few notes."""
    for name, text in NOTES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def ask(root: Path) -> Ask:
    """Return a function that asks the provider a question and executes its calls until it answers."""

    async def run(
        question: str,
        *,
        limit: int = 30,
        landing: Choice = Choice.RESPOND,
        tools: Sequence[str] = ("search", "grep", "glob", "read", "ls"),
        notes: Mapping[str, str] | None = None,
    ) -> Finished:
        for name, text in (notes or {}).items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        toolset = Toolset([*(tool for tool in file_tools(root) if tool.name in tools), respond_tool()])
        conversation = OfflineProvider().open(Opening("", toolset))
        messages = [Message.user(question)]
        made: list[ToolCall] = []
        results: list[str] = []
        while True:
            choice = landing if len(made) >= limit else Choice.AUTO
            reply = await conversation.ask(Request(messages, choice, MAX_TOKENS))
            respond = next((call for call in reply.calls if call.name == "respond"), None)
            if respond or not reply.calls:
                response = Response.parse(respond.arguments) if respond else Response(answer=reply.text)
                return Finished(response, tuple(made), tuple(messages), tuple(results))
            answers = [await _run(toolset, call) for call in reply.calls[: limit - len(made)]]
            made += reply.calls[: limit - len(made)]
            results += [answer.content for answer in answers]
            skipped = [ToolResult(call.id, "Not run.", is_error=True) for call in reply.calls[len(answers) :]]
            messages += [Message("assistant", reply.content), Message.results([*answers, *skipped])]

    return run


async def _run(toolset: Toolset, call: ToolCall) -> ToolResult:
    tool = toolset.get(call.name)
    assert tool is not None
    assert call.arguments is not None
    try:
        return ToolResult(call.id, (await tool.call(call.arguments)).text)
    except ToolError as error:
        return ToolResult(call.id, str(error), is_error=True)
