"""Room in the model's context: a transcript that grows too long is shortened, and a full one landed from."""

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import Job
from run_specialist.loop.landing import Landing
from run_specialist.loop.spending.account import Account


class ContextWindow:
    """Makes room for the next request."""

    def __init__(
        self, job: Job, account: Account, exchange: Exchange, descent: Landing, checkpoint: Checkpoint
    ) -> None:
        self._job = job
        self._account = account
        self._exchange = exchange
        self._descent = descent
        self._checkpoint = checkpoint
        self._summarised = self._cut = False

    async def make(self) -> bool:
        """Shorten a transcript that is too long; False when that spent what was left, and the landing begins."""
        landing = self._descent.landing
        # A landing for want of time has none to spare for a summary.
        if self._job.summarize_at is not None and not (landing and landing.reason is Kind.TIME):
            await self._shorten(self._job.summarize_at, landing=self._descent.is_landing)
            self._descent.begin_if_spent(self._account.budget)
        return self._descent.is_landing is (landing is not None)

    async def land_from_less(self) -> bool:
        """Make room in a full context, once, and land at once; False when nothing more can give way."""
        if not (await self._summarise() or self._cut_newest()):
            return False
        self._descent.begin(Kind.TOKENS)
        return True

    async def _summarise(self) -> bool:
        first, self._summarised = not self._summarised, True
        return first and await self._shorten(landing=True)

    def _cut_newest(self) -> bool:
        # What was refused never became history, so the newest results may still be cut.
        first, self._cut = not self._cut, True
        return first and self._exchange.transcript.cut_tail(prompts.TRUNCATED)

    async def _shorten(self, over: int = 0, *, landing: bool) -> bool:
        shorter = await self._exchange.shorten(over, landing=landing)
        if shorter:
            await self._checkpoint.reach()
        return shorter
