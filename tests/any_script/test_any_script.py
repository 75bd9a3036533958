"""Property tests: for any model, tools, endpoint and listeners, a run ends within its limits with an outcome.

EXAMPLES in the environment sets how many scripts are tried. A script that once broke a rule stays here as a test.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.errors import ProviderError
from run_specialist.providers.base import Capabilities, Choice
from run_specialist.record.events import Called, ChildTold, Event, Landed, Requested
from run_specialist.record.messages import Stop, Usage
from run_specialist.record.outcome import Child, Outcome
from run_specialist.tools.base import Tool
from tests.any_script.rules import RULES
from tests.any_script.run_script import ScriptedRun, play
from tests.any_script.scripted_model import Line, ScriptedCall
from tests.any_script.scripts import DUTIFUL, MUTE, SCRIPTS, STUBBORN, Script
from tests.any_script.virtual_time import run
from tests.plugins.tiers import examples
from tests.scripted_provider import calls, says
from tests.scripted_specialists import write


def checked(script: Script) -> ScriptedRun:
    """Run a script and check every rule."""
    played = play(script)
    for rule in RULES:
        rule(played)
    return played


@settings(max_examples=examples(60))
@given(SCRIPTS)
def test_all_rules_hold_for_any_script(script):
    """All rules hold for any generated script."""
    checked(script)


@pytest.mark.parametrize("how", ["panic", "unspeakable"])
def test_a_tool_that_raises_a_base_exception_fails_one_call(how):
    """A tool that raises a BaseException, or an error without a valid text, fails one call, and the run continues."""
    played = checked(Script((Line(wishes=(ScriptedCall("do", {"how": how}),)),), DUTIFUL))
    assert played.end.status == "answered"
    assert played.end.tool_calls.failed == 1


@pytest.mark.parametrize("stop", [Stop.ANSWERED, Stop.PAUSED])
def test_calls_beside_a_stop_reason_without_calls_get_results(stop):
    """Calls beside a stop reason that allows none still get results, because endpoints refuse calls without results."""
    wrong = Line(stop, "no JSON", STUBBORN.wishes)
    answer = Line(wishes=(ScriptedCall("respond", {"answer": {"n": 1}}),))
    played = checked(Script((wrong,), answer, schema=True))
    assert played.end.output == {"n": 1}
    assert len(played.requests) == 2


@pytest.mark.parametrize("first", ["do", "respond"])
def test_the_last_result_of_a_turn_reports_the_limit_also_beside_respond(first):
    """A `respond` beside the call that reaches the limit has a result too, and only the last one has the fields."""
    beside = sorted(
        (*STUBBORN.wishes, ScriptedCall("respond", {"answer": "Owls."})), key=lambda call: call.name != first
    )
    played = checked(Script((Line(wishes=tuple(beside)),), DUTIFUL, limits={Kind.CHARACTERS: 5}, limit_fields=True))
    told = ['"limit_reached": true' in block["content"] for block in played.requests[1].messages[-1].blocks]
    assert told == [False, True]


@pytest.mark.parametrize(
    "last",
    [
        Line(Stop.TRUNCATED, more_room_helps=False),
        Line(Stop.TRUNCATED, "", (ScriptedCall("respond", {}),), more_room_helps=False),
        Line(Stop.REFUSED),
        MUTE,
    ],
    ids=["full", "half", "refused", "mute"],
)
def test_an_unusable_reply_to_a_landing_request_counts(last):
    """A reply to a landing request counts, even if nothing in it can be used."""
    played = checked(Script((), last, limits={Kind.TOOL_CALLS: 0}))
    assert played.end.landing.requests == 1


LONG = Line(wishes=(ScriptedCall("do", {"how": "lots"}),))


def test_a_summary_that_spends_the_rest_is_followed_by_the_landing():
    """After a summary spends the last tokens, the run lands without another ordinary request."""
    dear = Line(Stop.ANSWERED, "notes", usage=Usage(0, 0, 0, 60_000))
    limits = {Kind.TOOL_CALLS: 9, Kind.TOKENS: 60_000}
    played = checked(Script((LONG, LONG), DUTIFUL, (dear,), limits, {"summarize_at": 500}))
    assert [event.choice for event in played.of(Requested)] == ["auto", "auto", "respond"]
    assert played.of(Landed)[0].reason is Kind.TOKENS


def test_an_interrupted_summary_is_counted_in_the_usage():
    """A summary interrupted by the time limit counts: the tokens of its finished chunk are in the outcome."""
    summaries = (Line(Stop.ANSWERED, "notes"), Line("hang"))
    both = Line(wishes=(*LONG.wishes, *LONG.wishes))
    limits = {Kind.TOOL_CALLS: 9, Kind.TIME: 60.0}
    played = checked(Script((both, LONG), DUTIFUL, summaries, limits, {"summarize_at": 500}))
    assert played.end.usage == sum(played.model.used, Usage())
    assert len(played.model.used) > len([asked for asked in played.requests if asked.reply])


@pytest.mark.parametrize("text", ['{"n": 1}', '{"n": 1', "{}", "```json\n{}\n```"])
def test_a_cut_off_object_that_is_no_input_of_respond_is_text(text):
    """A reply to a landing by schema that was cut off, and holds none of the fields of `respond`, is kept as text."""
    wishes = (ScriptedCall("do"),)
    lines = (Line(wishes=wishes), Line(Stop.TRUNCATED, text, more_room_helps=False))
    limits = {Kind.TOOL_CALLS: 6, Kind.TURNS: 2}
    model = {"forced_choice": False, "schema": True, "schema_first": True}
    played = checked(Script(lines, limits=limits, model=model))
    assert played.end.answer.strip()


# Property test: for any tree of nested specialists, every call and every token is counted exactly once.
FAMILY = {"lead": ("left", "right"), "left": ("low", "lower"), "right": ("low",), "low": (), "lower": ()}
SLOWEST = 20
"""Maximum duration of a request or a tool call [s]."""


class Whim:
    """A model that acts at random; each run has a conversation of its own."""

    model = "whim"
    capabilities = Capabilities(forced_choice=True, max_output_tokens=64_000)

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.usage = Usage()

    def open(self, opening, watch=None) -> "Conversation":
        """Start a new conversation; it knows the specialists that it may ask."""
        delegate = opening.tools.get("delegate")
        enum = str(delegate.definition) if delegate else ""
        return Conversation(self, self._chance, [name for name in FAMILY if f"'{name}'" in enum])

    def cost(self, usage):
        """Return the cost of a request [USD]."""
        return usage.total_tokens / 100_000

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


@dataclass
class Conversation:
    """The conversation of one run with the random model."""

    whim: Whim
    chance: random.Random
    names: Sequence[str]
    first_id: int = 1

    async def ask(self, request):
        """Return a random reply, or raise a ProviderError at random."""
        chance = self.chance
        await asyncio.sleep(chance.uniform(0, SLOWEST))
        if chance.random() < 0.03:
            raise ProviderError("the server is gone")
        if request.choice is Choice.NONE or chance.random() < 0.1:
            reply = says("some words")
        elif request.choice is Choice.RESPOND or chance.random() < 0.1:
            reply = calls(("respond", {"answer": "an answer"}), first_id=self.first_id)
        else:
            wanted = [self._call() for _ in range(chance.randint(1, 4))]
            reply = calls(*wanted, first_id=self.first_id)
        self.first_id += len(reply.calls)
        self.whim.usage += reply.usage
        return reply

    def _call(self):
        if self.names and self.chance.random() < 0.5:
            return "delegate", {"specialist": self.chance.choice([*self.names, "nobody"]), "query": "What?"}
        return "look", {"query": str(self.chance.random())}


def below(children: tuple[Child, ...]) -> list[Child]:
    """Return all children of a tree, at every depth."""
    return [one for child in children for one in (child, *below(child.children))]


def unwrapped(event: Event) -> Event:
    """Return the innermost event of a forwarded event."""
    return unwrapped(event.told) if isinstance(event, ChildTold) else event


async def play_runs(
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


@pytest.mark.exhaustive
@settings(max_examples=examples(25))
@given(
    seed=st.integers(0, 2**32), limit=st.integers(0, 30), shared=st.booleans(), abort_at=st.none() | st.floats(0, 200)
)
def test_x_11_a_tree_of_runs_counts_each_call_and_token_once(seed, limit, shared, abort_at):
    """With a shared budget, all calls of the tree fit its limit and equal its `used`; usage and cost cover all runs."""
    with TemporaryDirectory() as folder:
        outcome, begun, usage = run(play_runs(Path(folder), seed, limit, shared=shared, abort_at=abort_at))
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
