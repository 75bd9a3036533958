"""What is said: texts are found by type, messages are serialised once."""

import json
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.record.messages import Message, Reply, Stop, ToolCall, ToolResult, sendable, text_of

THINKING = {"type": "thinking", "thinking": "secret", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "secret"}


def text(words):
    """Build a text block."""
    return {"type": "text", "text": words}


def test_s1_6_text_is_found_by_type_and_never_by_position():
    """Thinking first, thinking last, several texts, plain strings, dicts and objects."""
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
    """Whatever the order of the blocks, only texts are read."""
    assert "secret" not in text_of(content)
    assert Reply(Stop.ANSWERED, tuple(content)).text.count("public") == content.count(text("public"))


@given(st.text(), st.text(min_size=1))
def test_a_last_line_is_added_inside_the_last_text(content, words):
    """The words join the last result, or the question when there is none."""
    message = Message.results([ToolResult("1", "first"), ToolResult("2", content)])
    assert message.with_instruction(None) is message
    first, last = message.with_instruction(words).content
    assert (first["content"], last["content"]) == ("first", f"{content}\n{words}")
    assert Message.user("q?").with_instruction(words).content[0]["text"] == f"q?\n{words}"


@given(st.text(alphabet=st.characters()))
def test_messages_encode_whatever_a_tool_returned(content):
    """Lone surrogates and control characters cannot break a request."""
    encoded = Message.results([ToolResult("1", content)]).encoded
    assert json.loads(encoded)["content"][0]["tool_use_id"] == "1"


def test_identical_calls_are_those_with_equal_arguments():
    """The order of keys makes no difference; the id does not count."""
    one, other = ToolCall("1", "read", {"a": 1, "b": 2}), ToolCall("2", "read", {"b": 2, "a": 1})
    assert one.key == other.key != ToolCall("3", "read", {"a": 1}).key


def test_x_9_blocks_go_back_as_they_came_but_for_what_the_api_refuses():
    """Thinking is the same object; an empty text goes, arguments that are no object become one."""
    broken = {"type": "tool_use", "id": "1", "name": "look", "input": "oops"}
    sent = sendable((THINKING, text(" "), REDACTED, broken))
    assert sent[0] is THINKING
    assert sent[1] is REDACTED
    assert sent[2] == {**broken, "input": {}}
