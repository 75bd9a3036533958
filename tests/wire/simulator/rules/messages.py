"""Rules on the messages: their order, their blocks, and calls with their results."""

from collections.abc import Iterator

from .base import Call, Table

RULES_BEFORE_BLOCKS = Table()
RULES_BEFORE_BLOCKS.refuse(
    "messages.empty", "messages: at least one message is required", lambda call: not call.body["messages"]
)


@RULES_BEFORE_BLOCKS.rule("messages.shape")
def shape(call: Call) -> Iterator[str]:
    """Require a role and content, and nothing else."""
    for index, message in enumerate(call.body["messages"]):
        if not isinstance(message, dict):
            yield f"messages.{index}: Input should be a valid dictionary"
            continue
        for name in message:
            if name not in ("role", "content"):
                yield f"messages.{index}.{name}: Extra inputs are not permitted"
        for name in ("role", "content"):
            if name not in message:
                yield f"messages.{index}.{name}: Field required"
        if not isinstance(message.get("content"), str | list):
            yield f"messages.{index}.content: Input should be a valid string or list"


@RULES_BEFORE_BLOCKS.rule("messages.role")
def role(call: Call) -> Iterator[str]:
    """Refuse roles other than user and assistant."""
    for index, message in enumerate(call.body["messages"]):
        if message["role"] not in ("user", "assistant"):
            yield (
                f'messages.{index}.role: Unexpected role "{message["role"]}". The Messages API accepts a '
                "top-level `system` parameter, not `system` as an input message role."
            )


RULES_BEFORE_BLOCKS.refuse(
    "messages.first",
    'messages: first message must use the "user" role',
    lambda call: call.body["messages"][0]["role"] != "user",
)


@RULES_BEFORE_BLOCKS.rule("messages.content")
def content(call: Call) -> Iterator[str]:
    """Refuse a message that says nothing."""
    for index, message in enumerate(call.body["messages"]):
        if not message["content"]:
            yield f"messages.{index}: all messages must have non-empty content"


RULES = Table()


@RULES.rule("tool_use.unique")
def unique_ids(call: Call) -> Iterator[str]:
    """Refuse a call's id that was used before."""
    seen: set[str] = set()
    for where, _, block in call.blocks("tool_use"):
        if block["id"] in seen:
            yield f"{where}: `tool_use` ids must be unique"
        seen.add(block["id"])


@RULES.rule("tool_result.unknown")
def unknown_results(call: Call) -> Iterator[str]:
    """Refuse a result without a call in the message before."""
    before: set[str] = set()
    for index, who, blocks in call.turns:
        for at, block in enumerate(blocks):
            if block["type"] == "tool_result" and block["tool_use_id"] not in before:
                yield (
                    f"messages.{index}.content.{at}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` "
                    "block in the previous message."
                )
        before = {block["id"] for block in blocks if block["type"] == "tool_use"} if who == "assistant" else set()


@RULES.rule("tool_result.duplicate")
def duplicate_results(call: Call) -> Iterator[str]:
    """Refuse a second result of one call."""
    for index, _, blocks in call.turns:
        ids = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        for call_id in ids:
            if ids.count(call_id) > 1:
                yield (
                    f"messages.{index}.content: each tool_use must have a single result. Found multiple "
                    f"`tool_result` blocks with id: {call_id}"
                )


@RULES.rule("tool_result.missing")
def missing_results(call: Call) -> Iterator[str]:
    """Require a result of every call in the very next message."""
    for index, who, blocks in call.turns:
        ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if who != "assistant" or not ids:
            continue
        following = call.turns[index + 1][2] if index + 1 < len(call.turns) else []
        answered = {block["tool_use_id"] for block in following if block["type"] == "tool_result"}
        lost = [call_id for call_id in ids if call_id not in answered]
        if lost:
            yield (
                f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(lost)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )


@RULES.rule("tool_result.first")
def results_first(call: Call) -> Iterator[str]:
    """Refuse anything in front of the results in their message."""
    for index, _, blocks in call.turns:
        other = False
        for at, block in enumerate(blocks):
            if block["type"] != "tool_result":
                other = True
            elif other:
                yield f"messages.{index}.content.{at}: `tool_result` blocks must come first in the message"


@RULES.rule("messages.prefill")
def prefill(call: Call) -> Iterator[str]:
    """Give the user the last word, unless a paused turn goes back as it came."""
    _, who, blocks = call.turns[-1]
    if who == "assistant" and not call.memory.is_paused(blocks):
        yield ("This model does not support assistant message prefill. The conversation must end with a user message.")
