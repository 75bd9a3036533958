"""The landing: which rung comes next, and the shape of its request."""

from run_specialist import prompts
from run_specialist.budget import Budget, Kind, LadderPosition, Phase, Rung, ladder
from run_specialist.loop.job import RunContext
from run_specialist.providers.base import Choice
from run_specialist.record.events import Landed

CHOICES = {Rung.FORCE: Choice.RESPOND, Rung.SCHEMA: Choice.SCHEMA, Rung.NONE: Choice.NONE}
"""The tool choice of each rung; all other requests use AUTO."""
# Rungs without a tool choice, in which an API could continue to run its own tools.
_WITH_TOOLS = {Rung.ORDER, Rung.WAIT, Rung.FINALIZE}
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
            refused = refused | _WITH_TOOLS
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
