"""Every kind of limit over the wire, with usage as the API tells it: from the specialist's file to the landing."""

import json
from itertools import accumulate

import pytest

from run_specialist.errors import UsageError
from run_specialist.providers.prices import cost
from run_specialist.record.messages import Usage
from run_specialist.tools.base import Tool
from tests.wire.simulator import Gate, Model, faults, policies
from tests.wire.simulator.replies import answers, says
from tests.wire.specialists import FORCED, NO_TOOLS, Asker, batches, looks, note, noting

pytestmark = pytest.mark.anyio
DONE = answers("what was found")
LONG = Tool("look", "Looks.", lambda query: f"{note(query)} {'x' * 2_000}")
KEYS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


@pytest.fixture(params=["json", "stream"])
def ask(messages_api, tmp_path, request):
    """Ask once for whole replies and once for streamed ones."""
    return Asker(messages_api, tmp_path, stream=request.param == "stream")


@pytest.fixture
def ask_once(messages_api, tmp_path):
    """Ask for whole replies, where streaming adds nothing."""
    return Asker(messages_api, tmp_path, stream=False)


class Clock:
    """Shows the time that a test says it is."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Return that time."""
        return self.now


def used(requests):
    """Return the usage of each request as the API told it."""
    return [Usage(*(request.usage[key] for key in KEYS)) for request in requests]


def price(usage):
    """Return what one request to the model of these tests costs."""
    return cost(usage, "claude-haiku-5-5", "anthropic")


def last_lines(told):
    """Return what stands behind the raw result in each request, empty where nothing does."""
    return [results[-1].partition("\n")[2] for results in told.results]


def spent_softly(told, kind, limit, spent, line):
    """Check a run's whole course: silent to the half, then counted down after each call, landed within the limit.

    spent: what the run had spent when each result went out.
    line: writes what remains.
    """
    assert last_lines(told) == [line(limit - one) if 2 * one >= limit else "" for one in spent]
    silent = sum(2 * one < limit for one in spent)
    assert 0 < silent < len(spent)
    assert told.choices == [None] * len(spent) + [FORCED]
    assert (told.outcome.status, told.outcome.answer) == ("landed", "what was found")
    assert (told.outcome.landing.reason, told.outcome.landing.how) == (kind, "force")
    assert told.outcome.limits[kind].limit == limit
    assert told.outcome.limits[kind].used <= limit
    assert told.outcome.warnings == ()


async def test_x_14_turns_land_softly(ask):
    """Six turns: the sixth request is the landing."""
    told = await ask(policies.always_tool("look"), "turns_limit: 6")
    plural = lambda left: f"{left} turn{'' if left == 1 else 's'} remaining"  # noqa: E731 - a line of words
    spent_softly(told, "turns", 6, [1, 2, 3, 4, 5], plural)
    assert told.outcome.limits["turns"].used == 6


async def test_x_14_tokens_land_softly(ask):
    """As the API counts them, cached or not; what is held back pays for the landing, and little is left over."""
    told = await ask(policies.always_tool("look"), "total_tokens_limit: 40000", tools=[LONG])
    totals = [usage.total_tokens for usage in used(told.requests)]
    spent_softly(told, "tokens", 40_000, list(accumulate(totals[:-1])), lambda left: f"{left:,} tokens remaining")
    assert told.outcome.limits["tokens"].used == told.outcome.usage.total_tokens == sum(totals)
    # One more request of work and a landing with the longest reply would not have fitted.
    assert sum(totals[:-1]) + 2 * max(totals) + told.requests[0].body["max_tokens"] >= 40_000


async def test_x_14_cost_lands_softly(ask):
    """At the prices of the model, cache reads and writes apart; the countdown is in dollars."""
    told = await ask(policies.always_tool("look"), "cost_limit: 0.004", "tool_calls_limit: none", tools=[LONG])
    prices = [price(usage) for usage in used(told.requests)]
    spent_softly(told, "cost", 0.004, list(accumulate(prices[:-1])), lambda left: f"${left:.2g} remaining")
    assert told.outcome.cost_usd == pytest.approx(sum(prices), abs=1e-8)
    assert told.outcome.limits["cost"].used == told.outcome.cost_usd


async def test_x_14_time_lands_softly(ask):
    """A minute, nine seconds a call: a tenth is held back, and the call that reaches it is the last."""
    clock = Clock()

    def slow(query):
        clock.now += 9
        return note(query)

    tools = [Tool("look", "Takes its time.", slow)]
    told = await ask(policies.always_tool("look"), "time_limit: 1m", tools=tools, clock=clock)
    spent_softly(told, "time", 60, [9, 18, 27, 36, 45, 54], lambda left: f"{left} seconds remaining")
    assert told.outcome.duration_s == 54


async def test_x_14_characters_land_softly(ask):
    """Twenty a result of a hundred, our own words not counted."""
    tool = Tool("look", "Looks.", lambda query: query.rjust(20, "."))
    told = await ask(policies.always_tool("look"), "tool_chars_limit: 100", tools=[tool])
    spent_softly(told, "characters", 100, [20, 40, 60, 80, 100], lambda left: f"{left} characters remaining")


@pytest.mark.parametrize(
    "line",
    [
        "turns_limit: 3",
        "total_tokens_limit: 9000",
        "cost_limit: 0.0015",
        "tool_chars_limit: 4000",
        "tool_calls_limit: 2",
    ],
)
@pytest.mark.parametrize(
    ("preset", "model", "choices"),
    [
        ("soft-landing", "haiku", [FORCED]),
        ("soft-landing", "sonnet", [None]),
        ("soft-warning", "haiku", [FORCED]),
        ("finalize", "haiku", [None, None, NO_TOOLS]),
        ("budget-notice", "haiku", [FORCED]),
        ("openai-loop", "haiku", [NO_TOOLS]),
    ],
)
async def test_x_14_every_kind_lands_in_the_manner_of_the_preset(ask_once, preset, model, choices, line):
    """The landing is that of the preset whatever ran out, and no tool runs in it."""
    if model == "sonnet" and "cost" in line:
        line = "cost_limit: 0.04"
    told = await ask_once(policies.always_tool("look"), f"preset: {preset}", line, model=model, tools=[LONG])
    assert told.choices[-len(choices) :] == choices
    assert told.choices[: -len(choices)] == [None] * told.outcome.tool_calls.used
    assert told.outcome.status == "landed"
    key = line.partition("_limit")[0].removeprefix("total_").replace("tool_chars", "characters")
    assert told.outcome.landing.reason == key
    assert told.outcome.landing.requests == (2 if preset == "finalize" else 1)


@pytest.mark.parametrize("key", ["turns", "total_tokens", "cost", "tool_chars", "tool_calls"])
async def test_x_14_a_limit_of_0_lands_with_the_first_request(ask_once, key):
    """Nothing may be spent before the answer; 0 is a limit."""
    told = await ask_once([DONE], f"{key}_limit: 0", clock=Clock())
    assert told.choices == [FORCED]
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("landed", 0)


async def test_x_14_the_tightest_kind_speaks(ask_once):
    """Each result is told what is nearest to its end, and the run lands for that."""
    told = await ask_once(policies.always_tool("look"), "turns_limit: 9", "tool_calls_limit: 6")
    assert last_lines(told) == ["", "", "3 tool calls remaining", "2 tool calls remaining", *last_lines(told)[4:]]
    assert told.outcome.landing.reason == "tool_calls"
    told = await ask_once(policies.always_tool("look"), "turns_limit: 5", "tool_calls_limit: 6")
    assert last_lines(told)[2:] == ["2 turns remaining", "1 turn remaining"]
    assert told.outcome.landing.reason == "turns"


class Playing:
    """Plays replies in order, and sets a clock as each request comes in."""

    def __init__(self, clock, *moments):
        self._clock = clock
        self._moments = list(moments)

    def __call__(self, request):
        """Return the next reply."""
        self._clock.now, reply = self._moments.pop(0)
        return reply


async def test_x_14_a_server_that_hangs_is_left_and_the_run_lands(ask):
    """The request is given up when the time for work is over; the next one is the landing, with what was found."""
    clock, gate = Clock(), Gate()
    script = Playing(clock, (53.5, looks("a")), (54, faults.Hang(gate)), (54, DONE))
    told = await ask(script, "time_limit: 1m", clock=clock)
    assert gate.reached.is_set()
    assert told.choices == [None, None, FORCED]
    assert told.requests[1].messages == told.requests[2].messages
    assert next(iter(told.requests[2].results.values())).startswith(note("a"))
    assert (told.outcome.status, told.outcome.answer) == ("landed", "what was found")
    assert (told.outcome.landing.reason, told.outcome.limits["turns"].used) == ("time", 2)


async def test_x_14_a_server_that_hangs_for_ever_costs_no_more_than_what_was_held_back(ask_once):
    """At the landing nobody waits for ever either: what was gathered is the answer."""
    clock = Clock()
    script = Playing(clock, (53.5, looks("a")), (65.5, faults.Hang()), (66, faults.Hang()))
    told = await ask_once(script, "time_limit: 1m", clock=clock)
    assert told.choices == [None, None, FORCED]
    assert (told.outcome.status, told.outcome.exit_code, told.outcome.landing.how) == ("partial", 0, "salvage")
    assert note("a") in told.outcome.answer
    assert told.outcome.limits["time"].used == 66
    assert any(text.startswith("66 seconds used, over the limit of 60 seconds") for text in told.outcome.warnings)
    assert (told.outcome.landing.requests, told.outcome.landing.usage) == (0, Usage())


async def test_x_14_a_reply_that_stops_in_the_middle_is_left_too(messages_api, tmp_path):
    """Half a stream and then nothing: the same as silence."""
    clock, ask = Clock(), Asker(messages_api, tmp_path, stream=True)
    script = Playing(clock, (53.5, looks("a")), (54, looks("b", midway=Gate())), (54, DONE))
    told = await ask(script, "time_limit: 1m", clock=clock)
    assert told.choices == [None, None, FORCED]
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("landed", 1)


async def test_x_14_a_request_for_notes_that_hangs_is_left_too(ask_once):
    """Summarising has no more time than the work has; after it the run lands, and nothing was lost."""
    clock = Clock()
    notes = Playing(clock, (54, faults.Hang()), (54, says("- owls eat mice")))
    script = noting(notes, Playing(clock, (1, looks("a")), (53.5, looks("b")), (54, DONE)))
    told = await ask_once(script, "time_limit: 1m", "summarize_at: 1000", clock=clock, tools=[LONG])
    assert told.choices == [None, None, FORCED]
    assert LONG.function("b") in next(iter(told.requests[-1].results.values()))
    assert (told.outcome.status, told.outcome.landing.reason) == ("landed", "time")


async def test_x_14_a_tool_that_hangs_is_left_when_the_time_for_work_is_up(ask_once):
    """The model is told, the call was an attempt, and the run lands."""
    clock, gate = Clock(), Gate()

    def hang(query):
        clock.now = 54
        gate.opened.wait(60)

    script = Playing(clock, (53.5, looks("a")), (54, DONE))
    told = await ask_once(script, "time_limit: 1m", clock=clock, tools=[Tool("look", "Hangs.", hang)])
    gate.open()
    assert "when the time of the run was up" in told.results[0][0]
    assert told.choices == [None, FORCED]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.failed) == (1, 1)


@pytest.mark.parametrize(
    ("lines", "settings", "place"), [(["cost_limit: 0.5"], {}, r"\S+looker\.md:5:1: "), ([], {"cost_limit": 0.5}, "")]
)
async def test_x_14_a_limit_of_cost_without_a_price_is_refused_before_any_request(ask_once, lines, settings, place):
    """A limit that could not be kept is not promised: one line that says where, why and what to do."""
    why = f"^{place}cost_limit: the price of my-own-model is not known.*total_tokens_limit[^\n]*$"
    with pytest.raises(UsageError, match=why):
        await ask_once([], *lines, model="my-own-model", api={"models": ()}, **settings)
    assert ask_once.started[-1].requests == []


async def test_x_14_the_landing_tells_its_own_usage_and_cost(ask):
    """Those of its requests alone, beside the total."""
    told = await ask(policies.always_tool("look"), "tool_calls_limit: 4", tools=[LONG])
    (landing,) = used(told.requests[-1:])
    outcome = json.loads(json.dumps(told.outcome.as_json()))
    assert outcome["landing"]["usage"] == {key: told.requests[-1].usage[key] for key in KEYS}
    assert outcome["landing"]["cost_usd"] == pytest.approx(price(landing), abs=1e-8)
    assert told.outcome.usage == sum(used(told.requests), Usage())
    assert outcome["cost_usd"] == pytest.approx(sum(map(price, used(told.requests))), abs=1e-8)


async def test_x_14_a_landing_of_several_requests_tells_the_sum(ask_once):
    """Force, order and none, all ignored: three requests, what each cost, and none of the calls run."""
    told = await ask_once(policies.ignores_everything("look"), "tool_calls_limit: 2", tools=[LONG])
    rungs = used(told.requests[2:])
    assert told.outcome.landing.requests == len(rungs) == 3
    assert told.outcome.landing.usage == sum(rungs, Usage())
    assert told.outcome.landing.cost_usd == pytest.approx(sum(map(price, rungs)), abs=1e-8)


async def test_x_14_a_request_that_was_refused_costs_nothing(ask_once):
    """A 400 on forcing is no answered request: neither counted nor billed."""
    refusal = faults.invalid('tool_choice: type "tool" and "any" are not supported for this model.')
    told = await ask_once([*batches(1), refusal, DONE], "tool_calls_limit: 1", tools=[LONG])
    assert told.outcome.landing.requests == 1
    assert told.outcome.landing.usage == used(told.requests[2:])[0]
    assert told.outcome.limits["turns"].used == 2


async def test_x_14_without_a_price_the_cost_is_unknown_and_never_0(ask_once):
    """A model that is not on the price list: null in the total and for the landing, usage all the same."""
    own = Model("my-own-model")
    told = await ask_once(policies.always_tool("look"), "tool_calls_limit: 1", model=own.id, api={"models": (own,)})
    assert (told.outcome.cost_usd, told.outcome.landing.cost_usd) == (None, None)
    assert told.outcome.limits["cost"].used is None
    assert told.outcome.landing.usage.total_tokens > 0


async def test_x_14_what_went_over_a_limit_is_told(ask_once):
    """A reply that took more than anybody could know: it is in `limits`, and a warning says so."""
    huge = {"input_tokens": 50_000, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    told = await ask_once([looks("a", usage=huge), DONE], "total_tokens_limit: 30000")
    assert told.choices == [None, FORCED]
    assert told.outcome.limits["tokens"].used > 50_000
    assert any(" tokens used, over the limit of 30,000 tokens: " in warning for warning in told.outcome.warnings)
    assert told.outcome.status == "landed"
