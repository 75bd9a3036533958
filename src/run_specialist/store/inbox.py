"""Between the loops and the thread that writes: records on their way, and those who wait for them."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from run_specialist.record.journal import Ended, EventLogged, Journal, Received, Record, TakenOver
from run_specialist.store.stored import StoredRun

CLOSED = "the store was closed"
MOST = 100
"""Of so many runs is written in one transaction; of the others there are no rows in memory yet."""
LINGER = 0.002
"""What comes so soon after something urgent goes into the same transaction, unless somebody waits [s]."""


class Inbox:
    """Takes records from any thread and hands them to one, the oldest first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batch = Batch()
        self._urgent = self._at_once = False
        self._over = False
        self.closed: str | None = None
        """Why nothing is taken any more; None while it is."""
        self.outage: str | None = None
        """Why nothing can be written at the moment; None while it can."""

    def put(self, journal: "RunJournal", record: Record, *, urgent: bool) -> bool:
        """Take a record, and wake the thread if that is urgent; False when nothing is taken any more."""
        with self._changed:
            if self.closed:
                return False
            self._batch.records.setdefault(journal, []).append(record)
            if urgent and not self._urgent:
                self._urgent = True
                self._changed.notify()
        return True

    def wait(self, journal: "RunJournal", future: "asyncio.Future[None]") -> bool:
        """Have a future resolved when all that was taken of a run is settled; False when that will never be."""
        with self._changed:
            if self._over:
                return False
            self._batch.waiting.append((journal, future))
            self._hurry()
        return True

    def claim(self, run: StoredRun) -> "Future[Journal] | None":
        """Ask for the journal of a run that goes on; None when nothing is taken any more."""
        claimed: Future[Journal] = Future()
        with self._changed:
            if self.closed:
                return None
            self._batch.claims.append((run, claimed))
            self._hurry()
        return claimed

    def _hurry(self) -> None:
        if not self._at_once:
            self._urgent = self._at_once = True
            self._changed.notify()

    def next(self) -> "Batch | None":
        """Wait for something urgent and return what there is, of a crowd a part; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._urgent or self.closed)
            self._changed.wait_for(lambda: self._at_once or self.closed, LINGER)
            batch, self._batch = self._batch, self._batch.cut(MOST)
            # Of what is left some have waited long enough.
            self._urgent = self._at_once = bool(self._batch)
            self._over = self.closed is not None and not batch
            return None if self._over else batch

    def is_away(self, why: str | None) -> None:
        """Note why nothing can be written at the moment; None when it can, or will never be."""
        self.outage = why

    def close(self, why: str = CLOSED) -> None:
        """Take nothing any more; what is there is still handed out."""
        with self._changed:
            self.closed = self.closed or why
            self._changed.notify()


@dataclass
class Batch:
    """What the thread finds when it looks."""

    records: dict["RunJournal", list[Record]] = field(default_factory=dict)
    claims: list[tuple[StoredRun, Future[Journal]]] = field(default_factory=list)
    waiting: list[tuple["RunJournal", "asyncio.Future[None]"]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.records or self.claims or self.waiting)

    def cut(self, most: int) -> "Batch":
        """Keep so many runs, and return the others with those who wait for them or take them over."""
        others = dict(islice(self.records.items(), most, None))
        if not others:
            return Batch()
        # Whoever takes a run over counts on from its newest event.
        late = {journal.run_id for journal in others}
        claims = [(run, claimed) for run, claimed in self.claims if run.run_id in late]
        waiting = [(journal, future) for journal, future in self.waiting if journal in others]
        self.records = dict(islice(self.records.items(), most))
        self.claims = [(run, claimed) for run, claimed in self.claims if run.run_id not in late]
        self.waiting = [(journal, future) for journal, future in self.waiting if journal not in others]
        return Batch(others, claims, waiting)

    def settle(self) -> None:
        """Wake those who wait for it, once for each loop."""
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for _, future in self.waiting:
            by_loop.setdefault(future.get_loop(), []).append(future)
        for loop, futures in by_loop.items():
            # In a loop that is closed nobody waits any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: Sequence["asyncio.Future[None]"]) -> None:
    for future in futures:
        # Whoever waited may have been cancelled.
        if not future.done():
            future.set_result(None)


class RunJournal:
    """The journal of one run; see `journal.Journal`."""

    def __init__(self, inbox: Inbox, run_id: str, *, event: int = 1, turns: int | None = None) -> None:
        """Take what is known of the run.

        event: number of its next event.
        turns: how many are kept; None for a run that is not kept yet.
        """
        self._inbox = inbox
        self.run_id = run_id
        self.event = event
        """Number of the next event; the thread counts."""
        self._turns = turns
        self._written = self._settled = 0
        self._ended = False
        self.lost = False
        """Whether nothing is written any more, what is on its way included."""
        self._reason: str | None = None
        self._to_another = False

    @property
    def outage(self) -> str | None:
        """Why nothing can be written at the moment; None while it can, and for a run that is given up."""
        return None if self.lost else self._inbox.outage

    def write(self, record: Record) -> None:
        """Take a record; never waits and never raises."""
        if self.lost:
            return
        # Behind what is told after the end nothing urgent comes any more.
        urgent = self._ended or not isinstance(record, EventLogged)
        self._ended = self._ended or isinstance(record, Ended)
        self._written += 1
        if not self._inbox.put(self, record, urgent=urgent):
            self.lose(self._inbox.closed or CLOSED, [record])

    async def committed(self) -> str | None:
        """Wait until all that was written is kept; where that fails, return why in one line, once.

        Raises TakenOver in its place where another process works on the run.
        """
        if self._settled < self._written and not self.lost:
            future = asyncio.get_running_loop().create_future()
            if self._inbox.wait(self, future):
                await future
        reason, self._reason = self._reason, None
        if reason and self._to_another:
            raise TakenOver(reason)
        return reason

    def kept(self, records: Sequence[Record], *, turns: int | None, events: int) -> None:
        """Note that records were committed.

        turns: how many are complete with them; None where they do not tell.
        """
        self.event += events
        self._turns = turns if turns is not None else self._turns or 0
        self._settled += len(records)

    def lose(self, why: str, records: Sequence[Record], *, to_another: bool = False) -> None:
        """Write nothing any more.

        records: the first that are lost.
        to_another: another process works on the run.
        """
        if self.lost:
            return
        kinds = {type(record) for record in records}
        if self._turns is None:
            lost = "this run is not stored"
        elif Ended in kinds and Received not in kinds:
            lost = "the end of this run is not stored"
        else:
            lost = f"this run is not stored from turn {self._turns + 1} on"
        self._reason, self._to_another, self.lost = f"{lost}: {why}", to_another, True


Records = Mapping[RunJournal, Sequence[Record]]
"""By run, each in the order in which they were written."""
