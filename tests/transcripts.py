"""Transcripts to summarise, and the rules of the Messages API that each of them must satisfy."""

from collections.abc import Sequence
from typing import Any

from run_specialist.loop.compaction import archived_placeholder
from run_specialist.record.messages import Block, Message, ToolResult
from run_specialist.tools.archive import SUMMARIZE

QUESTION = "What do owls eat?"
THOUGHT: Block = {"type": "thinking", "thinking": "hm", "signature": "sealed"}
HIDDEN: Block = {"type": "redacted_thinking", "data": "sealed"}


def text(words: str) -> Block:
    """Return a text block."""
    return {"type": "text", "text": words}


def use(call_id: str, name: str = "search", **arguments: Any) -> Block:
    """Return a tool call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def turn(*results: tuple[str, str], before: Sequence[Block] = (), failed: bool = False) -> list[Message]:
    """Return a turn of calls, each given by its id and its result."""
    calls = [use(call_id, query=f"about {call_id}") for call_id, _ in results]
    return [
        Message("assistant", (*before, *calls)),
        Message.results([ToolResult(call_id, output, failed) for call_id, output in results]),
    ]


def history(turns: int, size: int = 400, before: Sequence[Block] = ()) -> list[Message]:
    """Return a question and turns of one call each; result `n` is `n` padded with dots.

    size: Length of each result [characters].
    """
    said = [Message.user(QUESTION)]
    for number in range(1, turns + 1):
        said += turn((f"call_{number}", str(number).ljust(size, ".")), before=before)
    return said


def outputs(messages: Sequence[Message]) -> dict[str, str]:
    """Return all results by call id, except summaries."""
    return {
        block["tool_use_id"]: block["content"]
        for message in messages
        for block in message.content
        if block["type"] == "tool_result" and not block["tool_use_id"].startswith(SUMMARIZE)
    }


def summaries(messages: Sequence[Message]) -> list[str]:
    """Return the contents of all summaries."""
    ids = {block["id"] for message in messages for block in message.content if block.get("name") == SUMMARIZE}
    return [
        block["content"]
        for message in messages
        for block in message.content
        if block["type"] == "tool_result" and block["tool_use_id"] in ids
    ]


def is_archived(call_id: str, output: str) -> bool:
    """Return whether an output has been moved to the archive."""
    return output == archived_placeholder(call_id)


def broken_rules(messages: Sequence[Message]) -> list[str]:
    """Return the violations of the Messages API's rules, found independently of the tested code."""
    faults, ids = [], set()
    for at, message in enumerate(messages):
        if message.role != ("user", "assistant")[at % 2]:
            faults.append(f"{at}: the roles do not alternate")
        if not message.content:
            faults.append(f"{at}: a message without content")
        kinds = [block["type"] for block in message.content]
        if any(
            kind == "text" and not block["text"].strip() for kind, block in zip(kinds, message.content, strict=True)
        ):
            faults.append(f"{at}: a blank text")
        if kinds != sorted(kinds, key=lambda kind: kind != "tool_result"):
            faults.append(f"{at}: results do not come first")
        before = messages[at - 1].content if at and message.role == "user" else ()
        called = [block["id"] for block in before if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in message.content if block["type"] == "tool_result"]
        if answered != called:
            faults.append(f"{at}: {called} were called and {answered} answered")
        if ids & set(called) or len(set(called)) != len(called):
            faults.append(f"{at}: an id stands twice")
        ids |= set(called)
    if messages[-1].role != "user":
        faults.append("the user does not have the last word")
    return faults
