"""The tool results that the model received, from the messages of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from run_specialist import prompts
from run_specialist.record.blocks import Block, sendable, text_of
from run_specialist.record.messages import Message
from run_specialist.store.stored import StoredMessage, StoredRun


@dataclass(frozen=True, slots=True)
class ShownResult:
    """A tool result as the model received it."""

    content: str
    """The result without the landing instruction."""
    instruction: str = ""
    """The landing instruction, if the result contains one."""
    is_error: bool = False

    def parted(self, text: str, notes: Sequence[str]) -> tuple[str, list[str]]:
        """Return the tool's output and the lines appended to it.

        text: the output of the tool.
        notes: appended lines to omit, because they belong to the output.
        """
        for output in (text, prompts.EMPTY_RESULT):
            if output and self.content.startswith(output):
                lines = [*self.content[len(output) :].split("\n"), self.instruction]
                return output, [line for line in lines if line and line not in notes]
        return self.content, [self.instruction] if self.instruction else []


def results(run: StoredRun) -> dict[tuple[int, int], ShownResult]:
    """Return the result of each call by the number of its turn and its position in the turn, from 0.

    Call ids are not used as keys, because servers may reuse them.
    """
    found: dict[tuple[int, int], ShownResult] = {}
    turn, following = None, 0
    for message in _as_sent(run.messages):
        if message.role == "assistant":
            later = range(following, len(run.turns))
            at = next((one for one in later if _same(sendable(run.turns[one].blocks), message.blocks)), None)
            turn = None if at is None else run.turns[at]
            following = following if at is None else at + 1
        elif turn is not None:
            blocks = [block for block in message.blocks if block.get("type") == "tool_result"]
            for position, block in enumerate(blocks):
                instruction = message.landing_instruction if block is blocks[-1] else None
                shown = ShownResult(text_of(block.get("content")), instruction or "", bool(block.get("is_error")))
                found[turn.number, position] = shown
            turn = None
    return found


def _as_sent(messages: Sequence[StoredMessage]) -> Iterator[Message]:
    """Yield the messages as they were sent, in order."""
    copies = {one.part: one.message for one in messages if one.copied}
    for one in messages:
        if not one.copied:
            # If a summary preceded sending, only the copy in the next part has the landing instruction.
            again = copies.get(one.part + 1)
            yield again if again is not None and _same(again.blocks, one.message.blocks) else one.message


def _same(one: Sequence[Block], other: Sequence[Block]) -> bool:
    return len(one) == len(other) and all(dict(a) == dict(b) for a, b in zip(one, other, strict=True))
