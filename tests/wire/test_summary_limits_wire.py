"""Summarizing over the wire: its target, its chunks, and its cost."""

import asyncio
from itertools import count

import pytest

from run_specialist.record.messages import Usage
from run_specialist.tools.base import Tool
from tests.wire.simulator import Gate, faults, policies
from tests.wire.simulator.replies import says, thinking
from tests.wire.specialists import DONE, FORCED, batches, for_summary, looks, note, noting, texts
from tests.wire.summary_scripts import LONG, NOTES, SMALL, estimate, first_id, ids, reading
from tests.wire.usage import price, used

pytestmark = pytest.mark.anyio


async def test_s2_10_each_pass_has_one_event_with_its_usage(ask):
    """Each pass has one event with summary, count, tokens before and after, usage and cost.

    Usage and cost are part of the run's total; the requests are not counted as turns.
    """
    told = await ask(noting(NOTES, [*batches(1, 1, 1, 1, 1), DONE]), *SMALL, tools=[LONG])
    outcome, asked = told.outcome, [request for request in told.api.requests if for_summary(request)]
    passes = [(told.named("summarized")[0], 2, asked[:2]), (told.named("summarized")[1], 4, asked[2:])]
    assert len(told.named("summarized")) == 2
    for event, number, requests in passes:
        assert event.archived == 2
        assert event.tokens_before == estimate(told.requests[number], told.results[number]) > 12_000
        assert event.tokens_after < 12_000 / 2
        assert len(requests) == 2
        assert event.usage == sum(used(requests), Usage())
        assert event.cost_usd == pytest.approx(sum(map(price, used(requests))))
    everything = used(told.api.requests)
    assert outcome.usage == sum(everything, Usage())
    assert outcome.cost_usd == pytest.approx(sum(map(price, everything)))
    assert outcome.limits["tokens"].used == outcome.usage.total_tokens
    assert outcome.limits["turns"].used == len(told.requests) == 6
    assert outcome.warnings == ()


async def test_s2_10_the_preset_summarises_above_150_000_tokens(ask_once):
    """The preset summarises above 150,000 tokens: not at exactly that, but at one more."""
    for more, passes in ((0, 0), (1, 1)):
        usage = {"input_tokens": 150_000 - 10 - 2 + more, "output_tokens": 10}
        usage |= {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        tool = Tool("look", "Looks.", lambda query: "12345678")
        script = noting(NOTES, [looks("a"), looks("b", usage=usage), DONE])
        told = await ask_once(script, "preset: finalize", tools=[tool])
        assert len(told.named("summarized")) == passes


async def test_s2_10_missing_the_target_causes_one_warning(ask_once):
    """If the newest turn alone exceeds `context_target`, the run continues and the outcome has one warning."""
    script = noting(NOTES, [*batches(1, 1, 1, 1), DONE])
    lines = ("preset: finalize", "summarize_at: 2000", "context_target: 100")
    told = await ask_once(script, *lines, tools=[LONG])
    assert told.outcome.status == "answered"
    assert len([text for text in told.outcome.warnings if text.endswith("context_target is 100")]) == 1


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("fault", [faults.server_error(), says(""), says(thinking("hm")), faults.ConnectionReset()])
async def test_s2_7_a_failed_summary_leaves_a_marker(ask_once, fault):
    """A failed summary leaves a marker with the call and the reason, and the run continues with a warning.

    The output can still be read by its id.
    """
    replies = iter([NOTES, fault])
    script = noting(lambda request: next(replies), reading(first_id, [0], noted=False))
    told = await ask_once(script, *SMALL, tools=[LONG])
    (event,) = told.named("summarized")
    assert "- owls eat mice (n.md:1)" in event.summary
    (marker,) = [line for line in event.summary.splitlines() if line.startswith("[not summarised: look (")]
    assert sum(ids(request)[0] in marker for request in told.requests[:2]) == 1
    assert event.summary in [text for message in told.requests[-1].messages for text in texts(message)]
    assert any("could not be summarized" in text for text in told.outcome.warnings)
    assert told.results[-1][0].startswith(LONG.function("1.0"))
    assert told.outcome.status == "answered"


async def test_s2_7_a_large_batch_is_summarized_in_chunks(ask_once):
    """A batch too large for one request is split into several, with each call and its result in exactly one.

    Their notes become one summary.
    """
    numbers = count(1)
    script = noting(lambda request: says(f"notes {next(numbers)}"), [looks(*"abcd"), looks("e"), DONE])
    told = await ask_once(script, "preset: finalize", "summarize_at: 20000", tools=[LONG])
    asked = [texts(request.messages[0])[0] for request in told.api.requests if for_summary(request)]
    (event,) = told.named("summarized")
    assert len(asked) == 2
    for query, call_id in zip("abcd", ids(told.requests[0]), strict=True):
        (whole,) = [text for text in asked if LONG.function(query) in text]
        assert f'"id":"{call_id}"' in whole
        assert sum(call_id in text for text in asked) == 1
    assert all(f"notes {number}" in event.summary for number in (1, 2))


async def test_s2_7_long_notes_are_merged_until_they_fit(ask_once):
    """Notes longer than `summary_limit` are merged by further requests until they fit."""

    def noter(request):
        merging = "<notes>" in texts(request.messages[0])[0]
        return says("all in one") if merging else says("much " * 200)

    script = noting(noter, [*batches(1, 1, 1), DONE])
    told = await ask_once(script, *SMALL, "summary_limit: 300", tools=[LONG])
    (event,) = told.named("summarized")
    assert event.summary == "all in one"
    assert event.usage == sum(used(request for request in told.api.requests if for_summary(request)), Usage())


async def test_s2_10_summarising_at_the_limit_comes_before_the_landing(ask):
    """At a limit, summarising comes before the landing request, which is still forced.

    The landing's usage includes both.
    """
    script = noting(NOTES, policies.always_tool("look"))
    told = await ask(script, "summarize_at: 12000", "tool_calls_limit: 3", tools=[LONG])
    assert told.choices == [None] * 3 + [FORCED]
    order = [event.event for event in told.events if event.event in ("landing", "summarized")]
    assert order == ["landing", "summarized"]
    assert "SUMMARIZED" in str(told.requests[-1].messages)
    assert told.requests[-1].last_line == "0 tool calls remaining"
    assert (told.outcome.status, told.outcome.landing.requests) == ("landed", 1)
    paid = used(told.api.requests[3:])
    assert told.outcome.landing.usage == sum(paid, Usage())
    assert told.outcome.landing.cost_usd == pytest.approx(sum(map(price, paid)))


async def test_x_14_a_pass_that_spends_the_budget_is_followed_by_the_landing(ask_once):
    """If a summarising pass leaves budget for the landing only, the landing comes next."""
    script = noting(NOTES, policies.always_tool("look"))
    told = await ask_once(script, "summarize_at: 12000", "total_tokens_limit: 44000", tools=[LONG])
    order = [event.event for event in told.events if event.event in ("request", "summarized", "landing")]
    assert order == ["request"] * 3 + ["summarized", "landing", "request"]
    assert told.choices == [None] * 3 + [FORCED]
    assert (told.outcome.landing.reason, told.outcome.warnings) == ("tokens", ())
    assert told.outcome.landing.usage == used(told.requests[-1:])[0]
    assert told.outcome.limits["tokens"].used <= 44_000


async def test_s3_6_an_abort_during_a_summary_keeps_the_findings(ask_once):
    """An abort during a summary request gives status aborted and keeps the findings."""
    gate = Gate()
    script = noting(says("late", gate=gate), batches(1, 1, 1))
    async with ask_once.prepared(script, *SMALL, tools=[LONG]) as told:
        task = asyncio.create_task(told.run.outcome())
        await asyncio.to_thread(gate.wait_for_request)
        told.run.abort()
        outcome = await task
    assert (outcome.status, outcome.tool_calls.used) == ("aborted", 3)
    assert all(note(f"{turn}.0") in outcome.answer for turn in (1, 2, 3))
