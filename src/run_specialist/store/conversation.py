"""Convert the conversation of a stored run to rows. Pure.

Messages that a summarization copied to a new part of the transcript are omitted, so that each message appears once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from run_specialist.loop.compaction.flattened import FlattenedTranscript
from run_specialist.loop.compaction.turns import turns
from run_specialist.loop.portable import with_portable_ids
from run_specialist.record.blocks import Block, spoken, text_of
from run_specialist.record.messages import Message
from run_specialist.record.server_calls import is_result, server_calls
from run_specialist.store.stored import StoredCall, StoredMessage, StoredRun

Row = Mapping[str, Any]
"""`role`, `kind`, and by kind: `text` (user, assistant, summary), `name`, `id` and `arguments` (tool_call), or `name`,
`id`, `content` and `is_error` (tool_result)."""


def transcript_rows(run: StoredRun) -> list[Row]:
    """Return the conversation in order, without thinking and without empty text of the model.

    A pending reply comes last, with the results of its calls received so far.
    """
    names: dict[object, str] = {}
    rows = [row for message in _in_order(run.messages) for row in _rows_of(message, names)]
    if pending := run.pending:
        rows += _rows("assistant", pending.blocks, names)
        rows += (_result_of(call) for call in run.calls if call.turn == pending.number)
    return rows


def copied_rows(run: StoredRun) -> int:
    """Return how many rows at the beginning a fork has copied from another run."""
    fork = run.frozen.get("fork")
    if not fork:
        return 0
    left, names = fork["messages"], dict[object, str]()
    copied: list[Row] = []
    for message in _in_order(run.messages):
        if left == 0:
            break
        left -= isinstance(message, Message)
        copied += _rows_of(message, names)
    is_note = bool(copied) and copied[-1]["kind"] == "user" and copied[-1]["text"] == fork["note"]
    return len(copied) - is_note


def _rows_of(message: Message | str, names: dict[object, str]) -> Iterator[Row]:
    return _summary(message) if isinstance(message, str) else _rows(message.role, message.content, names)


def _in_order(messages: Sequence[StoredMessage]) -> list[Message | str]:
    """Return the messages of all parts, with each summary at the point of its creation."""
    ordered: list[Message | str] = []
    for _, part in groupby(messages, key=lambda one: one.part):
        stored = [*part]
        copies = [one.message for one in stored if one.copied]
        if copies:
            # The last message of the previous part was sent only as this copy, to which text may have been added.
            last = ordered[-1] if ordered else None
            if isinstance(last, Message):
                ordered[-1] = _with_added(last, copies[-1])
            # A part that a change of models began has no summary, or repeats the previous one.
            summary = _summary_among(copies)
            ordered += [summary] if summary and summary not in ordered else []
        ordered += (one.message for one in stored if not one.copied)
    return ordered


def _with_added(last: Message, copy: Message) -> Message:
    """Return a message with the text that was added to its copy; the copy's calls may have ids for another model."""
    size = len(last.blocks)
    same = copy.blocks[:size] in (last.blocks, with_portable_ids([last])[0].blocks)
    added = replace(last, blocks=(*last.blocks, *copy.blocks[size:]), landing_instruction=copy.landing_instruction)
    return added if same else last


def _summary_among(copies: Sequence[Message]) -> str:
    """Return the summary at the start of a part: the result of a call, or a section of the first message."""
    summaries = [turn.summary for turn in turns(copies[1:]) if turn.summary is not None]
    return summaries[-1] if summaries else FlattenedTranscript.of(copies[0]).summary


def _rows(role: str, blocks: Sequence[Block], names: dict[object, str]) -> Iterator[Row]:
    """Yield the rows of a message.

    names: tool names of the calls so far, by call id; extended with the calls of this message.
    """
    uses = {use.call.id: use for use in server_calls(blocks)}
    for kind, group in groupby(blocks, key=lambda block: "server" if is_result(block) else block.get("type")):
        match kind:
            case "server":
                for block in group:
                    use = uses[str(block.get("tool_use_id"))]
                    yield _result(use.call.name, use.call.id, use.text, is_error=bool(use.error))
            case "server_tool_use":
                yield from map(_call, group)
            case "text":
                yield from _text(role, text_of([*group]))
            case "tool_use":
                for block in group:
                    names[block.get("id")] = str(block.get("name", ""))
                    yield _call(block)
            case "tool_result":
                for block in group:
                    call_id, is_error = block.get("tool_use_id"), bool(block.get("is_error"))
                    yield _result(names.get(call_id), call_id, text_of(block.get("content")), is_error=is_error)


def _call(block: Block) -> Row:
    arguments = block.get("input")
    return {
        "role": "assistant",
        "kind": "tool_call",
        "name": str(block.get("name", "")),
        "id": block.get("id"),
        "arguments": arguments if isinstance(arguments, Mapping) else None,
    }


def _text(role: str, text: str) -> Iterator[Row]:
    if role == "user":
        yield {"role": role, "kind": "user", "text": text}
    elif visible := spoken(text).strip():
        yield {"role": role, "kind": "assistant", "text": visible}


def _summary(text: str) -> Iterator[Row]:
    yield {"role": "assistant", "kind": "summary", "text": text}


def _result_of(call: StoredCall) -> Row:
    content = "\n".join(filter(None, [call.text, call.note]))
    return _result(call.call.name, call.call.id, content, is_error=call.is_error)


def _result(name: str | None, call_id: object, content: str, *, is_error: bool) -> Row:
    return {
        "role": "tool",
        "kind": "tool_result",
        "name": name,
        "id": call_id,
        "content": content,
        "is_error": is_error,
    }
