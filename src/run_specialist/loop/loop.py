"""The loop of one run: ask the model, act on its reply, land when a limit is reached.

`Loop.run` repeats turns until one of them ends the run. `exchange` asks, `tool_calls` runs calls, `landing` ends work.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace

from run_specialist import budget as units
from run_specialist import prompts
from run_specialist.budget import Kind, Phase, Rung
from run_specialist.errors import ChoiceRefused, ContextExceeded, ProviderError, UsageError
from run_specialist.loop import evidence
from run_specialist.loop.account import rounded
from run_specialist.loop.checkpoint import Checkpoint
from run_specialist.loop.ending import ABORTED, CONTEXT_FULL, Ending
from run_specialist.loop.evidence import ReturnReason
from run_specialist.loop.exchange import Exchange, opening_tokens
from run_specialist.loop.first_search import FirstSearch
from run_specialist.loop.job import RunContext
from run_specialist.loop.landing import Landing
from run_specialist.loop.tool_calls import Dispatcher
from run_specialist.prompts import Objection
from run_specialist.providers.base import NO_MATCH, WEAK_MATCH, Choice
from run_specialist.providers.choose import ModelChain
from run_specialist.record.events import ModelChanged, Resumed, Steered, Warned
from run_specialist.record.messages import Reply, Stop, ToolCall, ToolResult, sendable, server_calls
from run_specialist.record.outcome import ErrorKind, Evidence, Exit
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.tools.respond import Response

# Paused turns accepted in one run.
_MAX_PAUSES = 5
# Why an answer without a language model is partial, by stop reason.
_MATCHES = {
    WEAK_MATCH: "weak match: no file holds enough of the words of the question",
    NO_MATCH: "no match: the files hold no answer to the question",
}


class Loop:
    """The turns of one run."""

    def __init__(self, run: RunContext, exchange: Exchange, dispatcher: Dispatcher, checkpoint: Checkpoint) -> None:
        self._run = run
        self._exchange = exchange
        self._dispatcher = dispatcher
        self._checkpoint = checkpoint
        self.landing = Landing(run)
        self._first_search = FirstSearch(run, exchange, dispatcher, checkpoint)
        self._was_summarized = self._was_cut = self._last_was_truncated = False
        self._retried: set[str] = set()
        self._pauses = 0
        # Failed models, each with the reason.
        self._failures: list[str] = []
        self.unheard: list[str] = []
        """What the user has added, and no request has carried yet."""

    async def run(self) -> Ending:
        """Repeat turns until one of them ends the run.

        Raises ProviderError and StoreLost.
        """
        await self._first_search.begin()
        ending = await self._resume()
        while ending is None:
            if self._run.stop.is_requested:
                return ABORTED
            self.landing.begin_if_spent(self._run.account.budget)
            if self.landing.is_active:
                self._first_search.leave_short()
                if self.landing.is_over:
                    limit = self._run.account.limit(self.landing.reason)
                    amount = limit.kind.label if limit.limit is None else units.amount(limit.kind, limit.limit)
                    error = f"no answer at the limit of {amount}; raise {limit.kind.key} to continue"
                    return Ending("partial", error=error)
            self._tell_what_was_added()
            await self._checkpoint.record_and_wait()
            if not await self._make_room():
                # That began the landing, or the run is to stop: the next turn acts on it.
                continue
            reply = await self._ask()
            if reply is None or self._run.stop.is_now:
                # A reply that arrived nevertheless is not acted upon; `close` enters it into the transcript.
                continue
            ending = await self._take(reply)
        return ending

    def add(self, text: str) -> bool:
        """Let the next request carry a text of the user; return False if none follows that could still use it."""
        if self.landing.is_active or self._run.stop.is_requested:
            return False
        self.unheard.append(text)
        return True

    def _tell_what_was_added(self) -> None:
        """Add the texts of the user after the newest results; the first request has only the question."""
        turns, transcript = self._run.account.turns, self._exchange.transcript
        # A turn that the API has paused is sent back unchanged.
        if self.unheard and turns and transcript.messages()[-1].role == "user" and not self._first_search.is_short:
            for text in self.unheard:
                transcript.add(prompts.ADDS + text)
                self._run.observers.notify(Steered(turns + 1, text))
            self.unheard.clear()

    async def _ask(self) -> Reply | None:
        """Send one request; None if there is no reply, and the next turn uses what was learned from the failure."""
        in_landing = self.landing.is_active
        try:
            reply = await self._exchange.ask(self.landing.choice, self.landing.instruction, in_landing=in_landing)
        except ChoiceRefused:
            if not self._first_search.leave_short():
                if self.landing.choice is Choice.AUTO:
                    raise
                self.landing.was_refused()
            return None
        except ContextExceeded:
            if not self._first_search.leave_short() and not await self._shorten_and_land():
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
            ending = await self._take(reply)
        if note is None or (ending and note.question is None):
            return ending
        if ending:
            # The reply that ended the run becomes history, and a further question follows.
            self.close()
        text = prompts.resumed(self._run.account.budget, note.changed, note.question, note.remarks)
        self._exchange.transcript.add(text)
        total = self._run.account.total
        cost, tokens = rounded(total.cost_usd), total.usage.total_tokens
        self._run.observers.notify(Resumed(self._run.job.run_id, state.snapshot.used, text, tokens, cost))
        return None

    # Act on each kind of reply; an answer may be returned to the model once.

    async def _take(self, reply: Reply) -> Ending | None:
        """Act on a reply; return None if the model is to be asked again."""
        self._dispatcher.book_server_calls(reply)
        ending = await self._act_on(reply)
        if ending and ending.response and reply.reason in _MATCHES:
            ending = replace(ending, status="partial", error=ending.error or _MATCHES[reply.reason])
        return replace(ending, by_reply=True) if ending else None

    def close(self) -> None:
        """Add a reply that was not acted upon to the transcript, with a result for each of its calls."""
        reply = self._exchange.open_reply
        if reply is not None and reply.stop is not Stop.REFUSED and sendable(reply.content):
            self._exchange.enter(reply, self._dispatcher.close(reply.calls))

    async def _act_on(self, reply: Reply) -> Ending | None:
        if self._first_search.is_short:
            verdict = self._judge(response) if (response := self._first_search.response(reply)) else None
            if isinstance(verdict, Objection):
                # A second short request takes a fraction of the time of the loop.
                self._exchange.enter(reply, ())
                self._exchange.transcript.say(verdict.to_text)
                return None
            if verdict is None:
                self._first_search.leave_short(reply)
            return verdict
        was_truncated, self._last_was_truncated = self._last_was_truncated, reply.stop is Stop.TRUNCATED
        match reply.stop:
            # The calls in a reply are more reliable than its stop reason.
            case Stop.WANTS_TOOLS | Stop.PAUSED if reply.calls:
                return await self._wants_tools(reply)
            case Stop.ANSWERED | Stop.WANTS_TOOLS:
                return self._answered_in_text(reply)
            case Stop.PAUSED:
                return self._paused(reply)
            case Stop.TRUNCATED:
                return await self._truncated(reply, again=was_truncated)
            case Stop.REFUSED:
                why = f"the model refused to answer ({reply.reason})"
                return Ending("failed", error=why, exit_code=Exit.NO_ANSWER)

    def _answered_in_text(self, reply: Reply) -> Ending | None:
        verdict = self._judge(self._exchange.response or Response.of_text(reply.text, self._run.job.answer_schema))
        if not isinstance(verdict, Objection):
            return verdict
        # A reply without text does not enter the transcript: the same request is sent again.
        if reply.text:
            # A reply with an unknown stop reason may contain calls; each needs a result.
            self._exchange.enter(reply, [self._dispatcher.refuse(call, verdict.to_text) for call in reply.calls])
            if not reply.calls:
                self._exchange.transcript.say(verdict.to_text)
        return None

    def _judge(self, response: Response) -> Ending | Objection | None:
        """Accept an answer, or object to it, once per reason; return None to send another request."""
        if not response.answer.strip():
            if not self._use_retry(Stop.ANSWERED):
                why = "the model ended twice without an answer"
                return Ending("failed", error=why, exit_code=Exit.NO_ANSWER)
            return prompts.does_not_fit(response.reason) if response.reason else None
        if response.reason:
            if self._use_retry("schema"):
                return prompts.does_not_fit(response.reason)
            return _partial(response, f"the answer does not match output_schema: {response.reason}")
        verdict = self._quotes_verdict(response)
        return verdict or self._first_search.ending("landed" if self.landing.is_active else "answered", response)

    async def _wants_tools(self, reply: Reply) -> Ending | None:
        response = Response.among(reply.calls, self._run.job.answer_schema)
        if response is None and self._is_from_an_earlier_landing(reply):
            # No call could be run then; the model may make them again.
            self._exchange.enter(reply, self._dispatcher.close(reply.calls))
        elif response is None:
            await self._run_calls(reply)
        elif not self._is_from_an_earlier_landing(reply) and self.are_too_early(reply.calls, response):
            self._exchange.returned.add(ReturnReason.TOO_EARLY, response)
            await self._run_calls(reply)
        else:
            # No other call in a turn that calls `respond` is run.
            self._dispatcher.forget_interrupted()
            verdict = self._judge(response)
            if verdict is None:
                return None
            objection = verdict if isinstance(verdict, Objection) else None
            beside = objection.beside if objection else prompts.NOT_RUN_BESIDE_RESPOND
            to_call = objection.to_call if objection else prompts.DELIVERED
            results = [
                ToolResult(call.id, to_call, is_error=objection is not None)
                if call.name == RESPOND
                else self._dispatcher.refuse(call, beside.format(tool=call.name))
                for call in reply.calls
            ]
            self._exchange.enter(reply, results)
            return None if isinstance(verdict, Objection) else verdict
        return None

    async def _run_calls(self, reply: Reply) -> None:
        """Run the calls that the budget allows, and skip the rest; `respond` among them is not accepted."""
        wanted = sum(call.name != RESPOND for call in reply.calls)
        remaining = self._run.account.limit(Kind.TOOL_CALLS).remaining
        affordable = wanted if remaining is None else int(remaining)
        to_run = 0 if self.landing.is_active else affordable
        self._exchange.enter(reply, await self._dispatcher.run(reply.calls, to_run))
        # Does nothing before the landing.
        self.landing.was_ignored()
        if to_run < wanted:
            self.landing.calls_were_skipped(self._run.account.budget)

    def _is_from_an_earlier_landing(self, reply: Reply) -> bool:
        """Return whether a reply arrived in a landing before the run was resumed; its calls must not be run."""
        pending = self._run.job.resume_state.pending
        return pending is not None and reply is pending.reply and pending.landing and not self.landing.is_active

    def _paused(self, reply: Reply) -> Ending | None:
        # With a tool that the API has run, the limits of the run bound the pauses.
        if not server_calls(reply.content):
            self._pauses += 1
        if self._pauses > _MAX_PAUSES:
            return Ending("partial", error=f"the model paused more than {_MAX_PAUSES} times")
        self._exchange.enter(reply, ())
        self.landing.was_paused()
        return None

    async def _truncated(self, reply: Reply, *, again: bool) -> Ending | None:
        """Retry once with a larger `max_tokens`; then accept the received part, but never run a truncated call.

        again: whether the reply before it was truncated, too.
        """
        if reply.more_room_helps and self._use_retry(Stop.TRUNCATED):
            self._run.account.raise_max_tokens()
            return None
        if not reply.more_room_helps and await self._shorten_and_land():
            return None
        response = Response.among(reply.calls) or self._exchange.response
        if response is not None or not reply.calls:
            received = response or Response(answer=reply.text)
            if received.answer.strip():
                received = received.model_copy(update={"answer": f"{received.answer.rstrip()}\n{prompts.TRUNCATED}"})
            if reply.more_room_helps:
                return _partial(received, "the answer was cut off at the model's length limit")
            return _partial(received, CONTEXT_FULL, "context_exceeded")
        if not reply.more_room_helps:
            return Ending("partial", error=CONTEXT_FULL, error_kind="context_exceeded")
        refused = [self._dispatcher.refuse(call, prompts.CALL_CUT_OFF.format(tool=call.name)) for call in reply.calls]
        self._exchange.enter(reply, refused)
        self.landing.was_ignored()
        if again:
            self.landing.begin(Kind.TOKENS)
        return None

    def _use_retry(self, what: str) -> bool:
        """Use up the one retry of its kind; return False if it was used before. A retry is not a rung of the ladder."""
        is_first = what not in self._retried
        self._retried.add(what)
        return is_first

    def are_too_early(self, calls: Sequence[ToolCall], response: Response) -> bool:
        """Return whether the calls in the same turn must run first, because the answer cannot know their results.

        The answer is accepted immediately in a landing, without budget for the calls, or if all its quotes were already
        read.
        """
        has_others = any(call.name != RESPOND for call in calls)
        if not has_others or self.landing.is_active or ReturnReason.TOO_EARLY in self._exchange.returned.reasons:
            return False
        budget = self._run.account.budget
        has_budget = budget.phase is not Phase.SPENT and budget[Kind.TOOL_CALLS].remaining != 0
        checked = self._checked(response)
        return has_budget and not (checked and all(quote.verified for quote in checked))

    def _quotes_verdict(self, response: Response) -> Ending | Objection | None:
        """Apply the evidence policy; return the objection, or the ending if none is possible; None = acceptable."""
        # A question to the asker claims nothing.
        if self._run.job.settings.evidence != "require" or response.question:
            return None
        checked = self._checked(response)
        # An answer may state, after a call, what was not found.
        is_founded = any(quote.verified for quote in checked) or (response.gaps and self._dispatcher.executed)
        doubtful = [one for one in evidence.support(self._run.job, response, checked) if not one.is_borne_out]
        if is_founded and not doubtful:
            return None
        settings, position = self._run.job.settings, self.landing.position
        if position is None:
            may_reply_again = self._run.account.budget.phase is not Phase.SPENT or settings.landing != "stop"
        else:
            may_reply_again = position.answered().rung is not Rung.SALVAGE
        reason = ReturnReason.NOT_BORNE_OUT if is_founded else ReturnReason.WITHOUT_QUOTE
        if may_reply_again and reason not in self._exchange.returned.reasons:
            self._exchange.returned.add(reason, response)
            # The request was answered; the rung stays.
            self.landing.was_paused()
            if is_founded:
                return prompts.not_borne_out([*map(str, doubtful)], in_short=self._first_search.is_short)
            return prompts.without_quote([quote.quote or quote.source for quote in checked])
        if is_founded:
            return None
        found = f"0 of {len(checked)} quotes found"
        return Ending("partial", response, f"no quote of the answer was found in what was read: {found}")

    def _checked(self, response: Response) -> tuple[Evidence, ...]:
        return evidence.quotes(self._run.job, response, self._dispatcher.read_by_model, self._run.account.children)

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
        elif transcript.messages()[-1].role == "assistant":
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


def _partial(response: Response, error: str, kind: ErrorKind | None = None) -> Ending:
    """Return the ending of a run with a part of an answer; without any, one is salvaged."""
    return Ending("partial", response if response.answer.strip() else None, error, error_kind=kind)
