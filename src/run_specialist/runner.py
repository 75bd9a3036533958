"""The loop: ask, run the tools, ask again; land when the budget is spent; always end with an outcome.

Read `Run._loop` first, then `Run._take` and the ways in which a turn can go below it.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from run_specialist import prompts
from run_specialist.account import Account, Clock
from run_specialist.audience import Audience
from run_specialist.budget import Kind, Phase
from run_specialist.checkpoint import Checkpoint
from run_specialist.descent import Descent
from run_specialist.dispatch import Dispatcher
from run_specialist.ending import ANSWER_CUT, CONTEXT_FULL, Ending, Gathered, conclude
from run_specialist.errors import ContextExceeded, ForcingRefused, ProviderError
from run_specialist.events import Finished, Listener, Resumed
from run_specialist.exchange import Exchange
from run_specialist.job import Job
from run_specialist.journal import Ended, Forgetful, Journal
from run_specialist.messages import Message, Reply, Stop, ToolCall, ToolResult, sendable
from run_specialist.outcome import Exit, Outcome
from run_specialist.providers.base import Choice, Watch
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response

_log = logging.getLogger(__name__)

MAX_PAUSES = 5
"""Pauses in one run before it no longer goes along with them."""


class Run:
    """One question on its way to its outcome."""

    def __init__(
        self,
        job: Job,
        listener: Listener | None = None,
        watch: Watch | None = None,
        clock: Clock = time.monotonic,
        journal: Journal | None = None,
    ) -> None:
        """Take a job; nothing is asked before `outcome`.

        listener: called with each event.
        watch: called with the pieces of each reply; replies are streamed only then.
        clock: what a limit of time is measured with.
        journal: keeps what happens, so that the run can be resumed; None = it is not kept.
        """
        self._job = job
        self._audience = Audience(listener, watch, journal or Forgetful(), job.past.standing.warnings)
        self._account = Account(job.budget, job.provider, clock, job.past.standing)
        self._stop = asyncio.Event()
        self._exchange = Exchange(job, self._account, self._audience, self._stop)
        self._dispatcher = Dispatcher(
            job.opening.tools,
            job.augmenters,
            job.dispatch,
            self._account,
            self._audience,
            job.archive,
            job.past.earlier,
        )
        self._checkpoint = Checkpoint(self._account, self._audience, self._exchange, self._dispatcher)
        self._descent = Descent(job, self._audience)
        self._acting_on: Reply | None = None
        self._asked_again: set[str] = set()
        self._last_was_cut = False
        self._pauses = 0
        self._task: asyncio.Task[object] | None = None
        self._was_cancelled = False

    def abort(self) -> None:
        """Stop as soon as possible; `outcome` then returns what was gathered. For the thread of the loop."""
        if self._stop.is_set():
            return
        self._stop.set()
        # A listener that aborts stands inside the task: it is let finish, and only what is waited for after it is cut.
        if self._task is not None:
            self._task.get_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        # Once the work is over, a cancellation would strike the caller's own.
        if self._task is not None:
            self._was_cancelled = self._task.cancel()

    @property
    def transcript(self) -> tuple[Message, ...]:
        """All that was said so far, the newest last; after the end every tool call has its result."""
        return tuple(self._exchange.transcript.messages())

    @property
    def is_kept(self) -> bool:
        """True while all that happened is kept, so that the run can be resumed."""
        return not isinstance(self._audience.journal, Forgetful) and not self._checkpoint.is_lost

    async def outcome(self) -> Outcome:
        """Work on the question until there is an outcome; call it once.

        A cancellation that is not ours (`abort`) goes on its way after the last event.
        """
        task = self._task = asyncio.current_task()
        before = task.cancelling() if task else 0
        self._begin()
        cancelled: asyncio.CancelledError | None = None
        try:
            ending = await self._loop()
        except ContextExceeded as error:
            ending = Ending.without_room(str(error))
        except ProviderError as error:
            ending = Ending.failed(str(error), Exit.PROVIDER)
        except asyncio.CancelledError as error:
            ending, cancelled = Ending.aborted(), error
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not cost what was gathered
            _log.debug("the run broke off", exc_info=True)
            ending = Ending.failed(f"internal error: {error!r}; please report it", Exit.NO_ANSWER)
        self._task = None
        outcome = await self._conclude(ending)
        # Our own cancellation ends here; one from outside goes on its way.
        if task and self._was_cancelled:
            task.uncancel()
        if (task and task.cancelling() > before) or (cancelled and not self._was_cancelled):
            raise cancelled or asyncio.CancelledError
        return outcome

    def _begin(self) -> None:
        self._account.start()
        self._audience.journal.write(self._job.opened())
        self._audience.tell(self._job.started())

    async def _conclude(self, ending: Ending) -> Outcome:
        """Close what is open, and hand over nothing that is not kept."""
        self._close()
        self._checkpoint.write()
        await self._checkpoint.surely_kept()
        gathered = Gathered(
            self._account, self._descent.landing, self._dispatcher, self._exchange.last_text, self._audience.warnings
        )
        outcome = conclude(self._job, ending, gathered)
        self._audience.journal.write(Ended(outcome))
        await self._checkpoint.surely_kept()
        self._audience.tell(Finished(outcome))
        return outcome

    def _close(self) -> None:
        """Enter the reply that ended the work, or that it broke off at, with a result for each of its calls."""
        reply, self._acting_on = self._acting_on, None
        if reply is not None and reply.stop is not Stop.REFUSED and sendable(reply.content):
            self._enter(reply, self._dispatcher.close(reply.calls))

    async def _loop(self) -> Ending:
        ending = await self._go_on()
        while ending is None and not self._stop.is_set():
            self._land_if_spent()
            if self._descent.is_over:
                return Ending.spent(self._account.budget[self._reason])
            await self._keep()
            reply = await self._ask() if await self._fits() else None
            ending = await self._act_on(reply) if reply else None
        return ending or Ending.aborted()

    async def _go_on(self) -> Ending | None:
        """Take up a run that was left: act on a reply that had come by then, say what is new."""
        past, news = self._job.past, self._job.news
        ending = None
        if past.pending is not None:
            self._exchange.book(past.pending, landing=past.pending_in_landing)
            if past.pending_in_landing:
                self._land_if_spent()
            ending = await self._act_on(past.pending)
        if news is None or (ending and news.question is None):
            return ending
        self._close()
        note = prompts.resumed(self._account.budget, news.changed, news.question, news.remarks)
        self._exchange.transcript.add(note)
        self._audience.tell(Resumed(self._job.run_id, past.standing.used, note))
        return None

    async def _act_on(self, reply: Reply) -> Ending | None:
        self._acting_on = reply
        ending = await self._take(reply)
        if ending is None:
            self._acting_on = None
            return None
        return replace(ending, by_reply=True)

    async def _keep(self) -> None:
        """Put on record how the run stands, and wait for it; before the first reply there is nothing to lose."""
        self._checkpoint.write()
        if self._account.budget[Kind.TURNS].used:
            await self._checkpoint.kept()

    @property
    def _is_landing(self) -> bool:
        return self._descent.landing is not None

    @property
    def _reason(self) -> Kind:
        """The limit that ends the work, or would first."""
        return self._descent.landing.reason if self._descent.landing else Kind.TOOL_CALLS

    def _land_if_spent(self) -> None:
        if self._account.budget.phase is Phase.SPENT:
            self._descent.begin(self._account.budget.tightest.kind)

    async def _fits(self) -> bool:
        """Shorten a transcript that is too long; False when that spent what was left, and the landing begins."""
        before = self._is_landing
        # A landing for want of time has none to spare for a summary.
        if self._job.summarize_at is not None and not (before and self._reason is Kind.TIME):
            await self._shorten(self._job.summarize_at, landing=before)
            self._land_if_spent()
        return self._is_landing is before

    async def _shorten(self, over: int = 0, *, landing: bool) -> bool:
        shorter = await self._exchange.shorten(over, landing=landing)
        if shorter:
            await self._keep()
        return shorter

    async def _ask(self) -> Reply | None:
        """Send one request; None when there is nothing to act on but the budget."""
        choice = self._descent.choice
        try:
            reply = await self._exchange.ask(choice, self._descent.words, landing=self._is_landing)
        except ForcingRefused:
            if choice is not Choice.RESPOND:
                raise
            # A refused request never became history, so the order may still join its last message.
            self._descent.was_refused()
            return None
        except ContextExceeded:
            if not await self._land_from_less():
                raise
            return None
        if self._stop.is_set():
            self._acting_on = reply
            return None
        if reply is None:
            self._out_of_time()
        return reply

    def _out_of_time(self) -> None:
        if self._is_landing:
            self._descent.give_up()
        self._descent.begin(Kind.TIME)

    async def _take(self, reply: Reply) -> Ending | None:
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
            self._enter(reply, [self._dispatcher.refuse(call, misfit) for call in reply.calls])
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
        return Ending.answered(response, at_limit=self._is_landing)

    async def _wants_tools(self, reply: Reply) -> Ending | None:
        response = Response.among(reply.calls, self._job.answer_schema)
        if response is not None:
            ending = self._answer(response)
            if ending is not None or response.reason:
                self._enter(reply, [self._leave(call, response) for call in reply.calls])
            return ending
        left = self._account.budget[Kind.TOOL_CALLS].remaining
        room = 0 if self._is_landing else len(reply.calls) if left is None else int(left)
        limit = self._account.budget[self._reason]
        results = await self._dispatcher.run(reply.calls[:room], reply.calls[room:], limit)
        self._enter(reply, results)
        self._descent.was_ignored()
        return None

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
        self._enter(reply, ())
        self._descent.was_paused()
        return None

    async def _truncated(self, reply: Reply, *, again: bool) -> Ending | None:
        """Ask once more with more room; after that take what there is, and never run a call that was cut."""
        if reply.more_room_helps and self._may_ask_again(Stop.TRUNCATED):
            self._account.give_more_room()
            return None
        if not reply.more_room_helps and await self._land_from_less():
            return None
        response = Response.among(reply.calls)
        if response is not None or not reply.calls:
            said = response or Response(answer=reply.text)
            return Ending.cut(said, ANSWER_CUT if reply.more_room_helps else CONTEXT_FULL)
        if not reply.more_room_helps:
            return Ending.salvaged(CONTEXT_FULL)
        cut_off = [self._dispatcher.refuse(call, prompts.CALL_CUT_OFF.format(tool=call.name)) for call in reply.calls]
        self._enter(reply, cut_off)
        self._descent.was_ignored()
        if again:
            self._descent.begin(Kind.TOKENS)
        return None

    def _may_ask_again(self, what: str) -> bool:
        """Say whether something may be asked for a second time; once a run, and it is no rung."""
        first = what not in self._asked_again
        self._asked_again.add(what)
        return first

    def _enter(self, reply: Reply, results: Sequence[ToolResult]) -> None:
        self._exchange.transcript.enter(reply, results, self._descent.words)
        self._acting_on = None

    async def _land_from_less(self) -> bool:
        """Make room in a full context and land at once; False when nothing more can give way."""
        made_room = self._may_ask_again("summary") and await self._shorten(landing=True)
        # What was refused never became history, so the newest results may still be cut.
        if not made_room and not (self._may_ask_again("cut") and self._exchange.transcript.cut_tail(prompts.TRUNCATED)):
            return False
        self._descent.begin(Kind.TOKENS)
        return True
