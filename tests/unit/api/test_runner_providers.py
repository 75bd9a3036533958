"""The Python API: runs that share a provider, and the choice of the model."""

import asyncio
from dataclasses import dataclass, field

import pytest

from run_specialist.api.runner import Runner
from run_specialist.providers.base import Capabilities, Choice
from run_specialist.record.messages import text_of
from tests.loop_jobs import LOOK
from tests.scripted_provider import calls
from tests.unit.api.finder_scripts import FINDER

pytestmark = pytest.mark.usefixtures("project")


@dataclass
class Shared:
    """A provider for many children, which call tools until forced to respond and start their first turn together."""

    children: int
    model: str = "shared"
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(forced_choice=True, max_output_tokens=9000))
    closed: int = 0
    opened: int = 0

    def open(self, opening, watch=None):
        """Start the conversation of one child."""
        self.opened += 1
        self.together = getattr(self, "together", None) or asyncio.Barrier(self.children)
        return Child(self)

    def cost(self, usage):
        """Return None, because the price is unknown."""

    async def aclose(self):
        """Count how often the provider was closed."""
        self.closed += 1


@dataclass
class Child:
    """One conversation of a shared provider."""

    provider: Shared
    turn: int = 0

    async def ask(self, request):
        """Call the tool, or respond with the question if forced to; the first turn waits for all children."""
        if self.turn == 0:
            async with asyncio.timeout(30):
                await self.provider.together.wait()
        self.turn += 1
        question = text_of(request.messages[0].content)
        if request.choice is Choice.RESPOND:
            return calls(("respond", {"answer": question}), first_id=999)
        return calls(("look", {"query": f"{question} {self.turn}"}), first_id=self.turn)


@pytest.mark.anyio
async def test_s0_7_concurrent_children_share_only_the_provider():
    """Twenty concurrent children share a provider and nothing else.

    Each has its own limit, answer, count, id and events.
    """
    provider, seen = Shared(children=20), {number: [] for number in range(20)}
    async with Runner(provider=provider, tools=[LOOK]) as runner:
        outcomes = await asyncio.gather(
            *(
                runner.run(FINDER, f"child {number}", listener=seen[number].append, tool_calls_limit=number)
                for number in range(20)
            )
        )
    assert [outcome.answer for outcome in outcomes] == [f"child {number}" for number in range(20)]
    assert [outcome.tool_calls.used for outcome in outcomes] == list(range(20))
    assert len({outcome.run_id for outcome in outcomes}) == 20
    for number, events in seen.items():
        queries = [
            event.arguments["query"] for event in events if event.event == "tool_call" and event.phase == "started"
        ]
        assert queries == [f"child {number} {turn}" for turn in range(1, number + 1)]
        assert events[-1].outcome is outcomes[number]
    assert provider.opened == 20


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("environment", "model"),
    [
        ({}, "offline"),
        ({"ANTHROPIC_API_KEY": "k"}, "sonnet"),
        ({"ANTHROPIC_AUTH_TOKEN": "k"}, "sonnet"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, "sonnet"),
        ({"ANTHROPIC_API_KEY": ""}, "offline"),
        ({"ANTHROPIC_API_KEY": "k", "SPECIALIST_MODEL": "haiku"}, "haiku"),
        ({"ANTHROPIC_API_KEY": "k", "SPECIALIST_MODEL": ""}, "sonnet"),
        ({"ANTHROPIC_API_KEY": "k", "SPECIALIST_MODEL": "offline"}, "offline"),
    ],
    ids=str,
)
async def test_the_default_model_depends_on_the_environment(monkeypatch, environment, model):
    """The model is `sonnet` with credentials or a base URL, else offline.

    SPECIALIST_MODEL overrides both unless it is empty.
    """
    made = []
    monkeypatch.setattr("run_specialist.providers.choose.make_provider", lambda name: made.append(name) or Shared(1))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with Runner() as runner:
        await runner.prepare("owls", "What?")
    assert made == [model]
