"""Summarizing over the wire: when it happens, its cost, the transcript and the archive afterwards, full contexts."""

import asyncio
from itertools import count

import pytest

from run_specialist.loop.transcript import FEW_CHARACTERS
from run_specialist.record.messages import Usage
from run_specialist.tools.base import Tool
from tests.wire.simulator import Gate, faults, policies
from tests.wire.simulator.replies import says, thinking, tool_use
from tests.wire.specialists import DONE, FORCED, batches, for_summary, looks, note, noting, texts
from tests.wire.summary_scripts import LONG, NOTES, SMALL, estimate, first_id, ids, reading, summarized
from tests.wire.usage import price, used

TOLD = {"input_tokens": 700, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 50, "output_tokens": 50}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("length", "more"), [(8, 2), (9, 3), (12, 3), (0, 3)])
@pytest.mark.parametrize("over", [0, 1])
async def test_s2_6_a_size_equal_to_summarize_at_triggers_no_summary(ask_once, length, more, over):
    """A size, the last usage plus a quarter of the characters since, equal to `summarize_at` triggers no summary."""
    # An empty output is sent as `(no output)`, eleven characters.
    found = iter(["first", "y" * length])
    tool = Tool("look", "Looks.", lambda query: next(found))
    script = noting(NOTES, [looks("a"), looks("b", usage=TOLD), DONE])
    told = await ask_once(script, "preset: finalize", f"summarize_at: {1_000 + more - over}", tools=[tool])
    assert len(told.named("summarized")) == over
    assert [event.tokens_before for event in told.named("summarized")] == [1_000 + more] * over
    assert [for_summary(request) for request in told.api.requests] == [False, False, *[True] * over, False]


async def test_s2_8_s2_9_the_summary_is_a_call_and_its_result_before_the_newest_turn(ask_once):
    """The summary is a call and its result before the unchanged newest turn; older outputs become their ids."""
    script = noting(NOTES, [says("I look.", *looks("a", "b").content), looks("c"), looks("d"), DONE])
    told = await ask_once(script, *SMALL, tools=[LONG])
    (event,) = told.named("summarized")
    _, before, after, later = told.requests
    assert after.messages[0] == before.messages[0]
    first, second = ids(told.requests[0])
    assert texts(after.messages[1]) == ["I look."]
    assert [block["id"] for block in after.messages[1]["content"][1:]] == [first, second]
    assert texts(after.messages[2]) == [summarized(first), summarized(second)]
    (call,) = after.messages[3]["content"]
    (result,) = after.messages[4]["content"]
    assert (call["name"], result["tool_use_id"]) == ("context_summarize", call["id"])
    assert result["content"] == event.summary
    assert "- owls eat mice (n.md:1)" in event.summary
    assert texts(after.messages[6]) == [LONG.function("c")]
    assert len(after.messages) == 7
    assert all(after.body[part] == before.body[part] for part in ("system", "tools"))
    # From here on the summary is history, and history is append-only.
    assert later.messages[:7] == after.messages


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["sonnet", "haiku"])
async def test_s2_9_with_thinking_the_history_becomes_one_message(ask, model):
    """Where thinking is bound to the history, all of it becomes one message, and no thinking is replayed."""
    wishes = [says(thinking("hm"), tool_use("look", {"query": one})) for one in "abcd"]
    told = await ask(noting(NOTES, [*wishes, DONE]), *SMALL, tools=[LONG], model=model, question="What do owls eat?")
    bound, later = told.requests[3:]
    (message,) = bound.messages
    assert message["role"] == "user"
    question, *said = texts(message)
    whole = "\n".join(said)
    assert question == "What do owls eat?"
    assert "- owls eat mice (n.md:1)" in whole
    for query, request in zip("ab", told.requests, strict=False):
        assert f'look {{"query":"{query}"}} -> {summarized(ids(request)[0])}' in whole.splitlines()
        assert LONG.function(query) not in whole
    assert LONG.function("c") in whole.splitlines()
    assert "hm" not in whole.split()
    # Later messages are appended, with their thinking.
    assert later.messages[0] == message
    assert [block["type"] for block in later.messages[1]["content"]] == ["thinking", "tool_use"]
    assert told.outcome.status == "answered"


async def test_s2_6_s2_9_s2_10_two_passes_before_the_requests_over_the_limit(ask):
    """Each pass precedes a request over the limit and is one event with its cost; the second includes the first."""
    numbers = count(1)
    script = noting(lambda request: says(f"notes {next(numbers)}"), [*batches(1, 1, 1, 1, 1), DONE])
    told = await ask(script, *SMALL, tools=[LONG])
    order = [event.event for event in told.events if event.event in ("request", "summarized")]
    assert order == ["request"] * 3 + ["summarized", "request", "request", "summarized", "request"]
    sizes = [estimate(request, results) for request, results in zip(told.requests, told.results, strict=False)]
    assert [size > 12_000 for size in sizes] == [False, False, True, False, True]
    first, second = told.named("summarized")
    assert [f"notes {number}" in first.summary for number in (1, 2, 3, 4)] == [True, True, False, False]
    assert all(f"notes {number}" in second.summary for number in (1, 2, 3, 4))
    blocks = [block for message in told.requests[-1].messages for block in message["content"]]
    named = [block["name"] for block in blocks if block["type"] == "tool_use"]
    assert named == ["look"] * 4 + ["context_summarize", "look"]
    results = [block["content"] for block in blocks if block["type"] == "tool_result"]
    assert results[4:] == [second.summary, LONG.function("5.0")]
    outcome, asked = told.outcome, [request for request in told.api.requests if for_summary(request)]
    for event, number, requests in ((first, 2, asked[:2]), (second, 4, asked[2:])):
        assert (event.archived, event.tokens_before, len(requests)) == (2, sizes[number], 2)
        assert event.tokens_after < 12_000 / 2
        assert event.usage == sum(used(requests), Usage())
        assert event.cost_usd == pytest.approx(sum(map(price, used(requests))))
    everything = used(told.api.requests)
    assert (outcome.answer, outcome.usage) == ("what was found", sum(everything, Usage()))
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
    """A failed summary leaves a marker with call and reason and a warning; the output can still be read by its id."""
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
    """A batch too large for one request is split, each call with its result in one part; the notes become one."""
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


async def test_s2_10_summarising_at_the_limit_comes_before_the_landing(ask_once):
    """At a limit, summarising comes before the landing request, which is forced; the landing's usage includes both."""
    script = noting(NOTES, policies.always_tool("look"))
    told = await ask_once(script, "summarize_at: 12000", "tool_calls_limit: 3", tools=[LONG])
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


async def test_s2_8_an_archived_output_is_read_in_exact_slices(ask_once):
    """An archived output is read in exact slices of up to `tool_result_limit`, by counted calls, with next offsets."""
    whole = "".join(f"{number:04}," for number in range(10_000))
    tool = Tool("look", "Looks.", lambda query: whole)
    told = await ask_once(reading(first_id, [0, 20_000, 40_000]), *SMALL, "tool_calls_limit: none", tools=[tool])
    assert all("get_tool_response" in request.tool_names for request in told.requests)
    call_id = ids(told.requests[0])[0]
    # A cut output says how to read the rest; the id is that of its call.
    said = f"read on by get_tool_response with execution_id={call_id} and offset=20000"
    assert told.results[0] == [f"{whole[:20_000]}\n[truncated]\n[cut at 20000 of 50000 characters; {said}]"]
    assert summarized(call_id) in texts(told.requests[3].messages[2])
    assert [results[0] for results in told.results[3:]] == [
        f"{whole[:20_000]}\n[characters 0-20000 of 50000; go on with offset=20000]",
        f"{whole[20_000:40_000]}\n[characters 20000-40000 of 50000; go on with offset=40000]",
        f"{whole[40_000:]}\n[characters 40000-50000 of 50000; this is the end]",
    ]
    assert told.outcome.tool_calls.used == 6
    assert told.outcome.limits["characters"].used == 5 * 20_000 + 10_000


async def test_s2_8_the_result_limit_applies_to_slices(ask_once):
    """The file's `tool_result_limit` applies to results and slices, so no slice is cut."""
    tool = Tool("look", "Looks.", lambda query: "0123456789" * 250)
    lines = ("preset: finalize", "tool_result_limit: 1000")
    told = await ask_once(reading(first_id, [2, 1_500]), *lines, tools=[tool])
    assert [results[0] for results in told.results[3:]] == [
        f"{('0123456789' * 101)[2:1_002]}\n[characters 2-1002 of 2500; go on with offset=1002]",
        f"{'0123456789' * 100}\n[characters 1500-2500 of 2500; this is the end]",
    ]


@pytest.mark.parametrize(
    ("execution_id", "offset", "why"),
    [
        ("toolu_nobody", 0, "there is no output of the id 'toolu_nobody'; there are "),
        (None, 9_999_999, "offset 9999999 is beyond the end"),
        (None, -1, "offset"),
    ],
)
async def test_s2_8_an_unknown_id_or_offset_is_an_error_result(ask_once, execution_id, offset, why):
    """An unknown id or an offset out of range gives an error result, and the run continues."""
    script = reading(lambda request: execution_id or first_id(request), [offset or 0])
    told = await ask_once(script, *SMALL, tools=[LONG])
    (block,) = told.requests[-1].messages[-1]["content"]
    assert block["is_error"] is True
    assert block["content"].startswith("get_tool_response failed: ")
    assert why in block["content"]
    assert (told.outcome.status, told.outcome.tool_calls.failed) == ("answered", 1)


TOO_LONG = faults.invalid("prompt is too long: 1000015 tokens > 1000000 maximum")
FULL = says("half", stop_reason="model_context_window_exceeded")
FULL_CALL = says(tool_use("look", {}), stop_reason="model_context_window_exceeded")


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("full", [TOO_LONG, FULL, FULL_CALL], ids=["400", "text cut", "call cut"])
@pytest.mark.parametrize(("model", "choice"), [("haiku", FORCED), ("sonnet", None)])
async def test_x_8_a_full_context_lands_from_a_summary(ask, full, model, choice):
    """In the default preset too, older turns are summarised immediately, and the next request is the landing."""
    script = noting(NOTES, [*batches(1, 1, 1), full, DONE])
    told = await ask(script, tools=[LONG], model=model)
    assert told.choices == [None] * 4 + [choice]
    assert len(told.named("summarized")) == 1
    assert "- owls eat mice (n.md:1)" in str(told.requests[-1].messages)
    assert LONG.function("3.0") in str(told.requests[-1].messages)
    assert LONG.function("1.0") not in str(told.requests[-1].messages)
    if choice is None:
        assert "only a call of `respond` will be heard" in told.requests[-1].last_line
    assert (told.outcome.status, told.outcome.answer) == ("landed", "what was found")
    assert (told.outcome.landing.reason, told.outcome.landing.requests) == ("tokens", 1)
    assert told.outcome.tool_calls.used == 3


@pytest.mark.parametrize("full", [TOO_LONG, FULL_CALL], ids=["400", "call cut"])
async def test_x_8_a_context_that_is_full_again_is_salvaged(ask_once, full):
    """After one summary and one cut of the newest results, the run ends as partial with the gathered results."""
    told = await ask_once(noting(NOTES, [*batches(1, 1), full, full, full]), tools=[LONG])
    assert (told.outcome.status, told.outcome.exit_code) == ("partial", 0)
    assert note("2.0") in told.outcome.answer


@pytest.mark.parametrize("full", [TOO_LONG, FULL_CALL], ids=["400", "call cut"])
async def test_x_8_a_context_filled_by_one_turn_lands_from_cut_results(ask_once, full):
    """The newest turn is never summarised; its long results, refused and so not yet history, are cut."""
    told = await ask_once([looks("a"), full, DONE], tools=[LONG])
    assert not told.named("summarized")
    (whole,), (cut,) = told.requests[1].results.values(), told.requests[2].results.values()
    assert len(whole) > FEW_CHARACTERS
    assert cut == f"{whole[:FEW_CHARACTERS]}\n[truncated]"
    assert (told.outcome.status, told.outcome.landing.reason) == ("landed", "tokens")


async def test_x_8_a_context_full_at_the_first_request_is_a_failure(ask_once):
    """With nothing gathered and nothing to cut, the run fails with exit code 3, as for a provider error."""
    told = await ask_once([TOO_LONG])
    assert (told.outcome.status, told.outcome.exit_code, told.outcome.answer) == ("failed", 3, "")
    assert told.outcome.error_kind == "context_exceeded"
    assert told.outcome.error.endswith("the model's context is full; ask for less, or let it read less")
