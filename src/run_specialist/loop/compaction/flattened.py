"""A transcript retold in one user message, where thinking blocks forbid to change what stands before them. Pure.

The next pass reads the message back, so each part is a block of its own under a label; the labels stand here, and not
with the other words that a model reads, because they are a format. No text inside a block can pass for another block.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

from run_specialist.loop.compaction.turns import Pair, Part, Said, Turn, summarized
from run_specialist.record.messages import Block, Message, ToolCall, encode

SUMMARY = "Your work on this until now, as a summary; the outputs themselves are archived:\n"
ARCHIVED = "Your calls whose outputs are archived; get_tool_response reads one again by its executionId:\n"
LONGEST_ARGUMENTS = 300
"""The most that the line of an archived call shows of its arguments [characters]."""

_LABELS: dict[Literal["user", "assistant"], str] = {"user": "The user wrote:\n", "assistant": "Written on the way:\n"}
_CALL = re.compile(r"Tool call (\{[^\n]*\}) (returned|failed):\n")


@dataclass(frozen=True)
class Flattened:
    """A first user message: the question, and what was done about it if it was retold."""

    question: tuple[Block, ...]
    """As the user put it."""
    summary: str = ""
    """Empty in a message that holds nothing but the question."""
    archived: tuple[str, ...] = ()
    """One line for each call whose output is archived."""
    parts: tuple[Part, ...] = ()
    """What is kept whole."""

    @classmethod
    def of(cls, message: Message) -> Self:
        """Read a first user message, retold or not."""
        blocks = message.blocks
        at = next((i for i, block in enumerate(blocks) if i and _text(block).startswith(SUMMARY)), len(blocks))
        summary, lines, *rest = [*(_text(block) for block in blocks[at:]), "", ""]
        archived = tuple(filter(None, lines.removeprefix(ARCHIVED).split("\n")))
        return cls(blocks[:at], summary.removeprefix(SUMMARY), archived, tuple(_part(text) for text in rest if text))

    def message(self) -> Message:
        """Write the message."""
        texts = (SUMMARY + self.summary, ARCHIVED + "\n".join(self.archived), *map(told, self.parts))
        return Message("user", (*self.question, *({"type": "text", "text": text} for text in texts)))

    @property
    def turns(self) -> Iterator[Turn]:
        """What is kept whole, as turns of one call each, or of the last words."""
        group: list[Part] = []
        for part in self.parts:
            group.append(part)
            if isinstance(part, Pair):
                yield Turn(tuple(group))
                group = []
        if group:
            yield Turn(tuple(group))


def told(part: Part) -> str:
    """Return a part as text under its label."""
    if isinstance(part, Said):
        return _LABELS[part.role] + part.text
    call = encode({"id": part.call.id, "name": part.call.name, "input": part.call.arguments}).decode()
    return f"Tool call {call} {'failed' if part.is_error else 'returned'}:\n{part.result}"


def line(pair: Pair) -> str:
    """Return the line of a call whose output is archived."""
    arguments = encode(pair.call.arguments).decode()
    if len(arguments) > LONGEST_ARGUMENTS:
        arguments = arguments[:LONGEST_ARGUMENTS] + " …"
    return f"{pair.call.name} {arguments} -> {summarized(pair.call.id)}".replace("\n", " ")


def _part(text: str) -> Part:
    for role, label in _LABELS.items():
        if text.startswith(label):
            return Said(role, text.removeprefix(label))
    if found := _CALL.match(text):
        call = json.loads(found[1])
        made = ToolCall(call["id"], call["name"], call["input"])
        return Pair(made, text[found.end() :], is_error=found[2] == "failed")
    return Said("user", text)


def _text(block: Block) -> str:
    return str(block.get("text", ""))
