"""The transcript of a run: messages are only appended, and can be adapted for another model."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from run_specialist import prompts
from run_specialist.loop.compaction import estimate
from run_specialist.providers.openai_messages import FIELDS
from run_specialist.record.journal import Checkpointed, RunSnapshot
from run_specialist.record.messages import Block, Message, Reply, ToolResult, sendable, server_calls, spoken, text_of

FEW_CHARACTERS = 2_000
"""Length to which results are cut when the context overflows [characters]."""


class Transcript:
    """The messages of one run."""

    def __init__(self, messages: Sequence[Message], history_tokens: int = 0, part: int = 0, copies: int = 0) -> None:
        """Begin with earlier messages, or with only the question.

        history_tokens: size of the messages already sent [tokens].
        part, copies: see `Checkpointed`.
        """
        self._part = part
        self._copies = copies
        self._take(messages)
        self.history_tokens = history_tokens
        """Estimated size of everything sent before, and of the last reply [tokens]."""
        # A part that consists of copies may not be recorded yet; recording it twice does no harm.
        self._recorded = 0 if copies == len(messages) else len(self._history)

    def _take(self, messages: Sequence[Message]) -> None:
        # After a pause the last message is the model's own, which takes no instruction.
        *history, last = messages
        self._history: list[Message] = history if last.role == "user" else [*messages]
        self._tail: Message | None = last if last.role == "user" else None

    def messages(self, landing_instruction: str | None = None) -> list[Message]:
        """Return all messages, oldest first.

        landing_instruction: appended to the tail in this request; becomes history only if the request is answered.
        """
        if self._tail is None:
            return [*self._history]
        tail = self._tail.with_instruction(landing_instruction) if landing_instruction else self._tail
        return [*self._history, tail]

    def enter(self, reply: Reply, results: Sequence[ToolResult], landing_instruction: str | None) -> None:
        """Append a turn: the sent messages and the reply; the results become the new tail.

        landing_instruction: the last line of the answered request.
        """
        content = sendable(reply.content)
        before = self.tokens if server_calls(content) else 0
        self._history = self.messages(landing_instruction)
        if content:
            self._history.append(Message("assistant", content))
        self._tail = Message.results(results) if results else None
        self.history_tokens = reply.usage.total_tokens
        if before:
            # The usage then has the same input several times: once for each step of the API between its tools.
            self.history_tokens = min(self.history_tokens, before + estimate(self._history[-1:]))

    def say(self, text: str) -> None:
        """Add a user message as the next message, after a turn without results."""
        self._tail = Message.user(text)

    def end_pause(self, text: str) -> None:
        """Add a user message if the API paused a turn with its own tools; otherwise the turn would continue."""
        if self._tail is None and self._history and server_calls(self._history[-1].blocks):
            self.say(text)

    def add(self, text: str) -> None:
        """Add a text to the next message, after the results if there are any."""
        if text:
            before = self._tail.blocks if self._tail else ()
            self._tail = Message("user", (*before, *Message.user(text).blocks))

    def cut_tail(self, mark: str) -> bool:
        """Cut long results in the tail; return False if there are none.

        mark: line appended to a cut result.
        """
        if self._tail is None or not any(_is_long(block) for block in self._tail.blocks):
            return False
        blocks = (
            {**block, "content": f"{block['content'][:FEW_CHARACTERS]}\n{mark}"} if _is_long(block) else block
            for block in self._tail.blocks
        )
        self._tail = replace(self._tail, blocks=tuple(blocks))
        return True

    def shorten(self, messages: Sequence[Message], tokens: int) -> None:
        """Replace all messages by a summary.

        tokens: estimated size of the new messages.
        """
        self._take(messages)
        self.history_tokens = max(tokens - estimate([self._tail] if self._tail else []), 0)
        self._part += 1
        self._copies = len(messages)
        self._recorded = 0

    def restart(self, text: str) -> None:
        """Begin again with another first message; what was sent so far stays in the store."""
        self.shorten([Message.user(text)], 0)
        self._copies = 0

    def new_record(self, snapshot: RunSnapshot) -> Checkpointed:
        """Return the record of the messages since the last record; it includes the tail, which the next one repeats."""
        place, self._recorded = self._recorded, len(self._history)
        return Checkpointed(self._part, place, tuple(self.messages()[place:]), self._copies, snapshot)

    @property
    def tokens(self) -> int:
        """Estimated size of the next request: usage of the last turn, plus the tail [tokens]."""
        return self.history_tokens + estimate([self._tail] if self._tail else [])


def _is_long(block: Block) -> bool:
    return block["type"] == "tool_result" and len(block["content"]) > FEW_CHARACTERS


# The block types that every model accepts in a reply, with their keys.
_PORTABLE_KEYS = {"text": ("type", "text"), "tool_use": ("type", "id", "name", "input")}
# Pattern of ids that every API accepts and no server generates.
_PORTABLE_ID = re.compile(r"moved_[0-9a-f]{12}")
# Pattern of a call id in a note to the model; see `prompts.read_on` and `archived_placeholder`.
_MENTIONED = re.compile(r"(execution_id=|executionId:')([^\s']+)")


def portable_messages(messages: Sequence[Message], *, also_written: bool = False) -> tuple[Message, ...]:
    """Return messages without parts that only their own model accepts; unchanged messages are the same objects.

    also_written: also remove thinking that a server wrote at the beginning of the text.
    """
    return tuple(_portable_message(message, also_written=also_written) for message in messages)


def portable_blocks(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return the blocks of a reply that every model accepts, with the keys that every model accepts."""
    known = (block for block in blocks if block["type"] in _PORTABLE_KEYS)
    return tuple({key: block[key] for key in _PORTABLE_KEYS[block["type"]] if key in block} for block in known)


def lost_parts(messages: Sequence[Message]) -> str:
    """Return the kinds of transcript parts that another model does not receive; empty if it receives everything."""
    blocks = [block for message in messages if message.role == "assistant" for block in message.blocks]
    own = {block["type"] for block in blocks} - {*_PORTABLE_KEYS, FIELDS}
    if has_thought(messages):
        return "the thoughts"
    return "parts of the replies" if own else ""


def portable_id(call_id: str) -> str:
    """Return the id of a call for another model, derived from the original one.

    One API accepts only some characters, the other only short ids, and a server may remember its own ids and refuse
    them in a request to another model.
    """
    if _PORTABLE_ID.fullmatch(call_id):
        return call_id
    return f"moved_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def with_portable_ids(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages in which each call has an id for another model; unchanged messages are the same objects."""
    adapted = (replace(message, blocks=tuple(map(renamed, message.blocks))) for message in messages)
    return tuple(old if new.blocks == old.blocks else new for old, new in zip(messages, adapted, strict=True))


def renamed_arguments(arguments: Any) -> Any:  # noqa: ANN401 - what a model wrote
    """Return the arguments of a call with portable ids, since a call may refer to an earlier one."""
    if not isinstance(arguments, Mapping) or "execution_id" not in arguments:
        return arguments
    return {**arguments, "execution_id": portable_id(str(arguments["execution_id"]))}


def renamed_text(text: str) -> str:
    """Return a notice on reading the rest of a result, or a placeholder of a summarized one, with portable ids."""
    return _MENTIONED.sub(lambda found: found[1] + portable_id(found[2]), text)


def renamed(block: Block) -> Block:
    """Return a block in which all calls have portable ids."""
    match block.get("type"):
        case "tool_use":
            call_id = portable_id(block["id"])
            # Parts that a server expects back unchanged have the old id, and only that server expects them.
            kept = block if call_id == block["id"] else {key: value for key, value in block.items() if key != "chat"}
            return {**kept, "id": call_id, "input": renamed_arguments(block.get("input"))}
        case "tool_result":
            call_id, content = portable_id(block["tool_use_id"]), renamed_text(block["content"])
            return {**block, "tool_use_id": call_id, "content": content}
        case "text":
            return {**block, "text": renamed_text(block["text"])}
        case _:
            return block


def _portable_message(message: Message, *, also_written: bool) -> Message:
    if message.role == "user":
        return message
    written = message.blocks
    if also_written:
        written = tuple(
            {**block, "text": spoken(block["text"])} if block["type"] == "text" else block for block in written
        )
    blocks = portable_blocks(sendable(written)) or ({"type": "text", "text": prompts.LEFT_OUT},)
    return message if blocks == message.blocks else replace(message, blocks=blocks)


# Maximum `max_tokens` of a landing request, doubled once a reply was truncated [tokens].
_LANDING_TOKENS = 4_096
# Maximum `max_tokens` of other requests if calls are JSON, because each reply then contains one call [tokens].
_CALL_TOKENS = 2_048


def longest_reply(*, in_landing: bool, json_calls: bool, thinks: bool) -> int | None:
    """Return the maximum length of a reply; None if only the account limits it [tokens].

    thinks: whether the model may think; thinking counts as part of the reply.
    """
    if thinks:
        return None
    if in_landing:
        return _LANDING_TOKENS
    return _CALL_TOKENS if json_calls else None


def has_thought(messages: Iterable[Message]) -> bool:
    """Return whether messages contain thinking, in any form in which an API returns it."""
    return any(is_thought(message.blocks) for message in messages if message.role == "assistant")


def is_thought(blocks: Sequence[Block]) -> bool:
    """Return whether the blocks of a turn contain thinking."""
    is_tagged = False
    for block in blocks:
        extra = block.get("chat")
        # Chat completions have no standard name for it: `reasoning`, `reasoning_content`, `thinking`.
        names = (block.get("type"), *extra, extra.get("type")) if isinstance(extra, Mapping) else (block.get("type"),)
        listed = " ".join(map(str, names))
        if "thinking" in listed or "reasoning" in listed:
            return True
        is_tagged = is_tagged or "think>" in str(block.get("text"))
    return is_tagged and spoken(text := text_of(blocks)) != text
