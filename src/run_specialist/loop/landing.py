"""The landing of one run while it happens: which rung it stands on, what that asks for, and what is said."""

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind, Phase
from run_specialist.budget.ladder import LadderPosition, Rung, ladder
from run_specialist.loop.job import Job
from run_specialist.loop.observing.observers import Observers
from run_specialist.providers.base import Choice
from run_specialist.record.events import Landed

CHOICES = {Rung.FORCE: Choice.RESPOND, Rung.NONE: Choice.NONE}
"""What a rung asks for; every other request leaves the choice to the model."""


class Landing:
    """Goes down the ladder, and tells of each rung that is tried."""

    def __init__(self, job: Job, audience: Observers) -> None:
        """Stay up until `begin`."""
        self._job = job
        self._audience = audience
        self.landing: LadderPosition | None = None
        """None while the run is not landing."""

    def begin(self, reason: Kind) -> None:
        """Start to land, unless it is landing already."""
        if self.landing is None:
            rungs = ladder(self._job.landing, forced_choice=self._job.provider.capabilities.forced_choice)
            self._stand_on(LadderPosition(reason, rungs))

    def begin_if_spent(self, budget: Budget) -> None:
        """Start to land if nothing remains but what is held back for it."""
        if budget.phase is Phase.SPENT:
            self.begin(budget.tightest.kind)

    @property
    def is_landing(self) -> bool:
        """True from the first rung on."""
        return self.landing is not None

    @property
    def reason(self) -> Kind:
        """The limit that ends the work, or would first."""
        return self.landing.reason if self.landing else Kind.TOOL_CALLS

    @property
    def choice(self) -> Choice:
        """What the next request leaves to the model."""
        return CHOICES.get(self.landing.rung, Choice.AUTO) if self.landing else Choice.AUTO

    @property
    def words(self) -> str | None:
        """Our last words in the next request."""
        return prompts.last_words(self.landing.rung if self.landing else None, self._job.landing_prompt)

    @property
    def is_over(self) -> bool:
        """True when no rung is left, and the answer must be made of what was gathered."""
        return self.landing is not None and self.landing.rung is Rung.SALVAGE

    def was_refused(self) -> None:
        """Go on without forcing: the endpoint does not take it."""
        if self.landing:
            self._stand_on(self.landing.refused())

    def was_ignored(self) -> None:
        """Go on to the next rung: the model did something else."""
        if self.landing:
            self._stand_on(self.landing.ignored())

    def stop_waiting(self, budget: Budget) -> None:
        """Go on to the finalize notice: the model has asked for calls beyond the limit."""
        self.begin_if_spent(budget)
        if self.landing and self.landing.rung is Rung.WAIT:
            self.was_ignored()

    def was_paused(self) -> None:
        """Stay on the rung, for the model goes on where it was; the request counts all the same."""
        if self.landing:
            self.landing = self.landing.answered()

    def give_up(self) -> None:
        """Ask no more."""
        if self.landing:
            self._stand_on(self.landing.given_up())

    def _stand_on(self, landing: LadderPosition) -> None:
        self.landing = landing
        if landing.rung is not Rung.WAIT:
            self._audience.tell(Landed(landing.reason, landing.rung))
