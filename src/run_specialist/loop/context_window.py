"""Fit the transcript into the model's context: shorten it when it grows too long, or land when the context is full."""

import math

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import RunContext
from run_specialist.loop.landing import Landing


class ContextWindow:
    """Makes room for the next request."""

    # Once the run must stop, no summary begins; a running one is completed, because its notes are already paid for.
    def __init__(self, run: RunContext, exchange: Exchange, landing: Landing, checkpoint: Checkpoint) -> None:
        self._run = run
        self._exchange = exchange
        self._landing = landing
        self._checkpoint = checkpoint
        self._was_summarized = self._was_cut = False

    async def make_room(self) -> bool:
        """Shorten a transcript longer than `summarize_at`; return False if that began the landing, or to stop."""
        if self._run.stop.is_requested:
            return False
        was_landing, position = self._landing.is_active, self._landing.position
        # A landing for lack of time has none left for a summary.
        summarize_at = self._run.job.settings.summarize_at
        if summarize_at is not None and not (position and position.reason is Kind.TIME):
            transcript = self._exchange.transcript
            was_over = transcript.tokens > summarize_at
            await self._shorten(summarize_at, in_landing=was_landing)
            self._landing.begin_if_spent(self._run.account.budget)
            if was_over and transcript.history_tokens > (self._run.job.longest_history or math.inf):
                # The calls of old turns stay. The results of another turn might not fit beside them.
                self._landing.begin(Kind.TOKENS)
        return self._landing.is_active is was_landing and not self._run.stop.is_requested

    async def shorten_and_land(self) -> bool:
        """Land from a shorter transcript after the context overflowed; return False if nothing more can be cut.

        If the run must stop, its resumption does this.
        """
        if self._run.stop.is_requested:
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
