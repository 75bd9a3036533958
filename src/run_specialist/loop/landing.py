"""The landing of one run: the rung that is tried now, and what it asks of the next request."""

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind, Phase
from run_specialist.budget.ladder import LadderPosition, Rung, ladder
from run_specialist.loop.job import Job
from run_specialist.loop.observing.observers import Observers
from run_specialist.providers.base import Choice
from run_specialist.record.events import Landed

CHOICES = {Rung.FORCE: Choice.RESPOND, Rung.SCHEMA: Choice.SCHEMA, Rung.NONE: Choice.NONE}
"""The choice that a rung demands; all other requests use AUTO."""


class Landing:
    """Descends the ladder, and reports each rung that is tried."""

    def __init__(self, job: Job, observers: Observers) -> None:
        """Prepare the landing; `begin` starts it."""
        self._job = job
        self._observers = observers
        self.position: LadderPosition | None = None
        """None until the landing begins."""

    def begin(self, reason: Kind) -> None:
        """Start the landing, unless it has begun."""
        if self.position is None:
            rungs = ladder(self._job.landing_style, forced_choice=self._job.provider.capabilities.forced_choice)
            self._move_to(LadderPosition(reason, rungs))

    def begin_if_spent(self, budget: Budget) -> None:
        """Start the landing if only what is reserved for it remains of the budget."""
        if budget.phase is Phase.SPENT:
            self.begin(budget.tightest.kind)

    @property
    def is_active(self) -> bool:
        """True from the first rung on."""
        return self.position is not None

    @property
    def is_over(self) -> bool:
        """True if no rung is left, so that the answer must be salvaged from what was gathered."""
        return self.position is not None and self.position.rung is Rung.SALVAGE

    @property
    def reason(self) -> Kind:
        """The limit that ended the work; before the landing, tool calls."""
        return self.position.reason if self.position else Kind.TOOL_CALLS

    @property
    def choice(self) -> Choice:
        """The choice of the next request."""
        return CHOICES.get(self.position.rung, Choice.AUTO) if self.position else Choice.AUTO

    @property
    def instruction(self) -> str | None:
        """The landing instruction of the next request."""
        return prompts.landing_instruction(self.position.rung if self.position else None, self._job.landing_prompt)

    def was_refused(self) -> None:
        """Continue without forcing, which the endpoint does not support."""
        if self.position:
            self._move_to(self.position.refused())

    def was_ignored(self) -> None:
        """Continue with the next rung: the model did something else."""
        if self.position:
            self._move_to(self.position.ignored())

    def was_paused(self) -> None:
        """Stay on the rung, but count the request: the model paused and will continue."""
        if self.position:
            self.position = self.position.answered()

    def notify(self, budget: Budget) -> None:
        """Leave the waiting rung of `finalize`: the model has made calls beyond the limit."""
        self.begin_if_spent(budget)
        if self.position and self.position.rung is Rung.WAIT:
            self.was_ignored()

    def ran_out_of_time(self) -> None:
        """Start the landing; if it has begun already, give up on all further rungs."""
        if self.position:
            self._move_to(self.position.given_up())
        self.begin(Kind.TIME)

    def _move_to(self, position: LadderPosition) -> None:
        self.position = position
        if position.rung is not Rung.WAIT:
            self._observers.notify(Landed(position.reason, position.rung))
