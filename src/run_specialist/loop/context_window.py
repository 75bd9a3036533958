"""Fit the transcript into the model's context: shorten it when it grows too long, or land when the context is full."""

import math

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import Job
from run_specialist.loop.landing import Landing
from run_specialist.loop.spending.account import Account
from run_specialist.loop.stop_signal import StopSignal


class ContextWindow:
    """Makes room for the next request."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a run that its size affects
        self,
        job: Job,
        account: Account,
        exchange: Exchange,
        landing: Landing,
        checkpoint: Checkpoint,
        stop: StopSignal,
    ) -> None:
        """Take the parts of a run.

        stop: once requested, no summary begins; a running one is completed, because its notes are already paid for.
        """
        self._job = job
        self._account = account
        self._exchange = exchange
        self._landing = landing
        self._checkpoint = checkpoint
        self._stop = stop
        self._was_summarized = self._was_cut = False

    async def make_room(self) -> bool:
        """Shorten a transcript longer than `summarize_at`; return False if that began the landing, or to stop."""
        if self._stop.is_requested:
            return False
        was_landing, position = self._landing.is_active, self._landing.position
        # A landing for lack of time has none left for a summary.
        summarize_at = self._job.settings.summarize_at
        if summarize_at is not None and not (position and position.reason is Kind.TIME):
            transcript = self._exchange.transcript
            was_over = transcript.tokens > summarize_at
            await self._shorten(summarize_at, in_landing=was_landing)
            self._landing.begin_if_spent(self._account.budget)
            if was_over and transcript.history_tokens > (self._job.longest_history or math.inf):
                # The calls of old turns stay. The results of another turn might not fit beside them.
                self._landing.begin(Kind.TOKENS)
        return self._landing.is_active is was_landing and not self._stop.is_requested

    async def shorten_and_land(self) -> bool:
        """Land from a shorter transcript after the context overflowed; return False if nothing more can be cut.

        If the run must stop, its resumption does this.
        """
        if self._stop.is_requested:
            return True
        if not (await self._summarize_once() or self._cut_newest_once()):
            return False
        self._landing.begin(Kind.TOKENS)
        return True

    async def _summarize_once(self) -> bool:
        is_first, self._was_summarized = not self._was_summarized, True
        return is_first and await self._shorten(in_landing=True)

    def _cut_newest_once(self) -> bool:
        # The refused request never entered the transcript, so its newest results may still change.
        is_first, self._was_cut = not self._was_cut, True
        return is_first and self._exchange.transcript.cut_tail(prompts.TRUNCATED)

    async def _shorten(self, over: int = 0, *, in_landing: bool) -> bool:
        is_shorter = await self._exchange.shorten(over, in_landing=in_landing)
        if is_shorter:
            await self._checkpoint.record_and_wait()
        return is_shorter
