"""The loop: ask, run the tools, ask again; land when the budget is spent; always end with an outcome.

Read `Run._loop` first, then `Run._take` and the ways in which a turn can go below it.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from run_specialist import prompts
from run_specialist.audience import Audience
from run_specialist.budget import Kind, Phase
from run_specialist.dispatch import Dispatcher
from run_specialist.ending import ANSWER_CUT, CONTEXT_FULL, NO_ANSWER, Ending, Tally, conclude
from run_specialist.errors import ContextExceeded, ForcingRefused, ProviderError
from run_specialist.events import Finished, Landed, Listener, Replied, Requested, Warned
from run_specialist.job import Job
from run_specialist.landing import Landing, Rung, ladder
from run_specialist.messages import Message, Reply, Stop, ToolCall, ToolResult, sendable
from run_specialist.outcome import Exit, Outcome
from run_specialist.providers.base import Choice, Watch
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response

_log = logging.getLogger(__name__)

CHOICES = {Rung.FORCE: Choice.RESPOND, Rung.NONE: Choice.NONE}
"""What a rung asks for; every other request leaves the choice to the model."""
MAX_TOKENS = 16_000
"""The most that an ordinary reply may hold [tokens]."""
MORE_ROOM = 2
"""A reply that was cut is asked for again with this many times the room."""
MAX_PAUSES = 5
"""Pauses in one run before it no longer goes along with them."""


class Run:
    """One question on its way to its outcome."""

    def __init__(self, job: Job, listener: Listener | None = None, watch: Watch | None = None) -> None:
        """Take a job; nothing is asked before `outcome`.

        listener: called with each event.
        watch: called with the pieces of each reply; replies are streamed only then.
        """
        self._job = job
        self._audience = Audience(listener, watch)
        self._conversation = job.provider.open(job.opening, self._audience.watch)
        self._dispatcher = Dispatcher(job.opening.tools, job.augmenters, job.dispatch, self._audience.tell)
        self._accepted: list[Message] = []
        self._tail: Message | None = Message.user(job.question)
        self._budget = job.budget
        self._landing: Landing | None = None
        self._max_tokens = min(MAX_TOKENS, job.provider.capabilities.max_output_tokens)
        self._asked_again: set[Stop] = set()
        self._last_was_cut = False
        self._pauses = 0
        self._tally = Tally(self._audience.warnings)
        self._task: asyncio.Task[object] | None = None
        self._abort = asyncio.Event()

    def abort(self) -> None:
        """Stop as soon as possible; `outcome` then returns what was gathered. For the thread of the loop."""
        if self._abort.is_set():
            return
        self._abort.set()
        # A listener that aborts stands inside the task: the loop sees the flag, a cancellation would strike the caller.
        if self._task is not None and asyncio.current_task() is not self._task:
            self._task.cancel()

    @property
    def transcript(self) -> tuple[Message, ...]:
        """All that was said so far, the newest last; after the end every tool call has its result."""
        return tuple(self._messages())

    async def outcome(self) -> Outcome:
        """Work on the question until there is an outcome; call it once.

        A cancellation that is not ours (`abort`) goes on its way after the last event.
        """
        self._task, begun = asyncio.current_task(), time.monotonic()
        self._audience.tell(self._job.started())
        cancelled: asyncio.CancelledError | None = None
        try:
            ending = await self._loop()
        except ContextExceeded as error:
            ending = Ending.salvaged(str(error))
        except ProviderError as error:
            self._tally.last_text = error.partial or self._tally.last_text
            ending = Ending.failed(str(error), Exit.PROVIDER)
        except asyncio.CancelledError as error:
            ending, cancelled = Ending.aborted(), error
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not cost what was gathered
            _log.debug("the run broke off", exc_info=True)
            ending = Ending.failed(f"internal error: {error!r}; please report it", Exit.NO_ANSWER)
        self._budget = self._budget.spend(time.monotonic() - begun, Kind.TIME)
        outcome = conclude(self._job, ending, self._budget, self._landing, self._tally, self._dispatcher)
        # From here on there is nothing to abort but the caller's own work.
        task, self._task = self._task, None
        self._audience.tell(Finished(outcome))
        # Our own cancellation ends here; one from outside goes on its way.
        if cancelled and not (self._abort.is_set() and task and task.uncancel() == 0):
            raise cancelled
        return outcome

    async def _loop(self) -> Ending:
        while not self._abort.is_set():
            if self._landing is None and self._budget.phase is Phase.SPENT:
                self._land(self._budget.tightest.kind)
            if self._landing and self._landing.rung is Rung.SALVAGE:
                return Ending.salvaged(NO_ANSWER.format(self._landing.reason.words))
            reply = await self._ask()
            ending = await self._take(reply) if reply else None
            if ending is not None:
                return ending
        return Ending.aborted()

    async def _ask(self) -> Reply | None:
        """Send one request; None when somebody aborted meanwhile."""
        choice = CHOICES.get(self._landing.rung, Choice.AUTO) if self._landing else Choice.AUTO
        turn = int(self._budget[Kind.TURNS].used) + 1
        self._audience.tell(Requested(turn, choice))
        if self._abort.is_set():
            return None
        try:
            reply = await self._conversation.ask(self._messages(), choice, self._max_tokens)
        except ForcingRefused:
            if self._landing is None or choice is not Choice.RESPOND:
                raise
            # A refused request never became history, so the order may still join its last message.
            self._landing = self._landing.refused()
            self._tell_rung()
            return await self._ask()
        self._tally.count(reply)
        self._budget = self._budget.spend(1, Kind.TURNS).spend(reply.usage.total_tokens, Kind.TOKENS)
        self._audience.tell(Replied(turn, reply.stop, reply.reason, reply.text, reply.usage))
        if reply.detail:
            self._audience.tell(Warned(reply.detail))
        return None if self._abort.is_set() else reply

    def _messages(self) -> list[Message]:
        if self._tail is None:
            return list(self._accepted)
        rung = self._landing.rung if self._landing else None
        return [*self._accepted, self._tail.ending(prompts.last_words(rung, self._job.landing_prompt))]

    async def _take(self, reply: Reply) -> Ending | None:
        """Act on a reply; None means that the model is to be asked again."""
        was_cut, self._last_was_cut = self._last_was_cut, reply.stop is Stop.TRUNCATED
        match reply.stop:
            case Stop.ANSWERED:
                return self._answer(Response(answer=reply.text))
            case Stop.WANTS_TOOLS:
                return await self._wants_tools(reply)
            case Stop.PAUSED:
                return self._paused(reply)
            case Stop.TRUNCATED:
                return self._truncated(reply, again=was_cut)
            case Stop.REFUSED:
                return Ending.failed(f"the model refused to answer ({reply.reason})", Exit.NO_ANSWER)

    def _answer(self, response: Response) -> Ending | None:
        if response.answer.strip():
            return Ending.answered(response, at_limit=self._landing is not None)
        if self._may_ask_again(Stop.ANSWERED):
            return None
        return Ending.failed("the model ended twice without an answer", Exit.NO_ANSWER)

    async def _wants_tools(self, reply: Reply) -> Ending | None:
        response = Response.among(reply.calls)
        if response is not None:
            ending = self._answer(response)
            if ending is not None:
                self._enter(reply, [self._leave(call) for call in reply.calls])
            return ending
        limit = self._budget[Kind.TOOL_CALLS]
        room = 0 if self._landing else len(reply.calls) if limit.remaining is None else int(limit.remaining)
        runnable, rest = reply.calls[:room], reply.calls[room:]
        # Spent before they run: a call that is interrupted was an attempt all the same.
        before, self._budget = self._budget, self._budget.spend(len(runnable))
        results = await self._dispatcher.run(runnable, before)
        results += self._skip(rest)
        self._enter(reply, results)
        self._next_rung()
        return None

    def _leave(self, call: ToolCall) -> ToolResult:
        if call.name == RESPOND:
            return ToolResult(call.id, prompts.DELIVERED)
        return self._dispatcher.refuse(call, prompts.NOT_RUN_BESIDE_RESPOND.format(tool=call.name))

    def _skip(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        kind = self._landing.reason if self._landing else Kind.TOOL_CALLS
        return self._dispatcher.skip(calls, kind, self._budget[kind].limit)

    def _paused(self, reply: Reply) -> Ending | None:
        self._pauses += 1
        if self._pauses > MAX_PAUSES:
            return Ending.salvaged(f"the model paused more than {MAX_PAUSES} times")
        self._enter(reply, ())
        # It goes on where it was, so the rung stays the same; the request counts all the same.
        self._landing = self._landing.answered() if self._landing else None
        return None

    def _truncated(self, reply: Reply, *, again: bool) -> Ending | None:
        """Ask once more with more room; after that take what there is, and never run a call that was cut."""
        if reply.more_room_helps and self._may_ask_again(Stop.TRUNCATED):
            most = self._job.provider.capabilities.max_output_tokens
            self._max_tokens = min(self._max_tokens * MORE_ROOM, most)
            return None
        response = Response.among(reply.calls)
        if response is not None or not reply.calls:
            said = response or Response(answer=reply.text)
            return Ending.cut(said, ANSWER_CUT if reply.more_room_helps else CONTEXT_FULL)
        if not reply.more_room_helps:
            return Ending.salvaged(CONTEXT_FULL)
        cut_off = [self._dispatcher.refuse(call, prompts.CALL_CUT_OFF.format(tool=call.name)) for call in reply.calls]
        self._enter(reply, cut_off)
        self._next_rung()
        if again and self._landing is None:
            self._land(Kind.TOKENS)
        return None

    def _may_ask_again(self, stop: Stop) -> bool:
        """Say whether a turn of this kind may be repeated; once a run. It does not enter the history."""
        first = stop not in self._asked_again
        self._asked_again.add(stop)
        return first

    def _enter(self, reply: Reply, results: Sequence[ToolResult]) -> None:
        """Make a turn history: what was sent for it, the reply, and the results that go out next."""
        self._accepted = self._messages()
        if content := sendable(reply.content):
            self._accepted.append(Message("assistant", content))
        self._tail = Message.results(results) if results else None

    def _land(self, reason: Kind) -> None:
        rungs = ladder(self._job.landing, forced_choice=self._job.provider.capabilities.forced_choice)
        self._landing = Landing(reason, rungs)
        self._tell_rung()

    def _next_rung(self) -> None:
        if self._landing:
            self._landing = self._landing.ignored()
            self._tell_rung()

    def _tell_rung(self) -> None:
        if self._landing and self._landing.rung is not Rung.WAIT:
            self._audience.tell(Landed(self._landing.reason, self._landing.rung))
