"""Examples for messages, their blocks, and calls with their results."""

from typing import Any

from .base import Body, Example, assistant, call, chat, request, result, user, words

TURN = assistant(call())
GOOD = chat(TURN, user(result()))
TWO = assistant(call("a"), call("b"))
BOTH = user(result("a"), result("b"))
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def says(content: Any, role: str = "user", **fields: Any) -> Body:
    """Return a request of one message with any content."""
    return request(messages=[{"role": role, "content": content, **fields}])


def answered(**fields: Any) -> Body:
    """Return a conversation whose result has these fields."""
    return chat(TURN, user(result(**fields)))


MESSAGES: list[tuple[str, str, Body, Body]] = [
    ("messages.empty", "at least one message", request(messages=[]), says("Hello")),
    ("messages.shape", "messages.0: Input should be", request(messages=["Hello"]), says("Hello")),
    ("messages.shape", "messages.0.name: Extra", says("Hello", name="Ann"), says("Hello")),
    ("messages.shape", "content: Field required", request(messages=[{"role": "user"}]), says("Hello")),
    ("messages.role", 'Unexpected role "system"', says("Be brief.", role="system"), says("Be brief.")),
    ("messages.first", '"user" role', request(messages=[assistant("Hi"), user("Hello")]), says("Hello")),
    ("messages.content", "non-empty content", says(""), says("Hello")),
    (
        "messages.content",
        "messages.1: all messages",
        chat(assistant(), user("Go on.")),
        chat(assistant("Hm."), user("Go on.")),
    ),
    (
        "messages.prefill",
        "prefill",
        chat(assistant("The answer is (")),
        chat(assistant("The"), user("Go on.")),
    ),
]
BLOCKS: list[tuple[str, str, Body, Body]] = [
    ("blocks.type", "tag 'words'", says([{"type": "words", "text": "Hello"}]), says([words("Hello")])),
    (
        "blocks.fields",
        "text.id: Extra inputs",
        says([words("Hello", id=1)]),
        says([words("Hello", citations=None)]),
    ),
    ("blocks.fields", "text.text: Field required", says([{"type": "text"}]), says([words("Hello")])),
    ("blocks.fields", "tool_use.index: Extra", chat(assistant(call(index=0)), user(result())), GOOD),
    ("blocks.role", "`tool_use` blocks can only", chat(user(call())), GOOD),
    ("blocks.role", "`tool_result` blocks can only", chat(TURN, assistant(result())), GOOD),
    (
        "blocks.role",
        "`thinking` blocks can only",
        chat(user({"type": "thinking", "thinking": "So.", "signature": "c28="})),
        GOOD,
    ),
    ("text.empty", "must be non-empty", says([words("")]), says([words("x")])),
    ("text.empty", "messages.1.content.0", chat(assistant("", call()), user(result())), GOOD),
    ("text.empty", "tool_result.content.0", answered(content=[words("")]), answered(content="")),
    ("text.empty", "system.0", request(system=[words("")]), request(system="")),
    ("text.blank", "non-whitespace", says(" \n"), says(" x\n")),
]
CALLS: list[tuple[str, str, Body, Body]] = [
    ("tool_use.id", "tool_use.id: String", chat(assistant(call("a.b")), user(result("a.b"))), GOOD),
    ("tool_use.name", "tool_use.name: String", chat(assistant(call(name="se arch")), user(result())), GOOD),
    ("tool_use.input", "valid dictionary", chat(assistant(call(input='{"query": 1}')), user(result())), GOOD),
    ("tool_use.unique", "must be unique", chat(TURN, user(result()), TURN, user(result())), GOOD),
    ("tool_result.shape", "string or list", answered(content={"found": 1}), GOOD),
    ("tool_result.shape", "content.0: Input", answered(content=[call("b")]), answered(content=[PICTURE])),
    ("tool_result.shape", "valid boolean", answered(is_error="yes"), answered(is_error=True)),
    ("tool_result.missing", "immediately after: toolu_1", chat(TURN, user("Go on.")), GOOD),
    ("tool_result.missing", "immediately after: b", chat(TWO, user(result("a"))), chat(TWO, BOTH)),
    ("tool_result.missing", "immediately after: toolu_1", chat(TURN, assistant("Hm."), user("Go on.")), GOOD),
    ("tool_result.unknown", "toolu_2", chat(TURN, user(result(), result("toolu_2"))), GOOD),
    ("tool_result.unknown", "toolu_1", chat(user(result())), GOOD),
    # The result for b is missing from the first message and too late in the second: the API names b.
    ("tool_result.unknown", "b", chat(TWO, user(result("a")), user(result("b"))), chat(TWO, BOTH)),
    ("tool_result.unknown", "toolu_1", chat(TURN, user(result()), assistant("Hm."), user(result())), GOOD),
    ("tool_result.duplicate", "single result", chat(TURN, user(result(), result())), GOOD),
    ("tool_result.first", "must come first", chat(TURN, user("Here:", result())), GOOD),
    (
        "tool_result.first",
        "must come first",
        chat(TWO, user(result("a"), "and", result("b"))),
        chat(TWO, BOTH),
    ),
]
EXAMPLES = tuple(Example(*pair) for pair in (*MESSAGES, *BLOCKS, *CALLS))
