"""Decide whether an answer is returned to the model because of its quotes: once per reason, if a reply is possible."""

from collections.abc import Sequence

from run_specialist.budget.budget import Kind, Phase
from run_specialist.budget.ladder import Rung
from run_specialist.loop import founded
from run_specialist.loop.ending import Ending
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import RunContext
from run_specialist.loop.landing import Landing
from run_specialist.loop.returned_answers import ReturnReason
from run_specialist.loop.tool_calls.dispatcher import Dispatcher
from run_specialist.record.messages import ToolCall
from run_specialist.record.outcome import Evidence
from run_specialist.tools import answer_prompts
from run_specialist.tools.answer_prompts import Objection
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response


class QuoteRule:
    """Applies the evidence policy to the answers of one run."""

    def __init__(self, run: RunContext, exchange: Exchange, dispatcher: Dispatcher, landing: Landing) -> None:
        self._run = run
        self._exchange = exchange
        self._dispatcher = dispatcher
        self._landing = landing

    def are_too_early(self, calls: Sequence[ToolCall], response: Response) -> bool:
        """Return whether the calls in the same turn must run first, because the answer cannot know their results.

        The answer is accepted immediately in a landing, without budget for the calls, or if all its quotes were already
        read.
        """
        has_others = any(call.name != RESPOND for call in calls)
        if not has_others or self._landing.is_active or ReturnReason.TOO_EARLY in self._exchange.returned.reasons:
            return False
        budget = self._run.account.budget
        has_budget = budget.phase is not Phase.SPENT and budget[Kind.TOOL_CALLS].remaining != 0
        return has_budget and not founded.are_all_verified(self._checked(response))

    def judge(self, response: Response) -> Ending | Objection | None:
        """Return None for an acceptable answer, otherwise the objection, or the ending if no objection is possible."""
        if self._run.job.settings.evidence != "require":
            return None
        checked = self._checked(response)
        if founded.is_founded(response, checked, self._dispatcher.executed):
            return None
        if ReturnReason.WITHOUT_QUOTE in self._exchange.returned.reasons or not self._may_reply_again():
            return Ending.without_quote(response, checked)
        self._exchange.returned.add(ReturnReason.WITHOUT_QUOTE, response)
        # The request was answered; the rung stays.
        self._landing.was_paused()
        return answer_prompts.without_quote([quote.quote or quote.source for quote in checked])

    def _checked(self, response: Response) -> tuple[Evidence, ...]:
        return founded.quotes(self._run.job, response, self._dispatcher.read_by_model, self._run.account.children)

    def _may_reply_again(self) -> bool:
        position = self._landing.position
        if position is not None:
            return position.answered().rung is not Rung.SALVAGE
        return self._run.account.budget.phase is not Phase.SPENT or self._run.job.settings.landing != "stop"
