"""The answers of a run that were returned to the model, once per reason; the newest is kept if no other follows."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from run_specialist.loop.job import Job
from run_specialist.tools.respond import Response


class ReturnReason(StrEnum):
    """Why an answer was returned to the model."""

    TOO_EARLY = "too_early"
    """The same turn contained calls whose results it could not take into account."""
    WITHOUT_QUOTE = "without_quote"
    """None of its quotes was found in the results."""


MARKS = {
    ReturnReason.TOO_EARLY: "[given before the results of the last calls were read]",
    ReturnReason.WITHOUT_QUOTE: "[no quote of this answer was found in what was read]",
}
"""The line that is appended to a returned answer if no other answer followed."""


class ReturnedAnswers:
    """Records why answers were returned, even across an interruption of the run."""

    def __init__(self, job: Job) -> None:
        """Start with the reasons from before the run was resumed; a follow-up question clears them."""
        snapshot, note = job.resume_state.snapshot, job.resume_note
        is_new_question = note is not None and note.question is not None
        self._schema = job.answer_schema
        self.reasons: tuple[str, ...] = () if is_new_question else snapshot.returned
        self.newest: Mapping[str, Any] | None = None if is_new_question else snapshot.returned_answer
        """The newest returned answer, as the input of `respond`."""

    def add(self, why: ReturnReason, response: Response) -> None:
        """Record a returned answer; an empty one is not kept."""
        self.reasons = (*self.reasons, why)
        if response.answer.strip():
            self.newest = response.model_dump()

    @property
    def newest_marked(self) -> Response | None:
        """The newest returned answer, marked with the reason; None if there is none."""
        if self.newest is None:
            return None
        response = Response.parse(self.newest, self._schema)
        marks = [MARKS[why] for why in ReturnReason if why in self.reasons[-1:]]
        return response.model_copy(update={"answer": "\n".join([response.answer.rstrip(), *marks])})
