"""What becomes of a reply: one method for each way in which a turn can go. Read `Replies.take` first."""

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.loop.context_window import ContextWindow
from run_specialist.loop.ending import ANSWER_CUT, CONTEXT_FULL, Ending
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import Job
from run_specialist.loop.landing import Landing
from run_specialist.loop.spending.account import Account
from run_specialist.loop.tool_calls.dispatcher import Dispatcher
from run_specialist.record.messages import Reply, Stop, ToolCall, ToolResult
from run_specialist.record.outcome import Exit
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response

MAX_PAUSES = 5
"""Pauses in one run before it no longer goes along with them."""


class Replies:
    """Acts on the replies of one run."""

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a run, all of which a turn can touch
        self,
        job: Job,
        account: Account,
        exchange: Exchange,
        dispatcher: Dispatcher,
        descent: Landing,
        room: ContextWindow,
    ) -> None:
        self._job = job
        self._account = account
        self._exchange = exchange
        self._dispatcher = dispatcher
        self._descent = descent
        self._room = room
        self._asked_again: set[str] = set()
        self._last_was_cut = False
        self._pauses = 0

    async def take(self, reply: Reply) -> Ending | None:
        """Act on a reply; None means that the model is to be asked again."""
        was_cut, self._last_was_cut = self._last_was_cut, reply.stop is Stop.TRUNCATED
        match reply.stop:
            # What a reply holds is more certain than what it says of itself.
            case Stop.WANTS_TOOLS | Stop.PAUSED if reply.calls:
                return await self._wants_tools(reply)
            case Stop.ANSWERED | Stop.WANTS_TOOLS:
                return self._said(reply)
            case Stop.PAUSED:
                return self._paused(reply)
            case Stop.TRUNCATED:
                return await self._truncated(reply, again=was_cut)
            case Stop.REFUSED:
                return Ending.failed(f"the model refused to answer ({reply.reason})", Exit.NO_ANSWER)

    def _said(self, reply: Reply) -> Ending | None:
        response = Response.of_text(reply.text, self._job.answer_schema)
        ending = self._answer(response)
        if ending is None and response.reason and reply.text:
            misfit = prompts.text_does_not_fit(response.reason)
            # Calls beside it, in a reply that ended for a reason that nobody knows, are answered too.
            self._exchange.enter(reply, [self._dispatcher.refuse(call, misfit) for call in reply.calls])
            if not reply.calls:
                self._exchange.transcript.say(misfit)
        return ending

    def _answer(self, response: Response) -> Ending | None:
        """Take an answer; None when it is empty or out of shape, which is asked for again once each."""
        if not response.answer.strip():
            if self._may_ask_again(Stop.ANSWERED):
                return None
            return Ending.failed("the model ended twice without an answer", Exit.NO_ANSWER)
        if response.reason:
            return None if self._may_ask_again("schema") else Ending.out_of_shape(response)
        return Ending.answered(response, at_limit=self._descent.is_landing)

    async def _wants_tools(self, reply: Reply) -> Ending | None:
        response = Response.among(reply.calls, self._job.answer_schema)
        if response is not None:
            ending = self._answer(response)
            if ending is not None or response.reason:
                self._exchange.enter(reply, [self._leave(call, response) for call in reply.calls])
            return ending
        if self._is_of_a_landing_gone_by(reply):
            self._exchange.enter(reply, self._dispatcher.close(reply.calls))
            return None
        left = self._account.limit(Kind.TOOL_CALLS).remaining
        room = 0 if self._descent.is_landing else len(reply.calls) if left is None else int(left)
        results = await self._dispatcher.run(reply.calls[:room], reply.calls[room:])
        self._exchange.enter(reply, results)
        self._descent.was_ignored()
        if room < len(reply.calls):
            self._descent.stop_waiting(self._account.budget)
        return None

    def _is_of_a_landing_gone_by(self, reply: Reply) -> bool:
        """Tell whether a reply came in a landing of an earlier going: then none of its calls was to be run."""
        past = self._job.past
        return reply is past.pending and past.pending_in_landing and not self._descent.is_landing

    def _leave(self, call: ToolCall, response: Response) -> ToolResult:
        """Answer a call of a turn in which `respond` was called."""
        if call.name != RESPOND:
            return self._dispatcher.refuse(call, prompts.NOT_RUN_BESIDE_RESPOND.format(tool=call.name))
        if response.reason:
            return ToolResult(call.id, prompts.answer_does_not_fit(response.reason), is_error=True)
        return ToolResult(call.id, prompts.DELIVERED)

    def _paused(self, reply: Reply) -> Ending | None:
        self._pauses += 1
        if self._pauses > MAX_PAUSES:
            return Ending.salvaged(f"the model paused more than {MAX_PAUSES} times")
        self._exchange.enter(reply, ())
        self._descent.was_paused()
        return None

    async def _truncated(self, reply: Reply, *, again: bool) -> Ending | None:
        """Ask once more with more room; after that take what there is, and never run a call that was cut."""
        if reply.more_room_helps and self._may_ask_again(Stop.TRUNCATED):
            self._account.give_more_room()
            return None
        if not reply.more_room_helps and await self._room.land_from_less():
            return None
        response = Response.among(reply.calls)
        if response is not None or not reply.calls:
            said = response or Response(answer=reply.text)
            return Ending.cut(said, ANSWER_CUT if reply.more_room_helps else CONTEXT_FULL)
        if not reply.more_room_helps:
            return Ending.salvaged(CONTEXT_FULL)
        cut_off = [self._dispatcher.refuse(call, prompts.CALL_CUT_OFF.format(tool=call.name)) for call in reply.calls]
        self._exchange.enter(reply, cut_off)
        self._descent.was_ignored()
        if again:
            self._descent.begin(Kind.TOKENS)
        return None

    def _may_ask_again(self, what: str) -> bool:
        """Say whether something may be asked for a second time; once a run, and it is no rung."""
        first = what not in self._asked_again
        self._asked_again.add(what)
        return first
