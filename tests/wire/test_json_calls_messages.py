"""Tool calls as JSON on the Messages API, from the file of a specialist to the outcome; also summaries and streams."""

import json

from tests.wire.json_mode import tools_in, written
from tests.wire.simulator.replies import says, thinking
from tests.wire.summary_scripts import LONG

JSON_LINE = "tool_calls: json"
LOOK_A, LOOK_B = (written("look", query=query, part=None) for query in "ab")
ANSWER = written("respond", answer="yes", evidence=[{"source": "x:1", "quote": "note on 'a'"}], gaps=None)


def offered(request) -> list[str]:
    """Return the tools that the schema of a request allows; empty if it has none."""
    form = request.body.get("output_config", {}).get("format")
    return tools_in(form["schema"]) if form else []


async def test_g8_messages_api_a_call_a_landing_and_an_answer(ask):
    """Calls are JSON in both directions, the landing offers `respond` alone, the quotes are checked."""
    told = await ask([says(LOOK_A), says(LOOK_B), says(ANSWER)], JSON_LINE, "tool_calls_limit: 2")
    outcome = told.outcome
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "yes", "schema")
    assert [quote.verified for quote in outcome.evidence] == [True]
    assert all(not request.tool_names and request.tool_choice is None for request in told.api.requests)
    every = ["get_tool_response", "look", "respond"]
    assert [offered(request) for request in told.api.requests] == [every, every, ["respond"]]
    # No later request would read what a landing writes to the cache.
    assert ["cache_control" in request.body for request in told.api.requests] == [True, True, False]
    *_, called, result = told.api.requests[2].messages
    assert called["content"] == [{"type": "text", "text": written("look", query="b")}]
    (text,) = result["content"]
    assert text["text"].startswith("Result of look:\n")
    assert text["text"].endswith("\n0 tool calls remaining")


async def test_g8_messages_api_caches_the_prompt_and_the_tail(ask_once):
    """System prompt and tail are marked, so that each request reads what the one before has written."""
    script = [says(LOOK_A), says(LOOK_B), says(ANSWER)]
    told = await ask_once(script, JSON_LINE, body="You look things up. " * 400)
    first, second, third = told.api.requests
    assert first.usage["cache_creation_input_tokens"] > 0
    assert second.usage["cache_read_input_tokens"] >= first.usage["cache_creation_input_tokens"]
    assert third.usage["cache_read_input_tokens"] > second.usage["cache_read_input_tokens"]


async def test_g8_thinking_goes_back_unchanged_in_front_of_the_call(ask):
    """A thinking block is sent back byte for byte, before the text of the call."""
    told = await ask([says(thinking("hm"), LOOK_A), says(ANSWER)], JSON_LINE, model="sonnet")
    sent = told.api.requests[1].messages[1]["content"]
    assert sent[0] == told.api.requests[0].content[0]
    assert sent[1] == {"type": "text", "text": written("look", query="a")}


async def test_g8_a_stream_shows_the_answer_and_not_its_json(ask):
    """A watcher sees the arguments of a call as with native calls, without the JSON around them."""
    told = await ask([says(LOOK_A), says(ANSWER)], JSON_LINE)
    if told.pieces:
        shown = "".join(told.pieces)
        assert json.loads(shown[: shown.index("}") + 1]) == {"query": "a", "part": None}
        assert '"call"' not in shown
        assert shown.endswith('"gaps": null}')


async def test_g8_summaries_work_with_calls_in_json(ask_once):
    """Notes are requested without a schema, and the transcript contains the summary as a call and its result."""
    replies = iter([written("look", query=query) for query in "abc"])

    def policy(request):
        if "output_config" not in request.body:
            return says("- owls eat mice")
        return says(next(replies, ANSWER))

    told = await ask_once(policy, JSON_LINE, "summarize_at: 12000", "budget_notice: false", tools=[LONG])
    (event,) = told.named("summarized")
    assert event.archived > 0
    assert told.outcome.answer == "yes"
    texts = [block["text"] for message in told.api.requests[-1].messages for block in message["content"]]
    assert any('"tool": "context_summarize"' in text for text in texts)
    assert any(text.startswith("Result of context_summarize:\n") and "owls eat mice" in text for text in texts)
    assert any("SUMMARIZED executionId:'call_" in text for text in texts)


async def test_g8_an_answer_in_json_may_have_a_shape(ask_once):
    """With `output_schema` the answer within the call must match it, optional properties included."""
    shape = "{type: object, properties: {n: {type: integer}, unit: {type: string}}, required: [n]}"
    wrong, right = (
        written("respond", source="", quote="", answer=answer, evidence=None, gaps=None)
        for answer in ({"n": "many", "unit": None}, {"n": 3, "unit": None})
    )
    told = await ask_once([says(wrong), says(right)], JSON_LINE, f"output_schema: {shape}")
    assert (told.outcome.status, told.outcome.output) == ("answered", {"n": 3})
    assert "does not match its schema" in told.api.requests[1].messages[-1]["content"][0]["text"]
    branch = told.api.requests[0].body["output_config"]["format"]["schema"]["properties"]["call"]["anyOf"][-1]
    assert branch["properties"]["arguments"]["properties"]["answer"]["required"] == ["n", "unit"]
