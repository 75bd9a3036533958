"""Runs of specialists whose tools the API runs itself: the real SDK against the simulated API."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from run_specialist.api.runner import Runner
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.record.events import Event
from run_specialist.record.outcome import Outcome
from tests.wire.serving import write_specialist
from tests.wire.simulator import MessagesSimulator

BOTH = ("tools: search, WebSearch, WebFetch", "server_tools: true")
SEARCH = ("tools: search, WebSearch", "server_tools: true")


@dataclass
class ServerRun:
    """A finished run."""

    outcome: Outcome
    events: list[Event] = field(default_factory=list)

    def phases(self, name: str) -> list[str]:
        """Return the phases of the calls of one tool, in order."""
        return [event.phase for event in self.events if event.event == "tool_call" and event.name == name]


async def asked(  # noqa: PLR0913 - what a run depends on
    api: MessagesSimulator,
    folder: Path,
    *lines: str,
    model: str = "haiku",
    stream: bool = False,
    trust: bool = True,
    store: str = "none",
    **settings: Any,
) -> ServerRun:
    """Ask the specialist `finder` of a folder, whose file has these lines."""
    write_specialist(folder, "finder", *lines)
    events: list[Event] = []
    watch = (lambda delta: None) if stream else None
    async with (
        make_client(base_url=api.base_url, api_key="test", max_retries=0) as client,
        Runner(root=folder, provider=AnthropicProvider(model, client), trust=trust, store=store) as runner,
    ):
        run = await runner.prepare(
            "finder", "How often are payments retried?", listener=events.append, watch=watch, **settings
        )
        return ServerRun(await run.outcome(), events)


def tools_of(api: MessagesSimulator, request: int = 0) -> dict[str, dict[str, Any]]:
    """Return the tools in a request, by name."""
    return {tool["name"]: tool for tool in api.requests[request].body["tools"]}
