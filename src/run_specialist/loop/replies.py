"""Act on each kind of reply; an answer may be returned to the model once."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from run_specialist import prompts
from run_specialist.budget import Kind, Phase, Rung
from run_specialist.loop import evidence
from run_specialist.loop.ending import CONTEXT_FULL, Ending
from run_specialist.loop.evidence import ReturnReason
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import RunContext
from run_specialist.loop.landing import Landing
from run_specialist.loop.tool_calls import Dispatcher
from run_specialist.prompts import Objection
from run_specialist.record.messages import Reply, Stop, ToolCall, ToolResult, has_server_calls, sendable
from run_specialist.record.outcome import ErrorKind, Evidence, Exit
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response

MAX_PAUSES = 5
"""Paused turns accepted in one run."""


class Replies:
    """Acts on the replies of one run."""

    def __init__(
        self,
        run: RunContext,
        exchange: Exchange,
        dispatcher: Dispatcher,
        landing: Landing,
        shorten_and_land: Callable[[], Awaitable[bool]],
    ) -> None:
        self._run = run
        self._exchange = exchange
        self._dispatcher = dispatcher
        self._landing = landing
        self._shorten_and_land = shorten_and_land
        self._retried: set[str] = set()
        self._last_was_truncated = False
        self._pauses = 0

    async def take(self, reply: Reply) -> Ending | None:
        """Act on a reply; return None if the model is to be asked again."""
        self._dispatcher.book_server_calls(reply)
        ending = await self._act_on(reply)
        return replace(ending, by_reply=True) if ending else None

    def close(self) -> None:
        """Add a reply that was not acted upon to the transcript, with a result for each of its calls."""
        reply = self._exchange.open_reply
        if reply is not None and reply.stop is not Stop.REFUSED and sendable(reply.content):
            self._exchange.enter(reply, self._dispatcher.close(reply.calls))

    async def _act_on(self, reply: Reply) -> Ending | None:
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
        return verdict or Ending("landed" if self._landing.is_active else "answered", response)

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
        wanted = [call for call in reply.calls if call.name != RESPOND]
        remaining = self._run.account.limit(Kind.TOOL_CALLS).remaining
        affordable = len(wanted) if remaining is None else int(remaining)
        to_run = 0 if self._landing.is_active else affordable
        results = iter(await self._dispatcher.run(wanted[:to_run], wanted[to_run:]))
        in_call_order = [
            ToolResult(call.id, prompts.TOO_EARLY, is_error=True) if call.name == RESPOND else next(results)
            for call in reply.calls
        ]
        self._exchange.enter(reply, in_call_order)
        # Does nothing before the landing.
        self._landing.was_ignored()
        if to_run < len(wanted):
            self._landing.calls_were_skipped(self._run.account.budget)

    def _is_from_an_earlier_landing(self, reply: Reply) -> bool:
        """Return whether a reply arrived in a landing before the run was resumed; its calls must not be run."""
        pending = self._run.job.resume_state.pending
        return pending is not None and reply is pending.reply and pending.landing and not self._landing.is_active

    def _paused(self, reply: Reply) -> Ending | None:
        # With a tool that the API has run, the limits of the run bound the pauses.
        if not has_server_calls(reply.content):
            self._pauses += 1
        if self._pauses > MAX_PAUSES:
            return Ending("partial", error=f"the model paused more than {MAX_PAUSES} times")
        self._exchange.enter(reply, ())
        self._landing.was_paused()
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
        self._landing.was_ignored()
        if again:
            self._landing.begin(Kind.TOKENS)
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
        if not has_others or self._landing.is_active or ReturnReason.TOO_EARLY in self._exchange.returned.reasons:
            return False
        budget = self._run.account.budget
        has_budget = budget.phase is not Phase.SPENT and budget[Kind.TOOL_CALLS].remaining != 0
        checked = self._checked(response)
        return has_budget and not (checked and all(quote.verified for quote in checked))

    def _quotes_verdict(self, response: Response) -> Ending | Objection | None:
        """Apply the evidence policy; return the objection, or the ending if none is possible; None = acceptable."""
        if self._run.job.settings.evidence != "require":
            return None
        checked = self._checked(response)
        # An answer may state, after a call, what was not found.
        if any(quote.verified for quote in checked) or (response.gaps and self._dispatcher.executed):
            return None
        settings, position = self._run.job.settings, self._landing.position
        if position is None:
            may_reply_again = self._run.account.budget.phase is not Phase.SPENT or settings.landing != "stop"
        else:
            may_reply_again = position.answered().rung is not Rung.SALVAGE
        if ReturnReason.WITHOUT_QUOTE in self._exchange.returned.reasons or not may_reply_again:
            found = f"0 of {len(checked)} quotes found"
            return Ending("partial", response, f"no quote of the answer was found in what was read: {found}")
        self._exchange.returned.add(ReturnReason.WITHOUT_QUOTE, response)
        # The request was answered; the rung stays.
        self._landing.was_paused()
        return prompts.without_quote([quote.quote or quote.source for quote in checked])

    def _checked(self, response: Response) -> tuple[Evidence, ...]:
        return evidence.quotes(self._run.job, response, self._dispatcher.read_by_model, self._run.account.children)


def _partial(response: Response, error: str, kind: ErrorKind | None = None) -> Ending:
    """Return the ending of a run with a part of an answer; without any, one is salvaged."""
    return Ending("partial", response if response.answer.strip() else None, error, error_kind=kind)
