"""The loop of one run: ask the model, act on its reply, land when a limit is reached.

`Loop.run` repeats turns until one of them ends the run; `Replies.take` acts on each kind of reply.
"""

import asyncio
import math

from run_specialist import budget as units
from run_specialist import prompts
from run_specialist.budget import Kind
from run_specialist.errors import ChoiceRefused, ContextExceeded, ProviderError, UsageError
from run_specialist.loop.account import rounded
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.ending import ABORTED, Ending
from run_specialist.loop.exchange import Exchange, opening_tokens
from run_specialist.loop.job import RunContext
from run_specialist.loop.landing import Landing
from run_specialist.loop.replies import Replies
from run_specialist.loop.tool_calls import Dispatcher
from run_specialist.providers.base import Choice
from run_specialist.providers.choose import ModelChain
from run_specialist.record.events import ModelChanged, Resumed, Warned
from run_specialist.record.messages import Reply


class Loop:
    """The turns of one run."""

    def __init__(self, run: RunContext, exchange: Exchange, dispatcher: Dispatcher, checkpoint: Checkpoint) -> None:
        self._run = run
        self._exchange = exchange
        self._checkpoint = checkpoint
        self.landing = Landing(run)
        self.replies = Replies(run, exchange, dispatcher, self.landing, self._shorten_and_land)
        self._was_summarized = self._was_cut = False
        # Failed models, each with the reason.
        self._failures: list[str] = []

    async def run(self) -> Ending:
        """Repeat turns until one of them ends the run.

        Raises ProviderError and StoreLost.
        """
        ending = await self._resume()
        while ending is None:
            if self._run.stop.is_requested:
                return ABORTED
            self.landing.begin_if_spent(self._run.account.budget)
            if self.landing.is_over:
                limit = self._run.account.limit(self.landing.reason)
                amount = limit.kind.label if limit.limit is None else units.amount(limit.kind, limit.limit)
                error = f"no answer at the limit of {amount}; raise {limit.kind.key} to continue"
                return Ending("partial", error=error)
            await self._checkpoint.record_and_wait()
            if not await self._make_room():
                # That began the landing, or the run is to stop: the next turn acts on it.
                continue
            reply = await self._ask()
            if reply is None or self._run.stop.is_now:
                # A reply that arrived nevertheless is not acted upon; `Replies.close` enters it into the transcript.
                continue
            ending = await self.replies.take(reply)
        return ending

    async def _ask(self) -> Reply | None:
        """Send one request; None if there is no reply, and the next turn uses what was learned from the failure."""
        in_landing = self.landing.is_active
        try:
            reply = await self._exchange.ask(self.landing.choice, self.landing.instruction, in_landing=in_landing)
        except ChoiceRefused:
            if self.landing.choice is Choice.AUTO:
                raise
            self.landing.was_refused()
            return None
        except ContextExceeded:
            if not await self._shorten_and_land():
                raise
            return None
        except ProviderError as error:
            await self._continue_with_next_model(error, in_landing=in_landing)
            return None
        if reply is None and not self._run.stop.is_requested:
            self.landing.ran_out_of_time()
        return reply

    async def _resume(self) -> Ending | None:
        """Act on a reply that arrived before the run was interrupted, and inform the model of changes."""
        state, note = self._run.job.resume_state, self._run.job.resume_note
        ending = None
        if (received := state.pending) is not None and not self._run.stop.is_requested:
            self._run.account.spend(received.seconds, Kind.TIME)
            reply, choice, in_landing = received.reply, received.choice, received.landing
            self._exchange.receive(reply, choice, received.landing_instruction, in_landing=in_landing)
            if in_landing:
                self.landing.begin_if_spent(self._run.account.budget, choice)
            ending = await self.replies.take(reply)
        if note is None or (ending and note.question is None):
            return ending
        if ending:
            # The reply that ended the run becomes history, and a further question follows.
            self.replies.close()
        text = prompts.resumed(self._run.account.budget, note.changed, note.question, note.remarks)
        self._exchange.transcript.add(text)
        total = self._run.account.total
        cost, tokens = rounded(total.cost_usd), total.usage.total_tokens
        self._run.observers.notify(Resumed(self._run.job.run_id, state.snapshot.used, text, tokens, cost))
        return None

    # Make room for the next request. Once the run must stop, no summary begins; a running one is completed, because its
    # notes are already paid for.

    async def _make_room(self) -> bool:
        """Shorten a transcript longer than `summarize_at`; return False if that began the landing, or to stop."""
        if self._run.stop.is_requested:
            return False
        position, summarize_at = self.landing.position, self._run.job.settings.summarize_at
        # A landing for lack of time has none left for a summary.
        if summarize_at is None or (position and position.reason is Kind.TIME):
            return True
        was_landing, transcript = position is not None, self._exchange.transcript
        was_over = transcript.tokens > summarize_at
        await self._shorten(summarize_at, in_landing=was_landing)
        self.landing.begin_if_spent(self._run.account.budget)
        if was_over and transcript.history_tokens > (self._run.job.longest_history or math.inf):
            # The calls of old turns stay. The results of another turn might not fit beside them.
            self.landing.begin(Kind.TOKENS)
        return self.landing.is_active is was_landing and not self._run.stop.is_requested

    async def _shorten_and_land(self) -> bool:
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
            self.landing.begin(Kind.TOKENS)
        return is_shorter

    async def _shorten(self, over: int = 0, *, in_landing: bool) -> bool:
        is_shorter = await self._exchange.shorten(over, in_landing=in_landing)
        if is_shorter:
            await self._checkpoint.record_and_wait()
        return is_shorter

    # Continue with the next model when the current one cannot answer; the gathered results are kept. The transcript for
    # the new model is stored first; then the failed turn is requested again.

    async def _continue_with_next_model(self, error: ProviderError, *, in_landing: bool) -> None:
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
                is_late = isinstance(failure, TimeoutError)
                why = "it was not ready within the time limit" if is_late else str(failure)
                self._failures.append(f"{named}: {why}")
                self._run.observers.notify(Warned(f"{named} cannot be asked ({why})"))
                continue
            self._model_changed(before, reason, error)
            return
        raise self._with_all_reasons(error)

    def _model_changed(self, before: str, reason: str, error: ProviderError) -> None:
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
        self.landing.change_model()
        # In this order: after a crash between the two, the model before can read the new transcript, too.
        self._run.observers.record(self._checkpoint.new_record())
        self._run.observers.record(self._run.job.opened())
        price = None if cold is None else price
        about = "unknown" if price is None else f"about {units.dollars(price)}"
        changed = f"the run continues with {model}"
        if cold is not None:
            changed += f", which reads about {units.amount(Kind.TOKENS, cold)} without a cache, price {about}"
        changed += f", because {before} cannot answer ({reason})"
        self._run.observers.notify(ModelChanged(turn, before, model, reason, error.kind, lost, cold, price))
        self._run.observers.notify(Warned(f"{changed}; {lost} of {before} were left out" if lost else changed))

    def _with_all_reasons(self, error: ProviderError) -> ProviderError:
        """Return the failure that ends the run; if several models failed, it names each reason, in one line."""
        if not self._failures:
            return error
        own = f"{self._run.job.provider.model}: {error}"
        reasons = dict.fromkeys([*self._failures, own])
        return error.as_final(f"no model of this run answers: {'; '.join(reasons)}")
