"""What the model was shown for each tool call, found in the messages of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from run_specialist import prompts
from run_specialist.record.messages import Block, Message, sendable, text_of
from run_specialist.store.stored import StoredMessage, StoredRun


@dataclass(frozen=True, slots=True)
class Shown:
    """A tool result as the model read it."""

    content: str
    """Without our last words."""
    words: str = ""
    """Those, where they stand in it."""
    is_error: bool = False

    def parted(self, text: str, notes: Sequence[str]) -> tuple[str, list[str]]:
        """Return the output and the lines that were put below it.

        text: what the tool returned.
        notes: lines that belong to the output; they are left out.
        """
        for output in (text, prompts.EMPTY_RESULT):
            if output and self.content.startswith(output):
                lines = [*self.content[len(output) :].split("\n"), self.words]
                return output, [line for line in lines if line and line not in notes]
        return self.content, [self.words] if self.words else []


def results(run: StoredRun) -> dict[tuple[int, int], Shown]:
    """Return the result of each call by its turn and its place there, from 0.

    Ids would not do: a server may give one twice.
    """
    found: dict[tuple[int, int], Shown] = {}
    turn, following = None, 0
    for message in _as_sent(run.messages):
        if message.role == "assistant":
            later = range(following, len(run.turns))
            at = next((one for one in later if _same(sendable(run.turns[one].blocks), message.blocks)), None)
            turn = None if at is None else run.turns[at]
            following = following if at is None else at + 1
        elif turn is not None:
            blocks = [block for block in message.blocks if block.get("type") == "tool_result"]
            for place, block in enumerate(blocks):
                words = message.landing_instruction if block is blocks[-1] else None
                shown = Shown(text_of(block.get("content")), words or "", bool(block.get("is_error")))
                found[turn.number, place] = shown
            turn = None
    return found


def _as_sent(messages: Sequence[StoredMessage]) -> Iterator[Message]:
    """Yield what was really said, in order."""
    copies = {one.part: one.message for one in messages if one.copied}
    for one in messages:
        if not one.copied:
            # What was to go out when a summary came in between has its last words in the next part only.
            again = copies.get(one.part + 1)
            yield again if again is not None and _same(again.blocks, one.message.blocks) else one.message


def _same(one: Sequence[Block], other: Sequence[Block]) -> bool:
    return len(one) == len(other) and all(dict(a) == dict(b) for a, b in zip(one, other, strict=True))
