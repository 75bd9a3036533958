"""The messages of a run: an append-only history, and the tail that the next request adds."""

from collections.abc import Sequence
from dataclasses import replace

from run_specialist.loop.compaction.plan import estimate
from run_specialist.record.blocks import Block, sendable
from run_specialist.record.journal import Checkpointed, RunSnapshot
from run_specialist.record.messages import Message, Reply, ToolResult
from run_specialist.record.server_calls import has_server_calls

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
        return [*self._history, self._tail.with_instruction(landing_instruction)] if self._tail else [*self._history]

    def enter(self, reply: Reply, results: Sequence[ToolResult], landing_instruction: str | None) -> None:
        """Append a turn: the sent messages and the reply; the results become the new tail.

        landing_instruction: the last line of the answered request.
        """
        before, self._history = self.tokens, self.messages(landing_instruction)
        if content := sendable(reply.content):
            self._history.append(Message("assistant", content))
        self._tail = Message.results(results) if results else None
        self.history_tokens = reply.usage.total_tokens
        if before and has_server_calls(content):
            # The usage then has the same input several times: once for each step of the API between its tools.
            self.history_tokens = min(self.history_tokens, before + estimate(None, self._history[-1:]))

    @property
    def ends_with_model(self) -> bool:
        """Whether the last message is the model's own, as after a pause."""
        return self._tail is None

    def say(self, text: str) -> None:
        """Add a user message as the next message, after a turn without results."""
        self._tail = Message.user(text)

    def end_pause(self, text: str) -> None:
        """Add a user message if the API paused a turn with its own tools; otherwise the turn would continue."""
        if self._tail is None and self._history and has_server_calls(self._history[-1].blocks):
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
        self.history_tokens = max(tokens - estimate(None, [self._tail] if self._tail else []), 0)
        self._part += 1
        self._copies = len(messages)
        self._recorded = 0

    def new_record(self, snapshot: RunSnapshot) -> Checkpointed:
        """Return the record of the messages since the last record; it includes the tail, which the next one repeats."""
        place, self._recorded = self._recorded, len(self._history)
        return Checkpointed(self._part, place, tuple(self.messages()[place:]), self._copies, snapshot)

    @property
    def tokens(self) -> int:
        """Estimated size of the next request: usage of the last turn, plus the tail [tokens]."""
        return self.history_tokens + estimate(None, [self._tail] if self._tail else [])


def _is_long(block: Block) -> bool:
    return block["type"] == "tool_result" and len(block["content"]) > FEW_CHARACTERS
