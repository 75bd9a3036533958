"""Calls as JSON that break off, and endpoints that refuse the schema, on chat completions."""

import pytest

from run_specialist.providers.openai_chat import ChatProvider, make_client
from tests.loop_jobs import job, outcome_of
from tests.wire.chat.faults import invalid
from tests.wire.chat.replies import says, tool_call
from tests.wire.json_mode import JSON_MODE, looks, offered, responds, written

pytestmark = pytest.mark.anyio

SHORTER = "Your last reply was cut off because it was too long. Repeat it, much shorter."


def cut(text: str):
    """Build a reply that ends at the length limit."""
    return says(text, finish_reason="length")


def rooms(api) -> list[int]:
    """Return the room of each request [tokens]."""
    return [sent.body["max_completion_tokens"] for sent in api.requests]


async def test_g8_a_cut_call_is_asked_for_again_shorter(ask_chat):
    """A cut call is not run; the repeated request says so to the model, and the cut turn is not part of the history."""
    script = [looks("a"), cut('{"call": {"tool": "look", "arguments": {"query": "bbbbb'), looks("b"), responds("yes")]
    outcome, api = await ask_chat(script, **JSON_MODE)
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 2)
    assert rooms(api) == [2_048, 2_048, 4_096, 4_096]
    again, before = api.requests[2].messages, api.requests[1].messages
    assert again[:-1] == before[:-1]
    assert again[-1]["content"] == f"{before[-1]['content']}\n{SHORTER}"
    # What the model has read stays in the history.
    assert api.requests[3].messages[: len(again)] == again


async def test_g8_a_question_whose_first_reply_is_cut(ask_chat):
    """The line follows the question if there is no other message yet."""
    _, api = await ask_chat([cut("{"), responds("yes")], **JSON_MODE)
    assert api.requests[1].messages[-1]["content"] == f"What is known?\n{SHORTER}"


async def test_x_6_an_answer_in_json_that_is_cut_twice_is_kept(ask_chat):
    """Of an answer that is cut twice, the part that arrived is the answer."""
    half = cut('{"call": {"tool": "respond", "arguments": {"answer": "so far so g')
    outcome, _ = await ask_chat([half, half], **JSON_MODE)
    assert (outcome.status, outcome.answer) == ("partial", "so far so g\n[truncated]")


async def test_x_6_a_call_in_json_that_is_cut_twice_is_not_run(ask_chat):
    """A call that is cut twice is answered, lands, and leaves nothing of its arguments in the history."""
    half = cut('{"call": {"tool": "look", "arguments": {"query": "bbbbb')
    outcome, api = await ask_chat([half, half, responds("what I know")], **JSON_MODE)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("landed", "what I know", 0)
    *_, called, result = api.requests[2].messages
    assert called["content"] == written("look")
    assert "your reply was cut off" in result["content"]
    assert offered(api.requests[2]) == ["respond"]


async def test_x_6_json_that_is_cut_before_it_names_a_tool_is_no_answer(ask_chat):
    """A fragment of JSON is not returned as the answer."""
    outcome, _ = await ask_chat([cut('{"ca'), cut('{"ca')], **JSON_MODE)
    assert outcome.status == "failed"
    assert "{" not in outcome.answer


async def test_g8_an_endpoint_that_refuses_the_schema_is_one_clear_error(ask_chat):
    """A 400 about the schema of the first request ends the run with exit code 3 and names `native`."""
    refusal = invalid("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.")
    outcome, api = await ask_chat([refusal], **JSON_MODE)
    assert (outcome.status, outcome.exit_code, len(api.requests)) == ("failed", 3, 1)
    assert outcome.error.startswith("the endpoint does not constrain replies to a JSON Schema")
    assert "use native" in outcome.error
    assert "not supported with this model" in outcome.error


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("settings", "limit", "expected"),
    [
        ({"evidence": "require"}, 9, [["look"], ["look", "respond"]]),
        ({"evidence": "check"}, 9, [["look", "respond"]] * 2),
        ({"evidence": "check"}, 0, [["respond"]]),
        ({"evidence": "require"}, 0, [["respond"]] * 2),
        ({"evidence": "require", "tools": ()}, 9, [["respond"]] * 2),
    ],
)
async def test_g8_evidence_that_is_required_needs_a_call_first(ask_chat, settings, limit, expected):
    """With `evidence: require` the first reply cannot be an answer, unless nothing else is possible.

    Where nothing can be read, no quote is found, and the answer goes back to the model once.
    """
    answer = responds("yes", evidence=[{"source": "x:1", "quote": "note on 'a'"}])
    script = [looks("a") if "look" in offers else answer for offers in expected[:-1]]
    outcome, api = await ask_chat([*script, answer], limit, **settings, **JSON_MODE)
    was_returned = expected == [["respond"]] * 2
    assert (outcome.answer, outcome.status == "partial") == ("yes", was_returned)
    assert [offered(sent) for sent in api.requests] == expected


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("landing", ["force", "order", "auto", "schema"])
async def test_g8_every_style_of_landing_shrinks_the_union(ask_chat, landing):
    """Whatever the style that asks for `respond`, the union contains nothing else."""
    outcome, api = await ask_chat([looks("a"), responds("yes")], 1, landing=landing, **JSON_MODE)
    assert (outcome.status, outcome.answer) == ("landed", "yes")
    assert offered(api.requests[1]) == ["respond"]
    assert ("`respond` will be heard" in api.requests[1].last_line) is (landing == "order")


async def test_g8_a_fenced_call_is_a_call(ask_chat):
    """A server that ignores the schema, with a model that follows the prompt, may put its JSON into a fence."""
    fenced = says(f"```json\n{written('look', query='a', part=None)}\n```")
    outcome, _ = await ask_chat([fenced, responds("yes")], **JSON_MODE)
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.failed) == ("yes", 1, 0)


async def test_g8_a_call_of_an_unknown_tool_is_answered(ask_chat):
    """A tool that does not exist is a failed call, as with native calls."""
    outcome, api = await ask_chat([says(written("dig")), responds("yes")], **JSON_MODE)
    assert (outcome.answer, outcome.tool_calls.failed) == ("yes", 1)
    assert api.requests[1].messages[-1]["content"].startswith("Result of dig:\n")


async def test_g8_reasoning_goes_back_beside_the_call(ask_chat):
    """Reasoning that came with a call is sent back with it, and the model is given room to think from then on."""
    thought = says(written("look", query="a", part=None), reasoning_content="secret thought")
    outcome, api = await ask_chat([thought, responds("yes")], **JSON_MODE)
    assert api.requests[1].messages[2] == {
        "role": "assistant",
        "content": written("look", query="a"),
        "reasoning_content": "secret thought",
    }
    assert rooms(api) == [2_048, 16_000]
    assert "secret" not in repr(outcome)


async def test_g8_native_calls_that_nobody_asked_for_are_run_too(ask_chat):
    """A server that sends native calls all the same, with one id for all of them, is understood."""
    same = says(None, tool_call("look", {"query": "a"}, "call_1"))
    outcome, api = await ask_chat([same, same, responds("yes")], **JSON_MODE)
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 2)
    assert [message["role"] for message in api.requests[2].messages[2:]] == ["assistant", "user"] * 2


async def test_g8_an_endpoint_that_has_refused_the_schema_is_not_asked_again(chat_api):
    """The next run on the same provider fails immediately with the same error."""
    refusal = invalid("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.")
    api = chat_api([refusal])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        outcomes = [await outcome_of(job(provider, **JSON_MODE)) for _ in range(2)]
    assert [(outcome.status, outcome.exit_code) for outcome in outcomes] == [("failed", 3)] * 2
    assert outcomes[0].error.startswith(outcomes[1].error)
    assert len(api.requests) == 1
