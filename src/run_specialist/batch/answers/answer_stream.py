"""Write the answers of a batch to standard output, optionally in the order of the items."""

import json
from types import TracebackType
from typing import Self, TextIO

from run_specialist.batch.answers.answer_rows import row_line
from run_specialist.batch.done import Done
from run_specialist.errors import UsageError


class InOrder:
    """Holds back items until all with smaller numbers have ended."""

    def __init__(self) -> None:
        self._next = 1
        self._held: dict[int, Done] = {}

    def add(self, done: Done) -> list[Done]:
        """Return the items that can be written now, in order."""
        self._held[done.number] = done
        ready = []
        while self._next in self._held:
            ready.append(self._held.pop(self._next))
            self._next += 1
        return ready

    def rest(self) -> list[Done]:
        """Return the items that are still held back, in order."""
        held, self._held = self._held, {}
        return [held[number] for number in sorted(held)]


class AnswerStream:
    """Rows of answers as JSON Lines on a stream; used like an `AnswerFile`."""

    def __init__(self, stream: TextIO, *, ordered: bool = False) -> None:
        """Take the stream.

        ordered: write the rows in the order of the items; a row waits for those before it.
        """
        self._stream = stream
        self._order = InOrder() if ordered else None

    def write(self, done: Done) -> None:
        """Write the row of an item.

        Raises BrokenPipeError if the reader has closed the stream, UsageError if it cannot be written for another
        reason.
        """
        self._print([done] if self._order is None else self._order.add(done))

    def finish(self) -> None:
        """Write the rows that were held back; raises the same errors as `write`."""
        self._print([] if self._order is None else self._order.rest())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not isinstance(error, BrokenPipeError | UsageError):
            self.finish()

    def _print(self, ready: list[Done]) -> None:
        try:
            for done in ready:
                text = row_line(done).decode()
                try:
                    text.encode(self._stream.encoding or "utf-8")
                except UnicodeEncodeError:
                    text = json.dumps(json.loads(text)) + "\n"
                self._stream.write(text)
                self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(
                f"standard output cannot be written: {error.strerror or error}; repeat the call to continue"
            ) from None
