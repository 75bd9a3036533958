"""All that was said in a run: history, which is only ever appended to, and the tail that the next request adds."""

from collections.abc import Sequence
from dataclasses import replace

from run_specialist.loop.compaction.plan import estimate
from run_specialist.record.journal import Checkpointed, RunSnapshot
from run_specialist.record.messages import Block, Message, Reply, ToolResult, sendable

FEW_CHARACTERS = 2_000
"""What is left of a result where the context has no room for all of it."""


class Transcript:
    """The messages of one run."""

    def __init__(self, messages: Sequence[Message], history_tokens: int = 0, part: int = 0, copies: int = 0) -> None:
        """Begin with what was said before, at first the question alone.

        history_tokens: of all but the last message, if that is still to go out.
        part, copies: see `Checkpointed`.
        """
        self._part = part
        self._copies = copies
        self._take(messages)
        self._history_tokens = history_tokens
        # Of a part that is all copies nothing may be on record yet; written again it is there once.
        self._kept = 0 if copies == len(messages) else len(self._history)

    def _take(self, messages: Sequence[Message]) -> None:
        # After a pause the model's own message is the last: no words of ours go into that.
        *history, last = messages
        self._history: list[Message] = history if last.role == "user" else [*messages]
        self._tail: Message | None = last if last.role == "user" else None

    def messages(self, words: str | None = None) -> list[Message]:
        """Return everything, the newest last.

        words: our last ones in what goes out next; what is refused never becomes history, so they may change.
        """
        return [*self._history, self._tail.ending(words)] if self._tail else [*self._history]

    def enter(self, reply: Reply, results: Sequence[ToolResult], words: str | None) -> None:
        """Make a turn history: what was sent for it, and the reply; the results go out next.

        words: our last ones in what was sent.
        """
        self._history = self.messages(words)
        if content := sendable(reply.content):
            self._history.append(Message("assistant", content))
        self._tail = Message.results(results) if results else None
        self._history_tokens = reply.usage.total_tokens

    def say(self, text: str) -> None:
        """Let a message of ours go out next, where no results do."""
        self._tail = Message.user(text)

    def add(self, words: str) -> None:
        """Let words of ours go out next, inside of the results if there are some."""
        if words:
            before = self._tail.blocks if self._tail else ()
            self._tail = Message("user", (*before, *Message.user(words).blocks))

    def cut_tail(self, mark: str) -> bool:
        """Cut the long results that were to go out next; False when there are none.

        mark: ends what was cut.
        """
        if self._tail is None or not any(_is_long(block) for block in self._tail.blocks):
            return False
        blocks = (
            {**block, "content": f"{block['content'][:FEW_CHARACTERS]}\n{mark}"} if _is_long(block) else block
            for block in self._tail.blocks
        )
        self._tail = Message("user", tuple(blocks), self._tail.words)
        return True

    def shorten(self, messages: Sequence[Message], tokens: int) -> None:
        """Take a shorter transcript in place of all that was said.

        tokens: about how many it has.
        """
        self._take(messages)
        self._history_tokens = max(tokens - estimate(None, [self._tail] if self._tail else []), 0)
        self._part += 1
        self._copies = len(messages)
        self._kept = 0

    def stood(self, standing: RunSnapshot) -> Checkpointed:
        """Return the record of what was said since the last one; what goes out next is in it, and in the next one.

        standing: what else there is to tell; how many tokens the history has is added.
        """
        place, self._kept = self._kept, len(self._history)
        standing = replace(standing, history_tokens=self._history_tokens)
        return Checkpointed(self._part, place, tuple(self.messages()[place:]), self._copies, standing)

    @property
    def tokens(self) -> int:
        """About how many tokens the next request has: those of the last turn, and what came after it."""
        return self._history_tokens + estimate(None, [self._tail] if self._tail else [])


def _is_long(block: Block) -> bool:
    return block["type"] == "tool_result" and len(block["content"]) > FEW_CHARACTERS
