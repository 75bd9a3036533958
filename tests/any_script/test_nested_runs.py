"""Property test: for any tree of nested specialists, every call and every token is counted exactly once."""

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.api.runner import Runner
from run_specialist.errors import ProviderError
from run_specialist.providers.base import Capabilities, Choice
from run_specialist.record.events import Called, ChildTold, Event
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, Outcome
from run_specialist.tools.base import Tool
from tests.any_script.virtual_time import run
from tests.plugins.tiers import examples
from tests.scripted_provider import calls, says
from tests.scripted_specialists import write

FAMILY = {"lead": ("left", "right"), "left": ("low", "lower"), "right": ("low",), "low": (), "lower": ()}
SLOWEST = 20
"""Maximum duration of a request or a tool call [s]."""


class Whim:
    """A model that acts at random."""

    model = "whim"
    capabilities = Capabilities(forced_choice=True, max_output_tokens=64_000)

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._said = 0
        self.usage = Usage()

    def open(self, opening, watch=None) -> "Conversation":
        """Start a new conversation for each run."""
        return Conversation(self, self._chance, "delegate" in opening.tools, opening)

    def cost(self, usage):
        """Return the cost of a request [USD]."""
        return usage.total_tokens / 100_000

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


class Conversation:
    """The conversation of one run with the random model."""

    def __init__(self, whim, chance, may_ask, opening) -> None:
        self._whim, self._chance, self._may_ask, self._opening = whim, chance, may_ask, opening
        self._id = 1

    async def ask(self, request):
        """Return a random reply, or raise a ProviderError at random."""
        await asyncio.sleep(self._chance.uniform(0, SLOWEST))
        if self._chance.random() < 0.03:
            raise ProviderError("the server is gone")
        reply = self._reply(request.choice)
        self._whim.usage += reply.usage
        return reply

    def _reply(self, choice):
        if choice is Choice.NONE or self._chance.random() < 0.1:
            return says("some words")
        if choice is Choice.RESPOND or self._chance.random() < 0.1:
            wanted = [("respond", {"answer": "an answer"})]
        else:
            wanted = [self._call() for _ in range(self._chance.randint(1, 4))]
        reply = calls(*wanted, first_id=self._id)
        self._id += len(wanted)
        return reply

    def _call(self):
        if self._may_ask and self._chance.random() < 0.5:
            enum = str(self._opening.tools.get("delegate").definition)
            names = [name for name in FAMILY if f"'{name}'" in enum]
            return "delegate", {"specialist": self._chance.choice([*names, "nobody"]), "query": "What?"}
        return "look", {"query": str(self._chance.random())}


def below(children: tuple[Child, ...]) -> list[Child]:
    """Return all children of a tree, at every depth."""
    return [one for child in children for one in (child, *below(child.children))]


def unwrapped(event: Event) -> Event:
    """Return the innermost event of a forwarded event."""
    return unwrapped(event.told) if isinstance(event, ChildTold) else event


async def play(
    folder: Path, seed: int, limit: int, *, shared: bool, abort_at: float | None
) -> tuple[Outcome, int, Usage]:
    """Run the nested specialists; return the outcome, and the number of calls started and the usage of all runs."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    for name, agents in FAMILY.items():
        lines = (f"agents: [{', '.join(agents)}]", f"share_budget: {str(shared).lower()}") if agents else ()
        write(folder, name, f"tool_calls_limit: {chance.randint(0, 12)}", *lines)

    async def look(query: str) -> str:
        await asyncio.sleep(chance.uniform(0, SLOWEST))
        if chance.random() < 0.1:
            raise RuntimeError("no")
        return f"note {query}"

    whim, events = Whim(chance), []
    async with Runner(
        root=folder, dir=folder / "specialists", provider=whim, tools=[Tool("look", "L.", look)]
    ) as runner:
        going = await runner.prepare("lead", "What?", listener=events.append, tool_calls_limit=limit)
        if abort_at is not None:
            asyncio.get_running_loop().call_later(abort_at, going.abort)
        outcome = await going.outcome()
    begun = [event for event in map(unwrapped, events) if isinstance(event, Called) and event.phase == "started"]
    return outcome, len(begun), whim.usage


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 2**32),
    limit=st.integers(0, 30),
    shared=st.booleans(),
    abort_at=st.none() | st.floats(0, 200),
)
def test_x_11_a_tree_of_runs_counts_each_call_and_token_once(seed, limit, shared, abort_at):
    """With a shared budget, all calls of the tree fit its limit and equal its `used`; usage and cost cover all runs."""
    with TemporaryDirectory() as folder:
        outcome, begun, usage = run(play(Path(folder), seed, limit, shared=shared, abort_at=abort_at))
    assert outcome.usage == usage
    assert abs(outcome.cost_usd - usage.total_tokens / 100_000) < 1e-6
    own = sum((child.usage.total_tokens for child in outcome.children), 0)
    assert own <= usage.total_tokens
    if shared:
        assert outcome.tool_calls.used == begun <= limit
    else:
        assert outcome.tool_calls.used + sum(child.tool_calls for child in below(outcome.children)) == begun
    assert outcome.tool_calls.used <= limit
    assert abort_at is not None or outcome.status != "aborted"
    assert all(
        child.status in {"answered", "landed", "partial", "failed", "aborted"} for child in below(outcome.children)
    )
