"""A run that has ended, with its outcome from the store."""

from dataclasses import dataclass

from run_specialist.record.events import Listener
from run_specialist.record.outcome import Outcome


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has already ended; has the methods of `Run`, and sends nothing."""

    ended: Outcome
    """The outcome, equal to the one that the run returned."""

    @property
    def run_id(self) -> str:
        """The id in the store and in the outcome."""
        return self.ended.run_id

    @property
    def cost_before(self) -> float:
        """The known cost of the run [USD]."""
        return self.ended.cost_usd or 0.0

    @property
    def is_kept(self) -> bool:
        """True: the run is stored, so that it can be resumed."""
        return True

    async def outcome(self) -> Outcome:
        """Return the outcome immediately."""
        return self.ended

    def listen(self, listener: Listener) -> None:
        """Do nothing: no event follows."""

    def abort(self, *, after_turn: bool = False) -> None:
        """Do nothing: the run has ended."""
