"""The landing: which rung comes next, the shape of its request, and a full context window."""

import math

from run_specialist import prompts
from run_specialist.budget import Budget, Kind, LadderPosition, Phase, Rung, ladder
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import RunContext
from run_specialist.providers.base import Choice
from run_specialist.record.events import Landed

CHOICES = {Rung.FORCE: Choice.RESPOND, Rung.SCHEMA: Choice.SCHEMA, Rung.NONE: Choice.NONE}
"""The tool choice of each rung; all other requests use AUTO."""
WITH_TOOLS = {Rung.ORDER, Rung.WAIT, Rung.FINALIZE}
"""Rungs without a tool choice, in which an API could continue to run its own tools."""
RUNGS: dict[str, Rung] = {choice: rung for rung, choice in CHOICES.items()}


class Landing:
    """Moves down the ladder, and reports each rung that is tried."""

    def __init__(self, run: RunContext) -> None:
        """Prepare the landing; `begin` starts it."""
        self._run = run
        self._refused: set[Rung] = set()
        self.position: LadderPosition | None = None
        """Position on the ladder; None until the landing begins."""

    def begin(self, reason: Kind, answered: str | None = None) -> None:
        """Start the landing, unless it has begun.

        answered: the tool choice of a request from before an interruption, on whose rung to start; None = the top.
        """
        if self.position is None:
            position, rung = LadderPosition(reason, self._rungs()), RUNGS.get(answered or "")
            self._move_to(position.resumed(rung) if rung else position)

    def _rungs(self) -> tuple[Rung, ...]:
        """Return the whole ladder, given the current knowledge of the endpoint."""
        known = self._run.job.provider.capabilities
        if known.rungs is not None:
            return tuple(rung for rung in known.rungs if rung not in self._refused)
        refused = self._refused if known.none_choice else self._refused | {Rung.NONE}
        if self._run.job.runs_on_server:
            refused = refused | WITH_TOOLS
        return ladder(
            self._run.job.landing_style,
            forced_choice=known.forced_choice,
            schema=known.schema,
            schema_first=known.schema_first,
            refused=refused,
        )

    def begin_if_spent(self, budget: Budget, answered: str | None = None) -> None:
        """Start the landing, as `begin` does, if only its reserve remains of the budget."""
        if budget.phase is Phase.SPENT:
            self.begin(budget.tightest.kind, answered)

    @property
    def is_active(self) -> bool:
        """True from the first rung on."""
        return self.position is not None

    @property
    def is_over(self) -> bool:
        """True if no rung is left, so that the answer must be built from the gathered results."""
        return self.position is not None and self.position.rung is Rung.SALVAGE

    @property
    def reason(self) -> Kind:
        """The limit that ended the work; tool calls before the landing."""
        return self.position.reason if self.position else Kind.TOOL_CALLS

    @property
    def choice(self) -> Choice:
        """The choice of the next request."""
        return CHOICES.get(self.position.rung, Choice.AUTO) if self.position else Choice.AUTO

    @property
    def instruction(self) -> str | None:
        """The landing instruction of the next request."""
        rung = self.position.rung if self.position else None
        return prompts.landing_instruction(rung, self._run.job.settings.landing_prompt)

    def was_refused(self) -> None:
        """Continue on another ladder, without the rung that the endpoint refused."""
        if self.position:
            self._refused.add(self.position.rung)
            self._move_to(self.position.refused(self._rungs()))

    def change_model(self) -> None:
        """Continue on the ladder of another model, without the rungs that the first one did not follow."""
        self._refused.clear()
        if self.position:
            before, position = self.position.rung, self.position.refused(self._rungs())
            self.position = position
            if position.rung is not before:
                self._move_to(position)

    def was_ignored(self) -> None:
        """Continue with the next rung, because the model did not follow the current one."""
        if self.position:
            self._move_to(self.position.ignored())

    def was_paused(self) -> None:
        """Stay on the rung, but count the request: the model paused and will continue."""
        if self.position:
            self.position = self.position.answered()

    def calls_were_skipped(self, budget: Budget) -> None:
        """Leave the waiting rung of `finalize`, because the model has made calls beyond the limit."""
        self.begin_if_spent(budget)
        if self.position and self.position.rung is Rung.WAIT:
            self.was_ignored()

    def ran_out_of_time(self) -> None:
        """Start the landing; if it has already begun, skip all further rungs."""
        if self.position:
            self._move_to(self.position.given_up())
        self.begin(Kind.TIME)

    def _move_to(self, position: LadderPosition) -> None:
        self.position = position
        if position.rung is not Rung.WAIT:
            self._run.observers.notify(Landed(position.reason, position.rung))


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
        position, summarize_at = self._landing.position, self._run.job.settings.summarize_at
        # A landing for lack of time has none left for a summary.
        if summarize_at is None or (position and position.reason is Kind.TIME):
            return True
        was_landing, transcript = position is not None, self._exchange.transcript
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
        is_shorter = False
        # Each way is tried once in a run.
        if not self._was_summarized:
            self._was_summarized = True
            is_shorter = await self._shorten(in_landing=True)
        if not is_shorter and not self._was_cut:
            self._was_cut = True
            # The refused request never entered the transcript, so its newest results may still change.
            is_shorter = self._exchange.transcript.cut_tail(prompts.TRUNCATED)
        if is_shorter:
            self._landing.begin(Kind.TOKENS)
        return is_shorter

    async def _shorten(self, over: int = 0, *, in_landing: bool) -> bool:
        is_shorter = await self._exchange.shorten(over, in_landing=in_landing)
        if is_shorter:
            await self._checkpoint.record_and_wait()
        return is_shorter
