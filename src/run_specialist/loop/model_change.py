"""Continue a run with its next model when the current one cannot answer; the gathered results are kept.

The transcript for the new model is stored first; then the failed turn is requested again.
"""

import asyncio

from run_specialist import budget, prompts
from run_specialist.budget import Kind
from run_specialist.errors import ProviderError, UsageError
from run_specialist.loop.account import rounded
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.exchange import Exchange, opening_tokens
from run_specialist.loop.job import RunContext
from run_specialist.loop.landing import Landing
from run_specialist.providers.choose import ModelChain
from run_specialist.record.events import ModelChanged, Warned

CHANGED = "the run continues with {}{}, because {} cannot answer ({})"
COLD = ", which reads about {} without a cache, price {}"
LEFT_OUT = "; {} of {} were left out"
CANNOT_BE_ASKED = "{} cannot be asked ({})"
NONE_ANSWERS = "no model of this run answers: {}"
NO_TIME = "it was not ready within the time limit"


class ModelChange:
    """Switches a run to its next model."""

    def __init__(self, run: RunContext, exchange: Exchange, landing: Landing, checkpoint: Checkpoint) -> None:
        self._run = run
        self._exchange = exchange
        self._landing = landing
        self._checkpoint = checkpoint
        self._failures: list[str] = []
        """Failed models, each with the reason."""

    async def go_on_after(self, error: ProviderError, *, in_landing: bool) -> None:
        """Switch to the next usable model.

        error: the failure of the current model.
        in_landing: whether the failed request was part of the landing.
        Raises the error, with the reasons of all earlier models, if no other model is left or could help.
        """
        chain = self._run.job.provider
        if not isinstance(chain, ModelChain) or not (left := chain.left_after(error)):
            raise self._with_all_reasons(error)
        chain.following = left
        before, reason = chain.model, self._run.job.hide(str(error))
        self._failures.append(f"{before}: {reason}")
        while chain.following:
            named = chain.following[0].model
            try:
                async with asyncio.timeout(self._run.account.seconds_left(in_landing=in_landing)):
                    await chain.advance()
            except (UsageError, TimeoutError) as failure:
                why = NO_TIME if isinstance(failure, TimeoutError) else str(failure)
                self._failures.append(f"{named}: {why}")
                self._run.observers.notify(Warned(CANNOT_BE_ASKED.format(named, why)))
                continue
            self._change(before, reason, error)
            return
        raise self._with_all_reasons(error)

    def _change(self, before: str, reason: str, error: ProviderError) -> None:
        model, turn = self._run.job.provider.model, self._run.account.turns + 1
        lost = self._exchange.change_model()
        transcript = self._exchange.transcript
        if lost:
            transcript.add(prompts.other_model(before))
        elif transcript.ends_with_model:
            transcript.add(prompts.GO_ON)
        cold = None
        if turn > 1:
            # The estimated input of the next request, which the new model has not cached.
            cold = transcript.tokens + (0 if transcript.history_tokens else opening_tokens(self._run.job.opening))
        price = rounded(self._run.account.change_model(reason, cold))
        self._landing.change_model()
        # In this order: after a crash between the two, the model before can read the new transcript, too.
        self._run.observers.record(self._checkpoint.new_record())
        self._run.observers.record(self._run.job.opened())
        price = None if cold is None else price
        about = "unknown" if price is None else f"about {budget.dollars(price)}"
        reading = "" if cold is None else COLD.format(budget.amount(Kind.TOKENS, cold), about)
        left_out = LEFT_OUT.format(lost, before) if lost else ""
        self._run.observers.notify(ModelChanged(turn, before, model, reason, error.kind, lost, cold, price))
        self._run.observers.notify(Warned(CHANGED.format(model, reading, before, reason) + left_out))

    def _with_all_reasons(self, error: ProviderError) -> ProviderError:
        """Return the failure that ends the run; if several models failed, it names each reason, in one line."""
        if not self._failures:
            return error
        own = f"{self._run.job.provider.model}: {error}"
        reasons = dict.fromkeys([*self._failures, own])
        return error.as_final(NONE_ANSWERS.format("; ".join(reasons)))
