"""Checkpoints of a run: record its state before each request and at the end, and wait until it is stored."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import RunContext
from run_specialist.loop.tool_calls import Dispatcher
from run_specialist.record.journal import Checkpointed, Journal, TakenOver
from run_specialist.record.messages import Message
from run_specialist.record.outcome import OnLost

COMMIT_TIMEOUT = 10.0
"""Timeout of a checkpoint, after which the run continues without it: a slow disk must not cost an answer [s]."""
# Timeout once the store has already been slow, until it has caught up [s].
_COMMIT_TIMEOUT_ONCE_SLOW = 0.1
# Timeout of a checkpoint with `on_lost="abort"`, where the run ends without its store [s].
_REQUIRED_STORE_TIMEOUT = 60.0
POLL_INTERVAL = 0.2
"""Interval at which a waiting run checks whether its store is slow or unreachable [s]."""
STORE_SLOW = (
    f"the store has not answered for more than {COMMIT_TIMEOUT:.0f} seconds; "
    "the run continues, but if it is interrupted, its latest steps may be lost"
)
STORE_UNREACHABLE = (
    f"the store has been unreachable for more than {COMMIT_TIMEOUT:.0f} seconds; the run waits for it: {{}}"
)
STORE_NOT_BACK = (
    "the store is still unreachable; the run continues, but if it is interrupted, its latest steps may be lost: {}"
)
STORE_SILENT = "the store does not answer, so it is unknown whether this run is stored"
RUN_STOPPED = "{}; the run was stopped before its next request"


class StoreLost(Exception):
    """The run must not send another request; the text is the reason, in one line."""


class Checkpoint:
    """Records the state from which a run can be resumed."""

    def __init__(self, run: RunContext, exchange: Exchange, dispatcher: Dispatcher, on_lost: OnLost = "go_on") -> None:
        self._run, self._exchange, self._dispatcher = run, exchange, dispatcher
        self._needs_store = on_lost == "abort"
        self._is_lost = self._is_slow = self._was_unreachable = False
        # The last recorded message, with its part and place.
        self._last_recorded: tuple[int, int, Message] | None = None

    @property
    def is_kept(self) -> bool:
        """True while all records are stored; False without a journal, after a failure, and while that is unknown."""
        return self._run.observers.journal is not None and not self._is_lost and not self._is_slow

    def new_record(self) -> Checkpointed:
        """Return the current state of the run; of the messages, only those since the last call: record each."""
        transcript = self._exchange.transcript
        snapshot = self._run.account.snapshot(
            calls=self._dispatcher.started,
            skipped=self._dispatcher.skipped,
            last_text=self._exchange.last_text,
            history_tokens=transcript.history_tokens,
            warnings=tuple(self._run.observers.warnings),
            returned=self._exchange.returned.reasons,
            returned_answer=self._exchange.returned.newest,
        )
        checkpoint = transcript.new_record(snapshot)
        last, messages = self._last_recorded, checkpoint.messages
        if messages:
            self._last_recorded = (checkpoint.part, checkpoint.place + len(messages) - 1, messages[-1])
        # A first message that is recorded already is omitted: results are long, and the store compresses each.
        if messages and last is not None and last == (checkpoint.part, checkpoint.place, messages[0]):
            return replace(checkpoint, place=checkpoint.place + 1, messages=messages[1:])
        return checkpoint

    async def record_and_wait(self) -> None:
        """Record the state of the run before its next request, and wait until it is stored.

        Before the first reply there is nothing to lose, so only a run that needs its store waits.
        Raises StoreLost if another process has taken over the run, or if the store is lost and the run needs it.
        """
        journal = self._run.observers.journal
        if journal is None:
            return
        journal.write(self.new_record())
        if not (self._needs_store or self._run.account.turns):
            return
        left = self._run.account.seconds_left(in_landing=False)
        reply_timeout = COMMIT_TIMEOUT
        if self._needs_store:
            most = _REQUIRED_STORE_TIMEOUT if left is None else min(left, _REQUIRED_STORE_TIMEOUT)
            reply_timeout = max(most, COMMIT_TIMEOUT)
        try:
            problem = await self._flush(journal, reply_timeout, left)
        except TakenOver as error:
            raise StoreLost(RUN_STOPPED.format(error)) from None
        if self._needs_store and not self.is_kept:
            raise StoreLost(RUN_STOPPED.format(journal.outage or STORE_SILENT if self._is_slow else problem))
        self._warn(problem)

    async def wait_until_stored(self, *, briefly: bool = False) -> None:
        """Wait at the end until all records are stored; if that fails, warn once.

        Cancellations are ignored: the work is done and only has to be stored.
        briefly: wait no longer for an unreachable store than for a slow one.
        """
        journal = self._run.observers.journal
        if journal is None:
            return
        left = COMMIT_TIMEOUT if briefly else self._run.account.seconds_left(in_landing=True)
        longest = None if left is None else max(left, COMMIT_TIMEOUT)
        storing = asyncio.ensure_future(self._flush(journal, COMMIT_TIMEOUT, longest))
        while not storing.done():
            with suppress(asyncio.CancelledError, TakenOver):
                await asyncio.shield(storing)
        taken_over = storing.exception()
        self._warn(str(taken_over) if taken_over else storing.result())

    async def _flush(self, journal: Journal, reply_timeout: float, outage_timeout: float | None) -> str | None:
        """Wait until all records are stored; return the problem if they are not, or if that is not known.

        reply_timeout: for a store that does not answer [s].
        outage_timeout: for a store that is unreachable and being retried; None = until the retries end [s].
        Raises TakenOver.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        timeout = _COMMIT_TIMEOUT_ONCE_SLOW if self._is_slow else reply_timeout
        deadline: float | None = timeout
        while deadline is None or loop.time() - started < deadline:
            try:
                async with asyncio.timeout(min(timeout, POLL_INTERVAL)):
                    problem = await journal.committed()
            except TimeoutError:
                outage = journal.outage
                deadline = timeout if self._is_slow or outage is None else outage_timeout
                if outage and loop.time() - started >= COMMIT_TIMEOUT and not self._was_unreachable:
                    self._was_unreachable = True
                    self._warn(STORE_UNREACHABLE.format(outage))
            except TakenOver:
                self._is_lost = True
                raise
            else:
                self._is_slow = False
                self._is_lost |= problem is not None
                return problem
        self._is_slow = True
        return STORE_NOT_BACK.format(journal.outage) if journal.outage else STORE_SLOW

    def _warn(self, problem: str | None) -> None:
        if problem:
            self._run.observers.warn(problem)
