"""Every kind of limit leads to a soft landing, as tool calls do."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.budget import Kind
from run_specialist.loop.run import Run
from run_specialist.providers.base import Choice
from run_specialist.providers.scripted import ScriptedProvider, calls
from run_specialist.record.events import Called, Landed
from run_specialist.record.messages import Usage
from run_specialist.tools.base import Tool
from tests.loop_jobs import Clock, job, outcome_of, results

pytestmark = pytest.mark.anyio


def look_reply(number, usage=None):
    """Make a turn of one call."""
    return replace(calls(("look", {"query": str(number)}), first_id=number), usage=usage or Usage(10, 0, 0, 5))


def answer_reply(text="the answer"):
    """Make the turn that ends a run."""
    return calls(("respond", {"answer": text}), first_id=900)


def last_lines(provider):
    """Return the last line of each result, in order, as the model saw it in the next request."""
    return [results(asked.messages[-1])[-1].splitlines()[-1] for asked in provider.requests[1:]]


def choices(provider):
    """Return what each request asked for."""
    return [asked.choice for asked in provider.requests]


async def test_x_14_turns_land_softly():
    """With 6 turns, two results have no countdown, the following ones do, and the sixth request must be answered."""
    provider = ScriptedProvider([*(look_reply(n) for n in range(1, 6)), answer_reply()])
    outcome = await outcome_of(job(provider, 30, limits={Kind.TURNS: 6}))
    assert [line.endswith("remaining") for line in last_lines(provider)] == [False, False, True, True, True]
    assert last_lines(provider)[2:] == ["3 turns remaining", "2 turns remaining", "1 turn remaining"]
    assert choices(provider) == [Choice.AUTO] * 5 + [Choice.RESPOND]
    assert (outcome.status, outcome.answer, outcome.landing.reason) == ("landed", "the answer", "turns")
    assert (outcome.limits["turns"].used, outcome.limits["turns"].limit) == (6, 6)
    assert not outcome.warnings


async def test_x_14_tokens_land_softly():
    """With 20,000 tokens, 2,400 per turn and 2,500 per reply, enough tokens are reserved for the landing."""
    provider = ScriptedProvider([*(look_reply(n, Usage(2_300, 0, 0, 100)) for n in range(1, 7)), answer_reply()])
    outcome = await outcome_of(job(provider, 30, limits={Kind.TOKENS: 20_000}))
    assert last_lines(provider)[:4] == [f"note on '{n}', part 0" for n in range(1, 5)]
    assert [line for line in last_lines(provider) if "remaining" in line] == [
        f"{left} tokens remaining" for left in ("8,000", "5,600")
    ]
    assert choices(provider) == [Choice.AUTO] * 6 + [Choice.RESPOND]
    assert (outcome.status, outcome.landing.reason) == ("landed", "tokens")
    assert outcome.limits["tokens"].used <= 20_000


async def test_x_14_cost_lands_softly():
    """With a cost limit of $0.40 and $0.03 a turn, the countdown is in dollars and the landing is paid for."""
    provider = ScriptedProvider([*(look_reply(n, Usage(2_500, 0, 0, 500)) for n in range(1, 11)), answer_reply()])
    outcome = await outcome_of(job(provider, 30, limits={Kind.COST: 0.4}))
    told = last_lines(provider)[6:]
    assert told == [f"${left:.2f} remaining" for left in (0.19, 0.16, 0.13, 0.10)]
    assert choices(provider) == [Choice.AUTO] * 10 + [Choice.RESPOND]
    assert (outcome.status, outcome.landing.reason) == ("landed", "cost")
    assert outcome.cost_usd == outcome.limits["cost"].used == pytest.approx(0.30015)


async def test_x_14_time_lands_softly():
    """With a limit of 60 s and 10 s per turn, 54 s are for work and the rest is reserved for the landing."""
    clock = Clock()

    def slowly(number):
        def reply(asked):
            clock.now += 10
            return look_reply(number)

        return reply

    provider = ScriptedProvider([*(slowly(n) for n in range(1, 7)), answer_reply()])
    outcome = await Run(job(provider, 30, limits={Kind.TIME: 60}), clock=clock).outcome()
    provider.assert_used_up()
    assert last_lines(provider)[2:] == [f"{left} seconds remaining" for left in (30, 20, 10, 0)]
    assert choices(provider) == [Choice.AUTO] * 6 + [Choice.RESPOND]
    assert (outcome.status, outcome.landing.reason, outcome.duration_s) == ("landed", "time", 60)


async def test_x_14_characters_land_softly():
    """With 100 characters and 20 per result, the first 50 have no countdown, and at 100 the run lands."""
    tool = Tool("look", "Look.", lambda query: query.rjust(20, "."))
    provider = ScriptedProvider([*(look_reply(n) for n in range(1, 6)), answer_reply()])
    outcome = await outcome_of(job(provider, 30, tools=[tool], limits={Kind.CHARACTERS: 100}))
    left = ["60 characters", "40 characters", "20 characters", "0 characters"]
    assert [line for line in last_lines(provider) if "remaining" in line] == [f"{one} remaining" for one in left[1:]]
    assert choices(provider) == [Choice.AUTO] * 5 + [Choice.RESPOND]
    assert (outcome.landing.reason, outcome.limits["characters"].used) == ("characters", 100)


async def test_a_quote_from_the_part_that_the_character_limit_cut_off_is_not_verified():
    """Evidence is checked against what the model could read: of two results of 60 characters, 100 in total."""
    quotes = [{"source": "", "quote": quote} for quote in ("first seen", "second seen", "second unseen")]
    provider = ScriptedProvider(
        [
            calls(("look", {"query": "first"}), ("look", {"query": "second"})),
            calls(("respond", {"answer": "yes", "evidence": quotes}), first_id=9),
        ]
    )

    async def note(query: str) -> str:
        return f"{query} seen".ljust(40, ".") + f"{query} unseen".rjust(20, ".")

    tool = Tool("look", "Looks.", note)
    outcome = await outcome_of(job(provider, 30, tools=[tool], limits={Kind.CHARACTERS: 100}))
    assert [quote.verified for quote in outcome.evidence] == [True, True, False]


async def test_x_14_the_countdown_shows_the_limit_closest_to_exhaustion():
    """The countdown shows the limit closest to exhaustion: first turns, then characters after one large result."""
    tool = Tool("look", "Look.", lambda query: "x" * (10 if int(query) < 4 else 900))
    provider = ScriptedProvider([*(look_reply(n) for n in range(1, 5)), answer_reply()])
    await outcome_of(job(provider, 30, tools=[tool], limits={Kind.TURNS: 6, Kind.CHARACTERS: 1_000}))
    assert last_lines(provider)[2:] == ["3 turns remaining", "70 characters remaining"]


async def test_x_14_a_hanging_model_call_is_cancelled_and_the_run_lands():
    """A hanging model call is cancelled at the end of the working time, and the run lands in the reserved time."""
    cancelled = []

    class Hanging(ScriptedProvider):
        async def ask(self, request):
            if request.choice is Choice.AUTO and len(self.requests) == 1:
                self.requests.append(None)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(len(self.requests))
                    raise
            return await super().ask(request)

    provider = Hanging([look_reply(1), answer_reply()])
    outcome = await outcome_of(job(provider, 30, limits={Kind.TIME: 0.4}))
    assert cancelled == [2]
    assert (outcome.status, outcome.answer, outcome.landing.reason) == ("landed", "the answer", "time")
    assert results(provider.requests[-1].messages[-1])[0].startswith("note on '1'")
    assert outcome.limits["turns"].used == 2


async def test_x_14_a_hanging_landing_request_is_cancelled_and_salvaged():
    """A landing request that hangs is cancelled a tenth after the limit, and the answer is salvaged."""

    class Hanging(ScriptedProvider):
        async def ask(self, request):
            if request.choice is not Choice.AUTO:
                await asyncio.Event().wait()
            return await super().ask(request)

    events = []
    provider = Hanging([look_reply(1)])
    outcome = await outcome_of(job(provider, 1, limits={Kind.TIME: 0.4}), events)
    assert (outcome.status, outcome.landing.how, outcome.exit_code) == ("partial", "salvage", 0)
    assert "note on '1'" in outcome.answer
    assert [event.how for event in events if isinstance(event, Landed)] == ["force", "salvage"]
    assert 0.4 < outcome.limits["time"].used < 60
    assert any("seconds used, more than the limit of 0.4 seconds: " in warning for warning in outcome.warnings)


async def test_x_14_a_hanging_tool_is_cancelled_at_the_end_of_the_working_time():
    """A hanging tool is cancelled at the end of the working time with an error result, and the run lands."""

    async def hang(query):
        await asyncio.Event().wait()

    events = []
    provider = ScriptedProvider([look_reply(1), answer_reply()])
    made = job(provider, 30, tools=[Tool("look", "Hang.", hang)], limits={Kind.TIME: 0.4})
    outcome = await outcome_of(made, events)
    (result,) = results(provider.requests[1].messages[-1])
    assert result.startswith("look failed: no result within 0.")
    assert "when the time of the run was up" in result
    assert [event.phase for event in events if isinstance(event, Called)][1] == "failed"
    assert (outcome.status, outcome.landing.reason, outcome.tool_calls.failed) == ("landed", "time", 1)


async def test_x_14_a_hanging_tool_is_cancelled_at_its_tool_timeout():
    """`tool_timeout` cancels a hanging tool with or without a time limit for the run."""

    async def hang(query):
        await asyncio.Event().wait()

    provider = ScriptedProvider([look_reply(1), answer_reply()])
    made = job(
        provider,
        30,
        tools=[Tool("look", "Hang.", hang)],
        tool_timeout=0.05,
        limits={Kind.TIME: 60},
    )
    outcome = await outcome_of(made)
    assert results(provider.requests[1].messages[-1]) == ["look failed: no result within 0.05 seconds"]
    assert outcome.status == "answered"


@pytest.mark.parametrize("kind", [Kind.TURNS, Kind.TOKENS, Kind.CHARACTERS, Kind.COST, Kind.TIME])
async def test_x_14_a_limit_of_0_lands_at_once(kind):
    """With a limit of 0 the first request is the landing."""
    provider = ScriptedProvider([answer_reply()])
    outcome = await Run(job(provider, 30, limits={kind: 0}), clock=lambda: 0.0).outcome()
    assert choices(provider) == [Choice.RESPOND]
    assert outcome.landing.reason == kind


async def test_x_14_exceeding_a_limit_is_a_warning_in_the_outcome():
    """If the last request exceeds a limit, the outcome reports it."""
    provider = ScriptedProvider([look_reply(1, Usage(100)), look_reply(2, Usage(9_000)), answer_reply()])
    outcome = await outcome_of(job(provider, 30, limits={Kind.TOKENS: 8_000}))
    assert outcome.landing.reason == "tokens"
    assert any("9,115 tokens used, more than the limit of 8,000 tokens: " in warning for warning in outcome.warnings)


async def test_s1_5_a_result_over_the_remaining_characters_is_cut_and_then_the_run_lands():
    """Results are cut to the remaining characters in call order and marked as cut, then the run lands."""
    tool = Tool("look", "Look.", lambda query: query * 6)
    provider = ScriptedProvider([calls(*(("look", {"query": one}) for one in "abc")), answer_reply()])
    outcome = await outcome_of(job(provider, 30, tools=[tool], augmenters=[], limits={Kind.CHARACTERS: 10}))
    assert results(provider.requests[1].messages[-1]) == ["aaaaaa", "bbbb\n[truncated]", "\n[truncated]"]
    assert choices(provider) == [Choice.AUTO, Choice.RESPOND]
    assert (outcome.limits["characters"].used, outcome.landing.reason) == (10, "characters")


async def test_characters_are_counted_after_truncation_without_added_lines():
    """Characters are counted after truncation by `tool_result_limit` and without the lines that the program adds."""
    tool = Tool("look", "Look.", lambda query: "x" * 50)
    provider = ScriptedProvider([look_reply(1), look_reply(2), answer_reply()])
    made = job(provider, 2, tools=[tool], tool_result_limit=20)
    outcome = await outcome_of(made)
    assert outcome.limits["characters"].used == 40


async def test_x_14_tokens_are_estimated_if_the_server_reports_no_usage():
    """If the server reports no usage, tokens are estimated, and the outcome warns of it once."""
    silent = [look_reply(n, Usage()) for n in range(1, 3)]
    provider = ScriptedProvider([*silent, replace(answer_reply(), usage=Usage())])
    outcome = await outcome_of(job(provider, 30, question="why? " * 1_000, limits={Kind.TOKENS: 7_500}))
    assert (outcome.status, outcome.landing.reason) == ("landed", "tokens")
    assert 3_000 < outcome.limits["tokens"].used <= 7_500
    assert outcome.warnings == ("the server reports no token usage; it is estimated",)


async def test_x_14_no_tokens_are_estimated_without_a_language_model():
    """For a provider that is not a language model no tokens are estimated, and no warning is added."""
    provider = ScriptedProvider([look_reply(1, Usage()), replace(answer_reply(), usage=Usage())])
    provider.capabilities = replace(provider.capabilities, is_language_model=False)
    outcome = await outcome_of(job(provider, 30, limits={Kind.TOKENS: 7_500}))
    assert (outcome.limits["tokens"].used, outcome.warnings) == (0, ())
