"""Every kind of limit leads to a soft landing, as tool calls do."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.budget import Kind
from run_specialist.record.messages import Usage
from run_specialist.tools.base import Tool
from tests.loop_jobs import job, outcome_of, results
from tests.scripted_provider import ScriptedProvider, calls

pytestmark = pytest.mark.anyio


def look_reply(number, usage=None):
    """Make a turn of one call."""
    return replace(calls(("look", {"query": str(number)}), first_id=number), usage=usage or Usage(10, 0, 0, 5))


def answer_reply(text="the answer"):
    """Make the turn that ends a run."""
    return calls(("respond", {"answer": text}), first_id=900)


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
