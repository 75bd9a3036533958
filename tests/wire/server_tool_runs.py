"""Runs of specialists whose tools the API runs itself: the real SDK against the simulated API."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome
from tests.wire.connected import connected
from tests.wire.serving import write_specialist
from tests.wire.simulator import MessagesSimulator
from tests.wire.simulator.prompt import Block
from tests.wire.simulator.replies import fetched, searched, server_tool_use

BOTH = ("tools: search, WebSearch, WebFetch", "server_tools: true")
SEARCH = ("tools: search, WebSearch", "server_tools: true")
URL = "https://example.com/retries"
PAGE = fetched(URL, "Payments are retried three times.")
FOUND = searched(("Retries of payments", URL))
QUESTION = "How often are payments retried?"


def search(words: str = "retries") -> Block:
    """Return a use of the search."""
    return server_tool_use("web_search", {"query": words})


def fetch(url: str = URL) -> Block:
    """Return a use of the tool that reads a page."""
    return server_tool_use("web_fetch", {"url": url})


@dataclass
class ServerRuns:
    """Finished runs, one after the other."""

    provider: AnthropicProvider
    outcomes: list[Outcome] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """The last outcome."""
        return self.outcomes[-1]

    def phases(self, name: str) -> list[str]:
        """Return the phases of the calls of one tool, in order."""
        return [event.phase for event in self.events if event.event == "tool_call" and event.name == name]


async def asked(
    api: MessagesSimulator,
    folder: Path,
    *lines: str,
    model: str = "haiku",
    stream: bool = False,
    trust: bool = True,
    store: str = "none",
    runs: int = 1,
    **settings: Any,
) -> ServerRuns:
    """Ask the specialist `finder` of a folder, whose file has these lines."""
    write_specialist(folder, "finder", *lines)
    watch = (lambda delta: None) if stream else None
    async with connected(api, model) as provider:
        done = ServerRuns(provider)
        async with Runner(root=folder, provider=done.provider, trust=trust, store=store) as runner:
            for _ in range(runs):
                run = await runner.prepare("finder", QUESTION, listener=done.events.append, watch=watch, **settings)
                done.outcomes.append(await run.outcome())
    return done


def tools_of(api: MessagesSimulator, request: int = 0) -> dict[str, dict[str, Any]]:
    """Return the tools in a request, by name."""
    return {tool["name"]: tool for tool in api.requests[request].body["tools"]}
