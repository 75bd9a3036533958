"""The loop: ask, run the tools, ask again; land when the budget is spent; always end with an outcome.

Read `Run._loop` first, then `Replies.take` and the ways in which a turn can go below it.
"""

import asyncio
import logging
import time
from dataclasses import replace

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.errors import ContextExceeded, ForcingRefused, ProviderError, UsageError
from run_specialist.loop.checkpoint import Checkpoint, StoreLost
from run_specialist.loop.context_window import ContextWindow
from run_specialist.loop.ending import Ending, RunParts, conclude
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import Job
from run_specialist.loop.landing import Landing
from run_specialist.loop.observing import telemetry
from run_specialist.loop.observing.observers import Observers
from run_specialist.loop.replies import Replies
from run_specialist.loop.spending.account import Account, Clock
from run_specialist.loop.tool_calls.dispatcher import Dispatcher
from run_specialist.providers.base import Choice, Watch
from run_specialist.record.events import Finished, Listener, Resumed
from run_specialist.record.journal import Ended, Journal, OnLost
from run_specialist.record.messages import Message, Reply, Stop, sendable
from run_specialist.record.outcome import Exit, Outcome

_log = logging.getLogger(__name__)


class Run:
    """One question on its way to its outcome."""

    def __init__(  # noqa: PLR0913 - a job, and who has to do with it
        self,
        job: Job,
        listener: Listener | None = None,
        watch: Watch | None = None,
        clock: Clock = time.monotonic,
        journal: Journal | None = None,
        *,
        on_lost: OnLost = "go_on",
    ) -> None:
        """Take a job; nothing is asked before `outcome`.

        listener: called with each event.
        watch: called with the pieces of each reply; replies are streamed only then.
        clock: what a limit of time is measured with.
        journal: keeps what happens, so that the run can be resumed; None = it is not kept.
        on_lost: `abort` ends the run before its next request when the journal keeps nothing any more.
        """
        self._job = job
        self._audience = Observers(listener, watch, journal, job.past.standing.warnings, job.hide)
        self._account = Account(job.budget, job.provider, clock, job.past.standing)
        self._stop = asyncio.Event()
        self._exchange = Exchange(job, self._account, self._audience, self._stop)
        self._dispatcher = Dispatcher(
            job.run_id,
            job.opening.tools,
            job.augmenters,
            job.dispatch,
            self._account,
            self._audience,
            job.archive,
            job.past.earlier,
            job.hide,
        )
        self._checkpoint = Checkpoint(self._account, self._audience, self._exchange, self._dispatcher, on_lost)
        self._descent = Landing(job, self._audience)
        self._room = ContextWindow(job, self._account, self._exchange, self._descent, self._checkpoint)
        self._replies = Replies(job, self._account, self._exchange, self._dispatcher, self._descent, self._room)
        self._task: asyncio.Task[object] | None = None
        self._was_cancelled = self._has_begun = False
        self._ended: Outcome | None = None

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
    def run_id(self) -> str:
        """What it is called in the store and in its outcome."""
        return self._job.run_id

    @property
    def transcript(self) -> tuple[Message, ...]:
        """All that was said so far, the newest last; after the end every tool call has its result."""
        return tuple(self._exchange.transcript.messages())

    @property
    def is_kept(self) -> bool:
        """True while all that happened is kept, so that the run can be resumed."""
        return self._checkpoint.is_kept

    def listen(self, listener: Listener) -> None:
        """Call one more listener with each event from now on."""
        self._audience.add(listener)

    @property
    def ended(self) -> Outcome | None:
        """The outcome, once there is one; also when `outcome` was cancelled and could not return it."""
        return self._ended

    async def outcome(self) -> Outcome:
        """Work on the question until there is an outcome; where there is one already, return it.

        A cancellation that is not ours (`abort`) goes on its way after the last event; see `ended`.
        Raises UsageError while it is under way: two would spend one budget, and write one record.
        """
        if self._has_begun:
            if self._ended is None:
                raise UsageError(f"{self.run_id} is under way: wait for its outcome where that was asked for first")
            return self._ended
        self._has_begun = True
        job = self._job
        resumed = job.news is not None
        traced = telemetry.invoke_agent(
            job.specialist, job.run_id, job.provider, job.question, parent_id=job.parent_id, resumed=resumed
        )
        with traced as span:
            try:
                return await self._work()
            finally:
                if self._ended is not None:
                    span.ended(self._ended)

    async def _work(self) -> Outcome:
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
        except StoreLost as error:
            ending = Ending.unkept(str(error))
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
        self._account.start(self._job.seconds)
        self._audience.keep(self._job.opened())
        if self._job.news is not None:
            # What another model takes over is another transcript, and belongs to it from the first moment.
            self._audience.keep(self._checkpoint.stood())
        self._audience.tell(self._job.started())

    async def _conclude(self, ending: Ending) -> Outcome:
        """Close what is open, and hand over nothing that is not kept."""
        # Until the outcome is on record, too, the reply that ended the work counts as not acted upon.
        briefly = ending.status == "aborted"
        await self._checkpoint.surely_kept(briefly=briefly)
        self._close()
        gathered = RunParts(
            self._account, self._descent.landing, self._dispatcher, self._exchange.last_text, self._audience.warnings
        )
        outcome = self._ended = conclude(self._job, ending, gathered)
        self._audience.keep(Ended(outcome, self._checkpoint.stood()))
        await self._checkpoint.surely_kept(briefly=briefly)
        self._audience.tell(Finished(outcome))
        return outcome

    def _close(self) -> None:
        """Enter the reply that ended the work, or that it broke off at, with a result for each of its calls."""
        reply = self._exchange.open_reply
        if reply is not None and reply.stop is not Stop.REFUSED and sendable(reply.content):
            self._exchange.enter(reply, self._dispatcher.close(reply.calls))

    async def _loop(self) -> Ending:
        ending = await self._go_on()
        while ending is None and not self._stop.is_set():
            self._descent.begin_if_spent(self._account.budget)
            if self._descent.is_over:
                return Ending.spent(self._account.limit(self._descent.reason))
            await self._checkpoint.reach()
            reply = await self._ask() if await self._room.make() else None
            ending = await self._act_on(reply) if reply and not self._stop.is_set() else None
        return ending or Ending.aborted()

    async def _go_on(self) -> Ending | None:
        """Take up a run that was left: act on a reply that had come by then, say what is new."""
        past, news = self._job.past, self._job.news
        ending = None
        if past.pending is not None and not self._stop.is_set():
            self._account.spend(past.pending_seconds, Kind.TIME)
            self._exchange.book(past.pending, past.pending_words, landing=past.pending_in_landing)
            if past.pending_in_landing:
                self._descent.begin_if_spent(self._account.budget)
            ending = await self._act_on(past.pending)
        if news is None or (ending and news.question is None):
            return ending
        if ending:
            self._close()
        note = prompts.resumed(self._account.budget, news.changed, news.question, news.remarks)
        self._exchange.transcript.add(note)
        self._audience.tell(Resumed(self._job.run_id, past.standing.used, note))
        return None

    async def _act_on(self, reply: Reply) -> Ending | None:
        ending = await self._replies.take(reply)
        return replace(ending, by_reply=True) if ending else None

    async def _ask(self) -> Reply | None:
        """Send one request; None when there is nothing to act on but the budget."""
        choice = self._descent.choice
        try:
            reply = await self._exchange.ask(choice, self._descent.words, landing=self._descent.is_landing)
        except ForcingRefused:
            if choice is not Choice.RESPOND:
                raise
            # A refused request never became history, so the order may still join its last message.
            self._descent.was_refused()
            return None
        except ContextExceeded:
            if not await self._room.land_from_less():
                raise
            return None
        if reply is None and not self._stop.is_set():
            self._out_of_time()
        return reply

    def _out_of_time(self) -> None:
        if self._descent.is_landing:
            self._descent.give_up()
        self._descent.begin(Kind.TIME)
