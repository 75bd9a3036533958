"""The exchange with a model: one request at a time, in the time that is left, paid from the account."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar

from run_specialist.budget.budget import Kind
from run_specialist.loop.compaction.plan import estimate, tokens
from run_specialist.loop.job import Job
from run_specialist.loop.observing import telemetry
from run_specialist.loop.observing.observers import Observers
from run_specialist.loop.observing.partial_reply import PartialReply
from run_specialist.loop.spending.account import Account, rounded
from run_specialist.loop.transcript import Transcript
from run_specialist.providers.base import Choice
from run_specialist.record.events import Replied, Requested, Summarized, Warned
from run_specialist.record.journal import Received, Spending
from run_specialist.record.messages import Block, Message, Reply, ToolResult, Usage, encode
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response

MOST_CALLS = 200
"""Tool calls kept of one reply. Each costs tokens in every later request, even when it is skipped."""

_T = TypeVar("_T")


class Exchange:
    """Sends the transcript and keeps it short enough to be sent."""

    def __init__(self, job: Job, account: Account, audience: Observers, stop: asyncio.Event) -> None:
        """Open the conversation; nothing is sent yet.

        stop: once it is set nothing more is sent, and what comes in is passed over.
        """
        self._provider = job.provider
        self._conversation = job.provider.open(job.opening, audience.watch)
        self._summariser = job.summariser
        self._is_model = job.provider.capabilities.is_language_model
        self._opening = job.opening
        self._guessed = False
        self._account = account
        self._audience = audience
        self._stop = stop
        past = job.past
        said = past.messages or (Message.user(job.question),)
        self.transcript = Transcript(said, past.standing.history_tokens, past.part, past.copies)
        self._said = past.standing.last_text
        self.open_reply: Reply | None = None
        """The newest reply, until it has entered the transcript or the model is asked again."""
        self._words: str | None = None

    @property
    def last_text(self) -> str:
        """The newest text of the model, also of a reply that broke off or an answer that was not taken."""
        return self._audience.draft.text or self._said

    async def ask(self, choice: Choice, words: str | None, *, landing: bool) -> Reply | None:
        """Send everything and return the model's next turn; None when time was up, or the run was stopped.

        words: our last ones in it.
        Raises ProviderError and its children.
        """
        turn = int(self._account.limit(Kind.TURNS).used) + 1
        self._audience.tell(Requested(turn, choice))
        if self._stop.is_set():
            return None
        self._said, self._audience.draft = self.last_text, PartialReply()
        self.open_reply = None
        begun = time.monotonic()
        with telemetry.chat(self._provider, self._account.max_tokens) as span:
            request = self._conversation.ask(self.transcript.messages(words), choice, self._account.max_tokens)
            reply = await self._in_time(request, landing=landing)
            if reply is None:
                span.failed("timeout")
                return None
            seconds = time.monotonic() - begun
            reply = _bounded(self._counted(reply))
            span.replied(reply, reply.usage)
        cost = self.book(reply, words, landing=landing)
        self._audience.keep(Received(turn, choice, landing, reply, rounded(cost), seconds, words))
        self._audience.tell(Replied(turn, reply.stop, reply.reason, reply.text, reply.usage, rounded(cost)))
        if reply.detail:
            self._audience.tell(Warned(reply.detail))
        return reply

    def enter(self, reply: Reply, results: Sequence[ToolResult]) -> None:
        """Make a turn history, with the result of each call."""
        self.transcript.enter(reply, results, self._words)
        self.open_reply = None

    def book(self, reply: Reply, words: str | None, *, landing: bool) -> float | None:
        """Take note of a reply and of what it took, and return what it cost [USD].

        words: our last ones in what it answers.
        """
        self.open_reply, self._words = reply, words
        given = Response.among(reply.calls)
        self._said, self._audience.draft = (given and given.answer) or reply.text or self._said, PartialReply()
        self._account.spend(1, Kind.TURNS)
        return self._account.book(reply.usage, landing=landing)

    def _counted(self, reply: Reply) -> Reply:
        """Return a reply that says what it took, if by a guess: what is not counted cannot be limited."""
        if reply.usage.total_tokens or not self._is_model:
            return reply
        if not self._guessed:
            self._guessed = True
            self._audience.tell(Warned("the server does not say what it used: its tokens are estimated"))
        said = Message("assistant", reply.content)
        front = len(self._opening.system) + sum(len(encode(tool.definition)) for tool in self._opening.tools)
        return replace(reply, usage=Usage(self.transcript.tokens + tokens(front), 0, 0, estimate(None, [said])))

    async def shorten(self, over: int = 0, *, landing: bool) -> bool:
        """Summarise the older part of a transcript that has more tokens than `over`; False when nothing was done."""
        before = self.transcript.tokens
        if self._summariser is None or before <= over:
            return False
        bill = Spending()

        def pay(usage: Usage) -> None:
            nonlocal bill
            bill = bill.plus(usage, self._account.book(usage, landing=landing))

        summarising = self._summariser.summarise(self.transcript.messages(), before, pay)
        done = await self._in_time(summarising, landing=landing)
        if done is None:
            return False
        self.transcript.shorten(done.history, done.tokens_after)
        for warning in done.warnings:
            if warning not in self._audience.warnings:
                self._audience.tell(Warned(warning))
        self._audience.tell(
            Summarized(done.summary, done.archived, before, done.tokens_after, bill.usage, rounded(bill.cost_usd))
        )
        return True

    async def _in_time(self, doing: Awaitable[_T], *, landing: bool) -> _T | None:
        """Wait for it as long as the time limit allows; None when the time is up."""
        try:
            async with asyncio.timeout(self._account.seconds_left(landing=landing)) as timeout:
                return await doing
        except Exception as error:
            # A client may turn a cancellation into an error of its own; to us it stays what it is.
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError from error
            if timeout.expired():
                return None
            raise


def _bounded(reply: Reply) -> Reply:
    """Return a reply with at most MOST_CALLS tool calls; a `respond` after them stays."""
    dropped = {id(call) for call in _tool_uses(reply)[MOST_CALLS:] if call.get("name") != RESPOND}
    if not dropped:
        return reply
    warning = f"the model made {len(reply.calls):,} tool calls in one reply; those after call {MOST_CALLS} were dropped"
    return replace(
        reply,
        content=tuple(block for block in reply.content if id(block) not in dropped),
        detail="; ".join(part for part in (reply.detail, warning) if part),
    )


def _tool_uses(reply: Reply) -> list[Block]:
    return [block for block in reply.content if block.get("type") == "tool_use"]
