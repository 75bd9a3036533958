"""The loop of one run: ask the model, act on its reply, land when a limit is reached.

`Loop.run` repeats turns until one of them ends the run; `Replies.take` acts on each kind of reply.
"""

from run_specialist import budget, prompts
from run_specialist.budget import Kind
from run_specialist.errors import ChoiceRefused, ContextExceeded, ProviderError
from run_specialist.loop.account import rounded
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.ending import ABORTED, Ending
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import RunContext
from run_specialist.loop.landing import ContextWindow, Landing
from run_specialist.loop.model_change import ModelChange
from run_specialist.loop.replies import Replies
from run_specialist.loop.tool_calls import Dispatcher
from run_specialist.providers.base import Choice
from run_specialist.record.events import Resumed
from run_specialist.record.messages import Reply


class Loop:
    """The turns of one run."""

    def __init__(self, run: RunContext, exchange: Exchange, dispatcher: Dispatcher, checkpoint: Checkpoint) -> None:
        self._run = run
        self._exchange = exchange
        self._checkpoint = checkpoint
        self.landing = Landing(run)
        self._model_change = ModelChange(run, exchange, self.landing, checkpoint)
        self._window = ContextWindow(run, exchange, self.landing, checkpoint)
        self.replies = Replies(run, exchange, dispatcher, self.landing, self._window)

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
                amount = limit.kind.label if limit.limit is None else budget.amount(limit.kind, limit.limit)
                error = f"no answer at the limit of {amount}; raise {limit.kind.key} to continue"
                return Ending("partial", error=error)
            await self._checkpoint.record_and_wait()
            if not await self._window.make_room():
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
            if not await self._window.shorten_and_land():
                raise
            return None
        except ProviderError as error:
            await self._model_change.go_on_after(error, in_landing=in_landing)
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
