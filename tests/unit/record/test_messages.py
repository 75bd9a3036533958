"""Messages: texts are found by type, and each message is serialised once."""

import json
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.record.messages import Message, Reply, Stop, ToolResult, sendable, text_of

THINKING = {"type": "thinking", "thinking": "secret", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "secret"}


def text(words):
    """Return a text block."""
    return {"type": "text", "text": words}


def test_s1_6_text_is_found_by_type_and_never_by_position():
    """Text is found by type in any position.

    Thinking may be first or last; there may be several texts, plain strings, dicts and objects.
    """
    assert text_of([THINKING, text("a")]) == "a"
    assert text_of([text("a"), THINKING, REDACTED, text("b")]) == "a\nb"
    assert text_of("plain") == "plain"
    assert text_of([SimpleNamespace(type="text", text="object"), "string"]) == "object\nstring"
    assert text_of([SimpleNamespace(type="thinking", thinking="secret", text=None)]) == ""
    assert text_of(None) == text_of(7) == text_of([]) == ""


blocks = st.lists(
    st.sampled_from(
        [THINKING, REDACTED, text("public"), {"type": "tool_use", "input": {"q": "secret"}}, {}, {"type": "text"}]
    )
)


@given(blocks)
def test_s1_6_thinking_never_leaks(content):
    """Thinking is never returned as text, whatever the order of the blocks."""
    assert "secret" not in text_of(content)
    assert Reply(Stop.ANSWERED, tuple(content)).text.count("public") == content.count(text("public"))


@given(st.text(), st.text(min_size=1))
def test_an_instruction_is_appended_inside_the_last_text(content, words):
    """An instruction is appended inside the last result, or to the question if there is no result."""
    message = Message.results([ToolResult("1", "first"), ToolResult("2", content)])
    assert message.with_instruction(None) is message
    first, last = message.with_instruction(words).content
    assert (first["content"], last["content"]) == ("first", f"{content}\n{words}")
    assert Message.user("q?").with_instruction(words).content[0]["text"] == f"q?\n{words}"


@given(st.text(alphabet=st.characters()))
def test_any_tool_result_can_be_encoded(content):
    """Lone surrogates and control characters in a tool's result do not break the request."""
    encoded = Message.results([ToolResult("1", content)]).encoded
    assert json.loads(encoded)["content"][0]["tool_use_id"] == "1"


def test_x_9_blocks_are_sent_back_unchanged_unless_the_api_refuses_them():
    """Blocks are sent back unchanged except for content that the API refuses.

    Thinking is the same object, an empty text is removed, and arguments that are not an object become an empty one.
    """
    broken = {"type": "tool_use", "id": "1", "name": "look", "input": "oops"}
    sent = sendable((THINKING, text(" "), REDACTED, broken))
    assert sent[0] is THINKING
    assert sent[1] is REDACTED
    assert sent[2] == {**broken, "input": {}}
