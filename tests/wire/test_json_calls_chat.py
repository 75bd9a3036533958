"""Tool calls as JSON that a chat completions server constrains, streamed and not."""

import json
from itertools import pairwise

import pytest

from tests.wire.chat.replies import says
from tests.wire.json_mode import JSON_MODE, looks, offered, responds, written

pytestmark = pytest.mark.anyio


async def test_g8_a_call_and_an_answer_in_json(ask_chat):
    """A run calls a tool and answers by JSON: no tools are sent, calls and results are plain messages."""
    outcome, api = await ask_chat(
        [looks("a"), responds("yes", evidence=[{"source": "x:1", "quote": "note on 'a'"}])], **JSON_MODE
    )
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "yes", 1)
    assert [quote.verified for quote in outcome.evidence] == [True]
    assert all("tools" not in sent.body and "tool_choice" not in sent.body for sent in api.requests)
    assert [offered(sent) for sent in api.requests] == [["look", "respond"]] * 2
    assert api.requests[0].body["response_format"]["json_schema"]["name"] == "call"
    *_, called, result = api.requests[1].messages
    assert called == {"role": "assistant", "content": written("look", query="a")}
    assert result == {"role": "user", "content": "Result of look:\nnote on 'a', part 0"}


async def test_g8_the_system_prompt_lists_the_tools(ask_chat):
    """The system prompt contains name, description and parameters of each tool, after the prompt of the run."""
    _, api = await ask_chat([responds("yes")], **JSON_MODE)
    system = api.requests[0].messages[0]["content"]
    assert system.startswith("You look things up.")
    assert "- look: Look something up." in system
    assert "query (string | null)" in system
    assert "- respond: " in system


async def test_g8_the_history_is_only_appended_to(ask_chat):
    """Each request starts with the bytes of the one before it, so that the server's cache fits."""
    _, api = await ask_chat([looks("a"), looks("b"), responds("yes")], **JSON_MODE)
    sent = [json.dumps(request.messages)[:-1] for request in api.requests]
    assert all(after.startswith(before) for before, after in pairwise(sent))
    forms = [json.dumps(request.body["response_format"]) for request in api.requests]
    assert len(set(forms)) == 1


async def test_g8_the_landing_offers_respond_alone(ask_chat):
    """At the limit the union shrinks to `respond`; the countdown is the last line of the result."""
    outcome, api = await ask_chat([looks("a"), looks("b"), responds("so far")], 2, **JSON_MODE)
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "so far", "schema")
    assert [offered(sent) for sent in api.requests] == [["look", "respond"]] * 2 + [["respond"]]
    assert api.requests[1].last_line == "1 tool call remaining"
    assert api.requests[2].last_line == "0 tool calls remaining"


async def test_g8_a_landing_that_is_ignored_asks_for_text(ask_chat):
    """A server that ignores the schema at the limit is asked for text, without a schema."""
    outcome, api = await ask_chat([looks("a"), looks("b"), says("In words.")], 1, **JSON_MODE)
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "In words.", "none")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (1, 1)
    assert "response_format" not in api.requests[2].body
    assert api.requests[2].last_line == "Answer now, as plain text and not as JSON."


async def test_g8_text_that_is_no_call_is_the_answer(ask_chat):
    """A server that ignores the schema answers in text: it is the answer, with a warning."""
    outcome, _ = await ask_chat([says("Plain words.")], **JSON_MODE)
    assert (outcome.status, outcome.answer) == ("answered", "Plain words.")
    assert any("ignored the JSON Schema" in warning for warning in outcome.warnings)
