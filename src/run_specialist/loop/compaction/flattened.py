"""Flatten a transcript into one user message, for models whose thinking blocks forbid editing the turns before them.

The next pass parses the message, so each part is a separate block with a label. The labels are defined here, and not
in `prompts`, because they are a format. Text inside a block cannot be mistaken for another block. No I/O.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

from run_specialist.loop.compaction.turns import TextPart, Turn, TurnPart, archived_placeholder
from run_specialist.record.blocks import Block
from run_specialist.record.messages import CompletedCall, Message, ToolCall, encode

SUMMARY = "Your work on this until now, as a summary; the outputs themselves are archived:\n"
ARCHIVED = "Your calls whose outputs are archived; get_tool_response reads one again by its executionId:\n"
LONGEST_ARGUMENTS = 300
"""Maximum length of the arguments in the line of an archived call [characters]."""

_LABELS: dict[Literal["user", "assistant"], str] = {"user": "The user wrote:\n", "assistant": "Written on the way:\n"}
_CALL = re.compile(r"Tool call (\{[^\n]*\}) (returned|failed):\n")


@dataclass(frozen=True)
class FlattenedTranscript:
    """The first user message: the question, and the work so far if the transcript was flattened into it."""

    question: tuple[Block, ...]
    """The blocks of the user's question."""
    summary: str = ""
    """Empty if the message contains only the question."""
    archived: tuple[str, ...] = ()
    """One line for each call whose output is archived."""
    parts: tuple[TurnPart, ...] = ()
    """The parts kept in full."""

    @classmethod
    def of(cls, message: Message) -> Self:
        """Parse a first user message, flattened or not."""
        blocks = message.blocks
        start = next((i for i, block in enumerate(blocks) if i and _text(block).startswith(SUMMARY)), len(blocks))
        summary, lines, *rest = [*(_text(block) for block in blocks[start:]), "", ""]
        archived = tuple(filter(None, lines.removeprefix(ARCHIVED).split("\n")))
        return cls(blocks[:start], summary.removeprefix(SUMMARY), archived, tuple(_part(text) for text in rest if text))

    def message(self) -> Message:
        """Return the message."""
        texts = (SUMMARY + self.summary, ARCHIVED + "\n".join(self.archived), *map(labeled, self.parts))
        return Message("user", (*self.question, *({"type": "text", "text": text} for text in texts)))

    @property
    def turns(self) -> Iterator[Turn]:
        """The parts kept in full, as turns of one call each; text after the last call is a turn without a call."""
        group: list[TurnPart] = []
        for part in self.parts:
            group.append(part)
            if isinstance(part, CompletedCall):
                yield Turn(tuple(group))
                group = []
        if group:
            yield Turn(tuple(group))


def labeled(part: TurnPart) -> str:
    """Return a part as text under its label."""
    if isinstance(part, TextPart):
        return _LABELS[part.role] + part.text
    call = encode({"id": part.call.id, "name": part.call.name, "input": part.call.arguments}).decode()
    return f"Tool call {call} {'failed' if part.is_error else 'returned'}:\n{part.result}"


def archived_line(pair: CompletedCall) -> str:
    """Return the line that shows a call whose output is archived."""
    arguments = encode(pair.call.arguments).decode()
    if len(arguments) > LONGEST_ARGUMENTS:
        arguments = arguments[:LONGEST_ARGUMENTS] + " …"
    return f"{pair.call.name} {arguments} -> {archived_placeholder(pair.call.id)}".replace("\n", " ")


def _part(text: str) -> TurnPart:
    for role, label in _LABELS.items():
        if text.startswith(label):
            return TextPart(role, text.removeprefix(label))
    if match := _CALL.match(text):
        values = json.loads(match[1])
        call = ToolCall(values["id"], values["name"], values["input"])
        return CompletedCall(call, text[match.end() :], is_error=match[2] == "failed")
    return TextPart("user", text)


def _text(block: Block) -> str:
    return str(block.get("text", ""))
