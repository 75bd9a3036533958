"""The lifecycle of one run: begin, loop, cancel, conclude; it always ends with an outcome. Its turns: `loop.py`."""

import asyncio
import logging
import time

from run_specialist.errors import ContextExceeded, ProviderError, UsageError
from run_specialist.loop import observing
from run_specialist.loop.account import Account, Clock
from run_specialist.loop.checkpoint import Checkpoint, StoreLost
from run_specialist.loop.ending import ABORTED, CONTEXT_FULL, Ending, conclude
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import ForkedFrom, Job, RunContext
from run_specialist.loop.loop import Loop
from run_specialist.loop.observing import Observers
from run_specialist.loop.retries import StopSignal
from run_specialist.loop.tool_calls import Dispatcher
from run_specialist.providers.base import Watch
from run_specialist.record.events import Finished, Forked, Listener
from run_specialist.record.journal import Ended, Journal
from run_specialist.record.messages import Message
from run_specialist.record.outcome import Exit, OnLost, Outcome

NOT_HEARD = "the run ended before it could hear this; ask it as a further question: {}"
_log = logging.getLogger(__name__)


class Run:
    """One question to one specialist, from its first request to its outcome."""

    def __init__(  # noqa: PLR0913 - a job, and who takes part in it
        self,
        job: Job,
        listener: Listener | None = None,
        watch: Watch | None = None,
        clock: Clock = time.monotonic,
        journal: Journal | None = None,
        *,
        on_lost: OnLost = "go_on",
    ) -> None:
        """Prepare the run; the first request is sent by `outcome`.

        listener: called with each event.
        watch: called with the pieces of each reply; requests are streamed only if it is given.
        clock: measures the time limit.
        journal: stores the run so that it can be resumed; None = the run is not stored.
        on_lost: `abort` ends the run before its next request when the journal can no longer store it.
        """
        before = job.resume_state.snapshot
        self.job = job
        """What the run was made from."""
        self.run_id = job.run_id
        """Id in the store and in the outcome."""
        self.cost_before = before.total.cost_usd or 0.0
        """Known cost before the run was resumed; 0 for a new run [USD]."""
        self.forked_from: ForkedFrom | None = job.forked_from
        """The run that this fork begins with; None if it is not a fork."""
        self.ended: Outcome | None = None
        """The outcome once there is one, also when `outcome` was cancelled and could not return it."""
        observers = Observers(listener, watch, journal, job.hide)
        observers.warnings += before.warnings
        observers.changes += job.resume_state.changes
        self._run = RunContext(job, Account(job.budget, job.provider, clock, before), observers, StopSignal())
        self._exchange = Exchange(self._run)
        self._dispatcher = Dispatcher(self._run)
        self._checkpoint = Checkpoint(self._run, self._exchange, self._dispatcher, on_lost)
        self._loop = Loop(self._run, self._exchange, self._dispatcher, self._checkpoint)
        self._task: asyncio.Task[object] | None = None
        self._abort_cancelled = self._has_begun = False

    def abort(self, *, after_turn: bool = False) -> None:
        """Stop as soon as possible; `outcome` then returns what was gathered. Call it from the event loop's thread.

        after_turn: complete the current turn first, also in child runs: the requested reply is awaited and stored, and
        its tool calls are run, so that no reply is paid for twice when the run is resumed. No further request is sent,
        and a request that waits for a retry is abandoned. An answer in that turn ends the run as answered. A second
        call without `after_turn` stops immediately.
        """
        was_now = self._run.stop.is_now
        self._run.stop.request(now=not after_turn)
        if after_turn or was_now:
            return
        # A listener that aborts runs inside the task: let it finish, and cancel the next await.
        if self._task is not None:
            self._task.get_loop().call_soon(self._cancel)

    def _cancel(self) -> None:
        # Once the work is done, a cancellation would hit the caller's own awaits.
        if self._task is not None:
            self._abort_cancelled = self._task.cancel()

    @property
    def model(self) -> str:
        """Id of the model."""
        return self.job.provider.model

    @property
    def transcript(self) -> tuple[Message, ...]:
        """All messages so far, oldest first; after the end every tool call has its result."""
        return tuple(self._exchange.transcript.messages())

    @property
    def is_kept(self) -> bool:
        """True while everything is stored, so that the run can be resumed."""
        return self._checkpoint.is_kept

    def steer(self, text: str) -> bool:
        """Add a text of the user beside the next tool results, also of child runs; call it in the event loop's thread.

        Return False if that is too late, because the run has ended, stops or lands: ask it as a further question.
        A text for which no request follows after all is in the warnings of the outcome.
        Raises UsageError for a text that is empty.
        """
        if not text.strip():
            raise UsageError("the text is empty; pass what the user adds")
        is_heard = self.ended is None and self._loop.add(text.strip())
        for steer in self._run.steered if is_heard else ():
            steer(text)
        return is_heard

    def listen(self, listener: Listener) -> None:
        """Call one more listener with each event from now on."""
        self._run.observers.add(listener)

    async def outcome(self) -> Outcome:
        """Work on the question until there is an outcome; return the same one when called again.

        A cancellation from outside is raised after the last event; see `ended`.
        Raises UsageError while the run is in progress: it has one budget and one record.
        """
        if self._has_begun:
            if self.ended is None:
                raise UsageError(f"{self.run_id} is in progress; await the outcome() call that started it")
            return self.ended
        self._has_begun = True
        job = self.job
        who, is_resumed = job.settings.name, job.resume_note is not None
        traced = observing.invoke_agent(
            who, job.run_id, job.provider, job.question, parent_id=job.parent_id, resumed=is_resumed
        )
        with traced as span:
            try:
                return await self._work()
            finally:
                if self.ended is not None:
                    span.ended(self.ended)

    async def _work(self) -> Outcome:
        task = self._task = asyncio.current_task()
        cancellations_before = self._dispatcher.cancelled_before = task.cancelling() if task else 0
        self._begin()
        cancellation: asyncio.CancelledError | None = None
        try:
            if cancellations_before:
                # A cancellation while the run was prepared takes effect here, before the first request.
                await asyncio.sleep(0)
            ending = await self._loop.run()
        except ContextExceeded as error:
            why = f"{error}; {CONTEXT_FULL}"
            ending = Ending("partial", error=why, exit_code=Exit.PROVIDER, error_kind="context_exceeded")
        except ProviderError as error:
            why, wait = str(error), error.retry_after
            ending = Ending("failed", error=why, exit_code=Exit.PROVIDER, error_kind=error.kind, retry_after=wait)
        except StoreLost as error:
            ending = Ending("aborted", error=str(error), exit_code=Exit.NO_ANSWER, error_kind="store_lost")
        except asyncio.CancelledError as error:
            ending, cancellation = ABORTED, error
        except Exception as error:  # noqa: BLE001 - a bug here must not cost what was gathered
            _log.debug("the run broke off", exc_info=True)
            why = f"internal error: {error!r}; please report it"
            ending = Ending("failed", error=why, exit_code=Exit.NO_ANSWER, error_kind="internal")
        self._task = None
        outcome = await self._conclude(ending)
        # The cancellation by `abort` ends here; one from outside is raised again.
        if task and self._abort_cancelled:
            task.uncancel()
        if (task and task.cancelling() > cancellations_before) or (cancellation and not self._abort_cancelled):
            raise cancellation or asyncio.CancelledError
        return outcome

    def _begin(self) -> None:
        self._run.account.start(self.job.seconds)
        journal = self._run.observers.journal
        if journal is not None and not journal.has_begun:
            journal.write(self.job.opened())
        if self.job.resume_note is not None:
            # Another model may continue, with another transcript, which is recorded before anything else happens.
            self._run.observers.record(self._checkpoint.new_record())
        self._run.observers.notify(self.job.started())
        if source := self.forked_from:
            used = self.job.resume_state.snapshot.used
            self._run.observers.notify(Forked(self.run_id, source.run_id, source.at, used, source.note))

    async def _conclude(self, ending: Ending) -> Outcome:
        """Close the transcript, make the outcome, and store it before it is returned."""
        # Until the outcome is stored, the reply that ended the work counts as pending.
        briefly = ending.status == "aborted"
        await self._checkpoint.wait_until_stored(briefly=briefly)
        self._loop.close()
        for text in self._loop.unheard:
            self._run.observers.warn(NOT_HEARD.format(text))
        position = self._loop.landing.position
        outcome = self.ended = conclude(self._run, ending, position, self._exchange, self._dispatcher)
        self._run.observers.record(Ended(outcome, self._checkpoint.new_record()))
        await self._checkpoint.wait_until_stored(briefly=briefly)
        self._run.observers.notify(Finished(outcome))
        return outcome


class EndedRun:
    """A run that has already ended; has the methods of `Run`, and sends nothing."""

    is_kept = True
    """The run is stored, so that it can be resumed."""

    def __init__(self, ended: Outcome) -> None:
        """Take the outcome, equal to the one that the run returned."""
        self.ended = ended
        self.run_id = ended.run_id
        """The id in the store and in the outcome."""
        self.cost_before = ended.cost_usd or 0.0
        """The known cost of the run [USD]."""

    async def outcome(self) -> Outcome:
        """Return the outcome immediately."""
        return self.ended

    def listen(self, listener: Listener) -> None:
        """Do nothing: no event follows."""

    def abort(self, *, after_turn: bool = False) -> None:
        """Do nothing: the run has ended."""

    def steer(self, text: str) -> bool:  # noqa: ARG002 - as `Run.steer`
        """Return False: the run has ended."""
        return False
