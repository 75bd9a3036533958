"""Every kind of limit over the wire, from the specialist's file to the landing."""

from itertools import accumulate

import pytest

from run_specialist.tools.base import Tool
from tests.wire.limited_runs import LONG, Clock
from tests.wire.simulator import policies
from tests.wire.specialists import DONE, FORCED, NO_TOOLS, note
from tests.wire.usage import price, used

pytestmark = pytest.mark.anyio


def last_lines(told):
    """Return the text after the raw result in each request, empty if there is none."""
    return [results[-1].partition("\n")[2] for results in told.results]


def spent_softly(told, kind, limit, spent, line):
    """Check a soft landing: no countdown until half of the limit, then one after each call, then an answer within it.

    spent: Amounts that the run had spent when each result was sent.
    line: Returns the countdown for a remaining amount.
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


async def test_x_14_tokens_land_softly(ask):
    """Tokens are counted as the API does, cached or not; the reserve pays for the landing, and little is left."""
    told = await ask(policies.always_tool("look"), "total_tokens_limit: 40000", tools=[LONG])
    totals = [usage.total_tokens for usage in used(told.requests)]
    spent_softly(told, "tokens", 40_000, list(accumulate(totals[:-1])), lambda left: f"{left:,} tokens remaining")
    assert told.outcome.limits["tokens"].used == told.outcome.usage.total_tokens == sum(totals)
    # One more working request and a landing with the longest reply would have exceeded the limit.
    assert sum(totals[:-1]) + 2 * max(totals) + told.requests[0].body["max_tokens"] >= 40_000


async def test_x_14_cost_lands_softly(ask):
    """Cost uses the model's prices, with separate ones for cache reads and writes; the countdown is in dollars."""
    told = await ask(policies.always_tool("look"), "cost_limit: 0.004", "tool_calls_limit: none", tools=[LONG])
    prices = [price(usage) for usage in used(told.requests)]
    spent_softly(told, "cost", 0.004, list(accumulate(prices[:-1])), lambda left: f"${left:.2g} remaining")
    assert told.outcome.cost_usd == pytest.approx(sum(prices), abs=1e-8)
    assert told.outcome.limits["cost"].used == told.outcome.cost_usd


async def test_x_14_time_lands_softly(ask):
    """With a limit of 60 s and 9 s a call, a tenth is held in reserve; the call that reaches it is the last."""
    clock = Clock()

    def slow(query):
        clock.now += 9
        return note(query)

    tools = [Tool("look", "Takes its time.", slow)]
    told = await ask(policies.always_tool("look"), "time_limit: 1m", tools=tools, clock=clock)
    spent_softly(told, "time", 60, [9, 18, 27, 36, 45, 54], lambda left: f"{left} seconds remaining")
    assert told.outcome.duration_s == 54


async def test_x_14_characters_land_softly(ask):
    """With a limit of 100 characters and 20 per result, text added by the runner is not counted."""
    tool = Tool("look", "Looks.", lambda query: query.rjust(20, "."))
    told = await ask(policies.always_tool("look"), "tool_chars_limit: 100", tools=[tool])
    spent_softly(told, "characters", 100, [20, 40, 60, 80, 100], lambda left: f"{left} characters remaining")


@pytest.mark.exhaustive(one_in=7)
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
async def test_x_14_every_kind_of_limit_lands_as_the_preset_defines(ask_once, preset, model, choices, line):
    """Every kind of limit lands as the preset defines, and no tool is run in the landing."""
    if model == "sonnet" and "cost" in line:
        line = "cost_limit: 0.04"
    told = await ask_once(policies.always_tool("look"), f"preset: {preset}", line, model=model, tools=[LONG])
    assert told.choices[-len(choices) :] == choices
    assert told.choices[: -len(choices)] == [None] * told.outcome.tool_calls.used
    assert told.outcome.status == "landed"
    key = line.partition("_limit")[0].removeprefix("total_").replace("tool_chars", "characters")
    assert told.outcome.landing.reason == key
    assert told.outcome.landing.requests == (2 if preset == "finalize" else 1)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("key", ["turns", "total_tokens", "cost", "tool_chars", "tool_calls"])
async def test_x_14_a_limit_of_0_lands_with_the_first_request(ask_once, key):
    """A limit of 0 is a limit: the first request is the landing."""
    told = await ask_once([DONE], f"{key}_limit: 0", clock=Clock())
    assert told.choices == [FORCED]
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("landed", 0)


async def test_x_14_the_countdown_shows_the_limit_closest_to_exhaustion(ask_once):
    """The countdown shows the limit closest to exhaustion, and the run lands because of that limit."""
    told = await ask_once(policies.always_tool("look"), "turns_limit: 9", "tool_calls_limit: 6")
    assert last_lines(told) == ["", "", "3 tool calls remaining", "2 tool calls remaining", *last_lines(told)[4:]]
    assert told.outcome.landing.reason == "tool_calls"
    told = await ask_once(policies.always_tool("look"), "turns_limit: 5", "tool_calls_limit: 6")
    assert last_lines(told)[2:] == ["2 turns remaining", "1 turn remaining"]
    assert told.outcome.landing.reason == "turns"
