"""The places of a run where it puts on record how it stands, and waits until that is kept."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from run_specialist.account import Account
from run_specialist.audience import Audience
from run_specialist.budget import Kind
from run_specialist.dispatch import Dispatcher
from run_specialist.events import Warned
from run_specialist.exchange import Exchange
from run_specialist.journal import Stood
from run_specialist.messages import Message

PATIENCE = 10.0
"""After this a run goes on without knowing that it is kept: a disk that hangs must not cost an answer [s]."""
IMPATIENCE = 0.1
"""What it waits for a store that has been too slow once, until that has caught up [s]."""
SLOW = f"the store has taken more than {PATIENCE:.0f} seconds; the run goes on, and if it breaks off some may be lost"


class Checkpoint:
    """Gathers what it takes to go on from here."""

    def __init__(self, account: Account, audience: Audience, exchange: Exchange, dispatcher: Dispatcher) -> None:
        self._account = account
        self._audience = audience
        self._exchange = exchange
        self._dispatcher = dispatcher
        self._is_lost = self._is_slow = False
        self._shown: tuple[int, int, Message] | None = None
        """The last message on record, with its part and place."""

    @property
    def is_kept(self) -> bool:
        """False without a journal, once something could not be kept, and while it is not known."""
        return self._audience.journal is not None and not self._is_lost and not self._is_slow

    def stood(self) -> Stood:
        """Return the record of how the run stands; what it holds of the transcript is not told again."""
        standing = replace(
            self._account.standing(),
            calls=self._dispatcher.started,
            skipped=self._dispatcher.skipped,
            last_text=self._exchange.last_text,
            warnings=tuple(self._audience.warnings),
        )
        return self._without_shown(self._exchange.transcript.stood(standing))

    def _without_shown(self, stood: Stood) -> Stood:
        """Leave out a message that went out as it was put on record: results are long, and packed to be stored."""
        shown, said = self._shown, stood.messages
        if said:
            self._shown = (stood.part, stood.place + len(said) - 1, said[-1])
        if said and shown is not None and shown[:2] == (stood.part, stood.place) and shown[2] == said[0]:
            return replace(stood, place=stood.place + 1, messages=said[1:])
        return stood

    async def reach(self) -> None:
        """Put on record how the run stands, and wait until it is kept; before the first reply nothing can be lost."""
        if self._audience.journal is None:
            return
        self._audience.keep(self.stood())
        if self._account.limit(Kind.TURNS).used:
            await self.kept()

    async def kept(self) -> None:
        """Wait until all that is on record is kept; where it cannot be, warn once."""
        journal = self._audience.journal
        if journal is None:
            return
        try:
            async with asyncio.timeout(IMPATIENCE if self._is_slow else PATIENCE):
                lost = await journal.committed()
        except TimeoutError:
            lost, self._is_slow = SLOW, True
        else:
            self._is_slow = False
            self._is_lost |= lost is not None
        if lost and lost not in self._audience.warnings:
            self._audience.tell(Warned(lost))

    async def surely_kept(self) -> None:
        """Wait likewise, whoever cancels meanwhile: the work is done, and is only to be kept."""
        keeping = asyncio.ensure_future(self.kept())
        while not keeping.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(keeping)
