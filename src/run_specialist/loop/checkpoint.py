"""The places of a run where it puts on record how it stands, and waits until that is kept."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from run_specialist.budget.budget import Kind
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.observing.observers import Observers
from run_specialist.loop.spending.account import Account
from run_specialist.loop.tool_calls.dispatcher import Dispatcher
from run_specialist.record.events import Warned
from run_specialist.record.journal import Checkpointed, OnLost, TakenOver
from run_specialist.record.messages import Message

PATIENCE = 10.0
"""After this a run goes on without knowing that it is kept: a disk that hangs must not cost an answer [s]."""
IMPATIENCE = 0.1
"""What it waits for a store that has been too slow once, until that has caught up [s]."""
LONGEST = 60.0
"""What a run that is to end without its store waits for an answer of the store [s]."""
GLANCE = 0.2
"""How often a run that waits looks whether its store is slow or away [s]."""
SLOW = f"the store has taken more than {PATIENCE:.0f} seconds; the run goes on, and if it breaks off some may be lost"
AWAY = f"the store could not be reached for more than {PATIENCE:.0f} seconds, the run waits for it: {{}}"
NOT_BACK = "the store could not be reached in time; the run goes on, and if it breaks off some may be lost: {}"
UNKNOWN = "the store does not answer, and whether this run is stored is not known"
STOPPED = "{}; the run was stopped before its next request"


class StoreLost(Exception):
    """The run must not send another request; the text says why, in one line."""


class Checkpoint:
    """Gathers what it takes to go on from here."""

    def __init__(
        self,
        account: Account,
        observers: Observers,
        exchange: Exchange,
        dispatcher: Dispatcher,
        on_lost: OnLost = "go_on",
    ) -> None:
        self._account = account
        self._observers = observers
        self._exchange = exchange
        self._dispatcher = dispatcher
        self._aborts = on_lost == "abort"
        self._is_lost = self._is_slow = self._was_away = False
        self._shown: tuple[int, int, Message] | None = None
        """The last message on record, with its part and place."""

    @property
    def is_kept(self) -> bool:
        """False without a journal, once something could not be kept, and while it is not known."""
        return self._observers.journal is not None and not self._is_lost and not self._is_slow

    def stood(self) -> Checkpointed:
        """Return the record of how the run stands; what it holds of the transcript is not told again."""
        standing = replace(
            self._account.standing(),
            calls=self._dispatcher.started,
            skipped=self._dispatcher.skipped,
            last_text=self._exchange.last_text,
            warnings=tuple(self._observers.warnings),
        )
        return self._without_shown(self._exchange.transcript.stood(standing))

    def _without_shown(self, stood: Checkpointed) -> Checkpointed:
        """Leave out a message that went out as it was put on record: results are long, and packed to be stored."""
        shown, said = self._shown, stood.messages
        if said:
            self._shown = (stood.part, stood.place + len(said) - 1, said[-1])
        if said and shown is not None and shown[:2] == (stood.part, stood.place) and shown[2] == said[0]:
            return replace(stood, place=stood.place + 1, messages=said[1:])
        return stood

    async def reach(self) -> None:
        """Put on record how the run stands, and wait until it is kept, before the next request goes out.

        Before the first reply nothing can be lost, so only a run that needs its store waits then.
        Raises Unkept where another process works on the run, or where the store is lost and the run needs it.
        """
        if self._observers.journal is None:
            return
        self._observers.keep(self.stood())
        if not (self._aborts or self._account.limit(Kind.TURNS).used):
            return
        left = self._account.seconds_left(landing=False)
        patience = PATIENCE if not self._aborts else LONGEST if left is None else max(min(left, LONGEST), PATIENCE)
        try:
            lost = await self._settled(patience, left)
        except TakenOver as taken:
            raise StoreLost(STOPPED.format(taken)) from None
        if self._aborts and not self.is_kept:
            raise StoreLost(STOPPED.format(self._outage() or UNKNOWN if self._is_slow else lost))
        self._warn(lost)

    async def kept(self, *, briefly: bool = False) -> None:
        """Wait at the end until all that is on record is kept; where it cannot be, warn once.

        briefly: do not wait longer for a store that is away than for one that is slow.
        """
        left = PATIENCE if briefly else self._account.seconds_left(landing=True)
        try:
            lost = await self._settled(PATIENCE, None if left is None else max(left, PATIENCE))
        except TakenOver as taken:
            lost = str(taken)
        self._warn(lost)

    async def surely_kept(self, *, briefly: bool = False) -> None:
        """Wait likewise, whoever cancels meanwhile: the work is done, and is only to be kept."""
        keeping = asyncio.ensure_future(self.kept(briefly=briefly))
        while not keeping.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(keeping)

    async def _settled(self, patience: float, longest: float | None) -> str | None:
        """Wait until all that is on record is kept, and return why it is not, or is not known to be.

        patience: for a store that does not answer [s].
        longest: for one that is away and tried again; None = until that is given up [s].
        Raises TakenOver.
        """
        loop = asyncio.get_running_loop()
        begun, patience = loop.time(), IMPATIENCE if self._is_slow else patience
        bound: float | None = patience
        while bound is None or loop.time() - begun < bound:
            try:
                async with asyncio.timeout(min(patience, GLANCE)):
                    lost = await self._committed()
            except TimeoutError:
                bound = patience if self._is_slow or self._outage() is None else longest
                self._tell_away(loop.time() - begun)
            else:
                self._is_slow = False
                return lost
        self._is_slow = True
        return NOT_BACK.format(self._outage()) if self._outage() else SLOW

    async def _committed(self) -> str | None:
        journal = self._observers.journal
        try:
            lost = None if journal is None else await journal.committed()
        except TakenOver:
            self._is_lost = True
            raise
        self._is_lost |= lost is not None
        return lost

    def _outage(self) -> str | None:
        return None if self._observers.journal is None else self._observers.journal.outage

    def _tell_away(self, seconds: float) -> None:
        """Say once that the run waits for its store: somebody may watch it."""
        if seconds >= PATIENCE and not self._was_away and (outage := self._outage()):
            self._was_away = True
            self._warn(AWAY.format(outage))

    def _warn(self, lost: str | None) -> None:
        if lost and lost not in self._observers.warnings:
            self._observers.tell(Warned(lost))
