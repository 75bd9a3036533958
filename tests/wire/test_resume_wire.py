"""A run that is resumed with a new limit or question: each request begins with the bytes sent before."""

import pytest

from run_specialist.tools.base import Tool
from tests.journals import load
from tests.wire.connected import MESSAGES
from tests.wire.resumed_requests import LOOKER, Endpoint, check_continued, look, resume_note
from tests.wire.simulator import faults, replies
from tests.wire.specialists import noting

REFRESHED = "The budget was refreshed: you now have"


@pytest.fixture(params=["json", "stream"])
def messages_endpoint(request, messages_api, tmp_path):
    """Return a function that starts an endpoint on the Messages API, with and without streaming."""

    def start(script, **options):
        return Endpoint(MESSAGES, messages_api(script), tmp_path, request.param == "stream", **options)

    return start


@pytest.mark.exhaustive
@pytest.mark.parametrize("landing", ["auto", "order", "none"])
async def test_s4_5_a_resumed_request_begins_with_all_bytes_sent_before(endpoint, landing):
    """After a landing of any kind at N=3, then 6, a resumed request has the bytes sent before, then the new budget."""
    end = "says" if landing == "none" else "answers"
    one = endpoint(
        lambda say: [*(look(say, q) for q in "abc"), getattr(say, end)("some"), look(say, "d"), say.answers("more")]
    )
    await one.ask(tool_calls_limit=3, landing=landing)
    _, outcome = await one.resume(tool_calls_limit=6)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "more", 4)
    check_continued(one, one.requests[3], one.requests[4])
    assert f"{REFRESHED} 6 tool calls in all, of which 3 are used, so 3 tool calls remain." in resume_note(
        one.requests[4]
    )
    assert one.requests[4].messages[-1]["role"] == "user"
    for before, after in zip(one.requests[4:], one.requests[5:], strict=False):
        check_continued(one, before, after)


@pytest.mark.exhaustive(one_in=4)
async def test_s4_2_earlier_limit_fields_stay_in_the_history(endpoint):
    """The limit fields in an earlier result stay in the history; the new budget says that they no longer apply."""
    one = endpoint(lambda say: [look(say, "a"), look(say, "b"), say.says("some"), look(say, "c"), say.says("more")])
    await one.ask(preset="openai-loop", tool_calls_limit=2)
    _, outcome = await one.resume(tool_calls_limit=4)
    check_continued(one, one.requests[2], one.requests[3])
    assert "limits that are reached" in resume_note(one.requests[3])
    results = one.requests[4].results
    last = list(results.values())[-1] if one.kind == MESSAGES else results[-1]
    assert last == "note on 'c', part 0"
    assert outcome.status == "answered"


@pytest.mark.exhaustive
@pytest.mark.parametrize("model", ["sonnet", "haiku"])
async def test_x_9_thinking_goes_back_byte_for_byte(messages_endpoint, model):
    """Thinking is replayed byte for byte, within the tool loop and after it: its signature still matches."""
    thinks = [
        replies.says(
            replies.thinking(f"hm {q}, é"),
            replies.redacted_thinking(q),
            "I look.",
            replies.tool_use("look", {"query": q}),
        )
        for q in "abc"
    ]
    ends = replies.says(replies.thinking("so"), replies.respond("some"))
    one = messages_endpoint([thinks[0], ends, thinks[1], faults.overloaded(), thinks[2], ends], model=model)
    await one.ask(tool_calls_limit=1)
    _, failed = await one.resume(tool_calls_limit=9)
    assert failed.status == "failed"
    _, outcome = await one.resume("And?")
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 3)
    for before, after in zip(one.accepted, one.accepted[1:], strict=False):
        check_continued(one, before, after)


@pytest.mark.exhaustive
async def test_a_resumed_run_keeps_the_summary_and_the_archive(messages_endpoint):
    """A resumed run keeps the summary, and archived outputs can still be read by id, word for word."""
    long = Tool("look", "Looks.", lambda query="": f"note on {query} {'x' * 19_000}")
    small = LOOKER.model_copy(update={"summarize_at": 12_000})
    script = iter([*(look(replies, q) for q in "abc"), replies.answers("some")])
    ids = []

    def play(request):
        reply = next(script, None)
        if reply is not None:
            return reply
        if not ids:
            ids.append(one.requests[0].content[0]["id"])
            return replies.calls("get_tool_response", {"execution_id": ids[0], "offset": 3})
        return replies.answers("more")

    one = messages_endpoint(noting(replies.says("- owls eat mice (n.md:1)"), play), tools=[long])
    await one.ask(small)
    asked = [sent for sent in one.requests if sent.tool_names]
    assert "SUMMARIZED executionId" in asked[-1].raw.decode()
    _, outcome = await one.resume("Which note was the first?")
    assert outcome.answer == "more"
    again = [sent for sent in one.requests if sent.tool_names][len(asked) :]
    check_continued(one, asked[-1], again[0])
    (read,) = again[1].results.values()
    assert read.startswith("e on a xxx")
    stored = load(f"sqlite:///{one.folder}/runs.db")
    assert {message.part for message in stored.messages} == {0, 1}
