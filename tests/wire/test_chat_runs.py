"""Runs against chat completions servers, streamed and not: odd replies, retries, usage and cost."""

from dataclasses import replace

import pytest

from run_specialist.loop.evidence import NOTHING_READ
from run_specialist.providers.openai_chat import ChatProvider, make_client
from run_specialist.record.messages import Usage
from tests.wire.chat.replies import answers, calls, says, tool_call
from tests.wire.chat_messages import CALL

pytestmark = pytest.mark.anyio


LOOK = calls("look", {"query": "a"})


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("<think>secret</think>\n\nThe answer.", "The answer."),
        ("\n<think>\nsecret\n</think>The answer.", "The answer."),
        ("The answer says <think>so</think>.", "The answer says <think>so</think>."),
        ("The answer.", "The answer."),
    ],
)
async def test_s1_6_a_think_block_is_removed_only_at_the_beginning(ask_chat, content, answer):
    """A `<think>` block is removed at the very beginning of the text only; elsewhere it is part of the answer."""
    outcome, _ = await ask_chat([says(content)])
    assert (outcome.status, outcome.answer) == ("answered", answer)


async def test_s1_6_unterminated_reasoning_is_requested_again(ask_chat):
    """A reply of unterminated reasoning is requested again, and the next reply is the answer."""
    outcome, api = await ask_chat([says("<think>and on and on"), says("<think>hm</think>yes")])
    assert (outcome.answer, len(api.requests)) == ("yes", 2)


async def test_s1_6_reasoning_is_sent_back_unchanged_and_not_shown(ask_chat):
    """Reasoning (both names), its details and unknown fields are sent back unchanged; null and empty ones are not."""
    fields = {
        "reasoning_content": "secret thought",
        "reasoning": "secret thought",
        "reasoning_details": [{"type": "reasoning.text", "text": "secret thought", "signature": "x"}],
    }
    signed = tool_call("look", '{"query":  "ü"}', extra_content={"google": {"thought_signature": "sig"}})
    first = says("I look.", {**signed, "index": 0, "note": None}, annotations=[1], audio={}, more=[], **fields)
    outcome, api = await ask_chat([first, says("The answer.", **fields)])
    assert (outcome.answer, outcome.status) == ("The answer.", "answered")
    assert "secret" not in repr(outcome)
    sent = api.requests[1].messages[2]
    call = {**signed, "id": api.requests[0].message["tool_calls"][0]["id"]}
    assert sent == {"role": "assistant", "content": "I look.", "tool_calls": [call], **fields}


async def test_content_in_parts_is_sent_back_in_parts(ask_chat):
    """Content in parts is sent back in parts; a thinking part is not text of the answer."""
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "I look."}]
    outcome, api = await ask_chat([says(parts, CALL), says([*parts[:1], {"type": "text", "text": "Done."}])])
    assert outcome.answer == "Done."
    assert api.requests[1].messages[2]["content"] == parts


async def test_s1_7_a_call_with_broken_arguments_is_sent_back_with_an_empty_object(ask_chat):
    """A call with broken arguments is not run, and goes back as `{}` for servers that parse the history."""
    outcome, api = await ask_chat([says(None, tool_call("look", '{"query": "half')), answers("yes")])
    assert (outcome.answer, outcome.tool_calls.failed) == ("yes", 1)
    assert "the arguments are no JSON object" in api.requests[1].results[0]
    assert api.requests[1].messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_calls_without_ids_get_generated_ids(ask_chat):
    """If a local server sends no call ids, or the same one every time, every result still answers its call."""
    nameless = says(None, {**CALL, "id": ""}, tool_call("look", {"query": "b"}, ""))
    same = says(None, tool_call("look", {"query": "c"}, "0"))
    again = says(None, tool_call("look", {"query": "d"}, "0"))
    outcome, api = await ask_chat([nameless, same, again, answers("yes")])
    assert outcome.answer == "yes"
    wanted = [call["id"] for message in api.requests[3].messages for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in api.requests[3].messages if message["role"] == "tool"]
    assert wanted == answered
    assert len(set(wanted)) == 4
    assert [text.split(",")[0] for text in api.requests[3].results] == [f"note on '{query}'" for query in "abcd"]


async def test_x_4_respond_beside_other_calls_ends_the_run(ask_chat):
    """A `respond` call ends the run with its answer; other calls of the same reply are not run."""
    quote = {"source": "a", "quote": "note on 'a'"}
    both = says("Well.", {**CALL, "id": "call_y"}, tool_call("respond", {"answer": "done", "evidence": [quote]}))
    outcome, api = await ask_chat([LOOK, both])
    assert (outcome.answer, outcome.tool_calls.used, len(api.requests)) == ("done", 1, 2)


async def test_x_6_a_cut_call_is_requested_again_with_more_output_tokens(ask_chat):
    """A cut call is not run; the request is repeated with the same history and twice the output tokens."""
    cut = says(None, tool_call("look", '{"query": "ha'), finish_reason="length")
    outcome, api = await ask_chat([cut, LOOK, answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 1)
    assert [sent.body["max_completion_tokens"] for sent in api.requests] == [16_000, 32_000, 32_000]
    assert api.requests[0].messages == api.requests[1].messages


async def test_x_6_a_call_cut_twice_is_sent_back_with_empty_arguments(ask_chat):
    """A call cut twice is skipped and goes back with `{}`, because servers that parse arguments refuse half of them."""
    cut = says(None, tool_call("look", '{"query": "ha'), finish_reason="length")
    outcome, api = await ask_chat([cut, cut, answers("yes")])
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.skipped) == ("yes", 0, 1)
    assert api.requests[2].messages[2]["tool_calls"][0]["function"]["arguments"] == "{}"


async def test_x_6_the_received_part_of_a_cut_answer_is_kept(ask_chat):
    """If `respond` is cut twice, the received part is the answer."""
    cut = says(None, tool_call("respond", '{"answer": "so far so g'), finish_reason="length")
    outcome, _ = await ask_chat([cut, cut])
    assert (outcome.status, outcome.answer) == ("partial", "so far so g\n[truncated]")


async def test_x_7_an_empty_answer_is_requested_once_more(ask_chat):
    """An empty answer, or reasoning alone, is requested once more."""
    outcome, _ = await ask_chat([says(None, reasoning_content="hm"), says("", reasoning_content="hm")])
    assert (outcome.status, outcome.exit_code) == ("failed", 4)
    outcome, _ = await ask_chat([says(""), says("At last.")])
    assert outcome.answer == "At last."


async def test_x_8_refusals_fail_and_unknown_finish_reasons_are_warnings(ask_chat):
    """A content filter and a `refusal` text fail the run; an unknown finish reason is reported as a warning."""
    outcome, _ = await ask_chat([says("half", finish_reason="content_filter")])
    assert (outcome.exit_code, outcome.error) == (4, "the model refused to answer (content_filter)")
    outcome, _ = await ask_chat([says(None, refusal="I cannot\nhelp.")])
    assert (outcome.exit_code, outcome.error) == (4, "the model refused to answer (I cannot help.)")
    outcome, _ = await ask_chat([says("so far", CALL, finish_reason="abort")])
    assert (outcome.answer, outcome.tool_calls.used) == ("so far", 0)
    assert outcome.warnings == ("the model stopped for an unknown reason: abort", NOTHING_READ)


async def test_usage_is_summed_over_all_requests(ask_chat):
    """Usage is summed over all requests; in a stream it comes in the last chunk, which has no choices."""
    told = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
    outcome, _ = await ask_chat([replace(LOOK, usage=told), replace(says("Yes."), usage=told)])
    assert outcome.usage == Usage(80, 120, 0, 14)


async def test_cost_comes_from_the_price_list_or_is_unknown():
    """The cost comes from the price list, by the id without its prefix; an unlisted model's cost is unknown."""
    async with make_client(api_key="test") as client:
        known = ChatProvider("gpt-4o", client).cost(Usage(1_000_000, 0, 0, 0))
        unknown = ChatProvider("my-own-model", client).cost(Usage(1_000_000, 0, 0, 0))
    assert known == pytest.approx(2.5)
    assert unknown is None
