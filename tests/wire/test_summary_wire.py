"""Summarizing over the wire: when it happens, and the transcript sent afterwards."""

from itertools import count

import pytest

from run_specialist.tools.base import Tool
from tests.wire.simulator.replies import says, thinking, tool_use
from tests.wire.specialists import DONE, batches, for_summary, looks, noting, texts
from tests.wire.summary_scripts import LONG, NOTES, SMALL, estimate, ids, summarized

pytestmark = pytest.mark.anyio


TOLD = {"input_tokens": 700, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 50, "output_tokens": 50}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("length", "more"), [(8, 2), (9, 3), (12, 3), (0, 3)])
@pytest.mark.parametrize("over", [0, 1])
async def test_s2_6_a_size_equal_to_summarize_at_triggers_no_summary(ask_once, length, more, over):
    """The size is the last reply's input and output, plus a quarter of the characters since, rounded up.

    A size equal to `summarize_at` does not trigger a summary.
    """
    # An empty output is sent as `(no output)`, eleven characters.
    found = iter(["first", "y" * length])
    tool = Tool("look", "Looks.", lambda query: next(found))
    script = noting(NOTES, [looks("a"), looks("b", usage=TOLD), DONE])
    told = await ask_once(script, "preset: finalize", f"summarize_at: {1_000 + more - over}", tools=[tool])
    assert len(told.named("summarized")) == over
    assert [event.tokens_before for event in told.named("summarized")] == [1_000 + more] * over
    assert [for_summary(request) for request in told.api.requests] == [False, False, *[True] * over, False]


async def test_s2_6_summarizing_precedes_each_request_over_the_limit(ask):
    """Summarising comes before each request that would exceed the limit, and before no other."""
    script = noting(NOTES, [*batches(1, 1, 1, 1, 1), DONE])
    told = await ask(script, *SMALL, tools=[LONG])
    order = [event.event for event in told.events if event.event in ("request", "summarized")]
    assert order == ["request"] * 3 + ["summarized", "request", "request", "summarized", "request"]
    sizes = [estimate(request, results) for request, results in zip(told.requests, told.results, strict=False)]
    assert [size > 12_000 for size in sizes] == [False, False, True, False, True]
    assert told.outcome.answer == "what was found"


async def test_s2_8_s2_9_the_summary_is_a_call_and_its_result_before_the_newest_turn(ask):
    """The summary is a call and its result before the newest turn; question and newest turn are unchanged.

    Older outputs are replaced by their ids.
    """
    script = noting(NOTES, [says("I look.", *looks("a", "b").content), looks("c"), looks("d"), DONE])
    told = await ask(script, *SMALL, tools=[LONG])
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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("model", ["sonnet", "haiku"])
async def test_s2_9_with_thinking_the_history_becomes_one_message(ask, model):
    """Where thinking is bound to the history, question, summary, calls and newest turn become one message.

    No thinking is replayed.
    """
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


async def test_s2_9_a_second_summary_includes_the_first(ask_once):
    """After two passes the history has one summary, which includes the first one's notes."""
    numbers = count(1)
    script = noting(lambda request: says(f"notes {next(numbers)}"), [*batches(1, 1, 1, 1, 1), DONE])
    told = await ask_once(script, *SMALL, tools=[LONG])
    first, second = told.named("summarized")
    assert [f"notes {number}" in first.summary for number in (1, 2, 3, 4)] == [True, True, False, False]
    assert all(f"notes {number}" in second.summary for number in (1, 2, 3, 4))
    last = told.requests[-1]
    results = [block for message in last.messages for block in message["content"] if block["type"] == "tool_result"]
    named = [block["name"] for message in last.messages for block in message["content"] if block["type"] == "tool_use"]
    assert named == ["look"] * 4 + ["context_summarize", "look"]
    assert [block["content"] for block in results[4:]] == [second.summary, LONG.function("5.0")]
