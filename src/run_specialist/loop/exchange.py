"""Exchange messages with the model: one request at a time, within the remaining time, charged to the account."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TypeVar

from run_specialist import prompts
from run_specialist.loop.job import RunContext
from run_specialist.loop.observing import telemetry
from run_specialist.loop.partial_reply import PartialReply
from run_specialist.loop.portable import lost_parts, portable_id, portable_messages, with_portable_ids
from run_specialist.loop.reply_normalizer import ReplyNormalizer
from run_specialist.loop.reply_room import has_thought, is_thought, longest_reply
from run_specialist.loop.retries import Retries
from run_specialist.loop.returned_answers import ReturnedAnswers
from run_specialist.loop.schema_replies import SchemaReplies, SchemaStream
from run_specialist.loop.spending.account import rounded
from run_specialist.loop.stop_signal import StopRequested
from run_specialist.loop.transcript import Transcript
from run_specialist.providers import json_prompts
from run_specialist.providers.base import Choice, Delta, Request
from run_specialist.providers.json_calls import open_conversation
from run_specialist.providers.model_chain import is_replaceable
from run_specialist.record.events import Replied, Requested, Retrying, Summarized, Warned
from run_specialist.record.journal import Received, Spending
from run_specialist.record.messages import Message, Reply, Stop, ToolResult, Usage
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response

_T = TypeVar("_T")


class Exchange:
    """Sends the transcript, receives the replies, and shortens the transcript when it grows too long."""

    def __init__(self, run: RunContext) -> None:
        """Open the conversation; nothing is sent yet."""
        self._run = run
        job = run.job
        replaceable = partial(is_replaceable, job.provider)
        self._retries = Retries(job.settings.patience, self._retrying, run.observers.notify, run.stop, replaceable)
        self._partial_reply = PartialReply()
        self._normalizer = ReplyNormalizer(run)
        self._schema_replies = SchemaReplies(job.opening.tools.get(RESPOND), job.answer_schema)
        self._schema_stream: SchemaStream | None = None
        state = job.resume_state
        messages = state.messages or (Message.user(job.question),)
        self.transcript = Transcript(messages, state.snapshot.history_tokens, state.part, state.copies)
        self._last_text = state.snapshot.last_text
        """The newest text of the model, without the reply that is arriving."""
        self._retries.has_changed_model = len(state.snapshot.models) > 1
        self._open(messages)
        self.returned = ReturnedAnswers(job)
        """Answers that were returned to the model."""
        self.open_reply: Reply | None = None
        """The newest reply, until it is added to the transcript or the next request is sent."""
        self.response: Response | None = None
        """The input of `respond` in the newest reply, if that reply was constrained to JSON and contains it."""
        self._request_end: str | None = None
        """The end of the request that `open_reply` answers."""

    def _open(self, messages: Sequence[Message]) -> None:
        """Open a conversation with the current model.

        messages: the transcript.
        """
        job, capabilities = self._run.job, self._run.job.provider.capabilities
        watch = self._show if self._run.observers.is_watching else None
        call_first = job.settings.evidence == "require"
        self._conversation = open_conversation(job.provider, job.opening, watch, call_first=call_first)
        self._has_json_calls = job.opening.tool_calls == "json" and capabilities.is_language_model
        self._thinks = capabilities.thinks or bool(job.opening.effort) or has_thought(messages)

    def change_model(self) -> str:
        """Continue with the provider's current model; return the parts of the transcript that it does not receive."""
        job, before = self._run.job, self.transcript.messages()
        lost, named = lost_parts(before), with_portable_ids(before)
        if job.archive is not None:
            job.archive.add_names(portable_id)
        if (messages := portable_messages(named, also_written=True)) != tuple(before):
            self.transcript.shorten(messages, self.transcript.tokens)
        self.open_reply = None
        self._retries.has_changed_model = True
        self._open(messages)
        return lost

    @property
    def last_text(self) -> str:
        """The newest text of the model, including that of an interrupted reply or a rejected answer."""
        return self._partial_reply.text or self._last_text

    async def ask(self, choice: Choice, landing_instruction: str | None, *, in_landing: bool) -> Reply | None:
        """Send the transcript and return the model's next turn; None if time ran out or the run was stopped.

        Raises ProviderError and its subclasses.
        """
        turn = self._run.account.turns + 1
        self._run.observers.notify(Requested(turn, choice))
        # A listener of the event may have stopped the run.
        if self._run.stop.is_requested:
            return None
        # Read before `open_reply` is cleared: the end says so if that reply was cut.
        request_end = self._end_of_request(choice, landing_instruction)
        self.open_reply = None
        text_before = self._last_text = self.last_text
        self._partial_reply = PartialReply()
        self._schema_stream = SchemaStream() if choice is Choice.SCHEMA else None
        if in_landing:
            self.transcript.end_pause(prompts.PAUSE_ENDED)
        messages = self.transcript.messages(request_end)
        longest = longest_reply(in_landing=in_landing, json_calls=self._has_json_calls, thinks=self._thinks)
        request = Request(
            messages,
            choice,
            self._run.account.room(longest),
            # None after a pause: the last message is the model's own, and takes no instruction.
            messages[-1].landing_instruction and landing_instruction,
            self._schema_replies.schema if choice is Choice.SCHEMA else None,
        )
        begun = time.monotonic()
        with telemetry.chat(self._run.job.provider, request.max_tokens) as span:
            seconds_left = self._run.account.seconds_left(in_landing=in_landing)
            sending = self._retries.ask(self._conversation, request, seconds_left)
            reply = await self._in_time(sending, in_landing=in_landing)
            if reply is None:
                span.failed("CancelledError" if self._retries.was_stopped else "timeout")
                return None
            # Without the text of attempts that broke off.
            self._last_text = text_before
            seconds = time.monotonic() - begun
            reply = self._normalizer.normalized(reply, self.transcript, turn, choice)
            span.replied(reply, reply.usage)
        cost = self.receive(reply, choice, request_end, in_landing=in_landing)
        received = Received(turn, choice, in_landing, reply, rounded(cost), seconds, request_end)
        self._run.observers.record(received)
        self._run.observers.notify(Replied(turn, reply.stop, reply.reason, reply.text, reply.usage, rounded(cost)))
        if reply.detail:
            self._run.observers.notify(Warned(reply.detail))
        return reply

    def _end_of_request(self, choice: Choice, landing_instruction: str | None) -> str | None:
        """Return the last line of the next request: the landing instruction, and the notice for calls in JSON.

        It becomes part of the history, because thinking in the reply may be bound to it.
        """
        was_cut = self.open_reply is not None and self.open_reply.stop is Stop.TRUNCATED
        lines = [landing_instruction] if landing_instruction else []
        if self._has_json_calls and was_cut:
            lines.append(json_prompts.CUT_SHORTER)
        if self._has_json_calls and choice is Choice.NONE:
            # Nothing else keeps the model from going on in JSON.
            lines.append(json_prompts.ANSWER_IN_TEXT)
        return "\n".join(lines) or None

    def receive(self, reply: Reply, choice: str, request_end: str | None, *, in_landing: bool) -> float | None:
        """Make a reply the newest one, charge it to the account, and return its cost [USD].

        choice, request_end: those of the request that it answers.
        """
        self.open_reply, self._request_end = reply, request_end
        self._thinks = self._thinks or is_thought(reply.content)
        self.response = self._schema_replies.response(reply, choice)
        called = Response.among(reply.calls)
        text = self.response.answer if self.response else reply.text
        self._last_text = (called and called.answer) or text or self._last_text
        self._partial_reply = PartialReply()
        return self._run.account.book(reply.usage, in_landing=in_landing, turns=1)

    def enter(self, reply: Reply, results: Sequence[ToolResult]) -> None:
        """Append a turn and the results of its calls to the transcript."""
        self.transcript.enter(reply, results, self._request_end)
        self.open_reply = None

    async def shorten(self, over: int = 0, *, in_landing: bool) -> bool:
        """Summarize the older part of a transcript longer than `over` tokens; return False if nothing was done."""
        summarizer, before = self._run.job.summarizer, self.transcript.tokens
        if summarizer is None or before <= over:
            return False
        bill, seconds_left = Spending(), self._run.account.seconds_left(in_landing=in_landing)

        def pay(usage: Usage) -> None:
            nonlocal bill
            bill = bill.plus(usage, self._run.account.book(usage, in_landing=in_landing))

        ask = partial(self._retries.ask, seconds=seconds_left)
        summarizing = summarizer.summarize(self.transcript.messages(), before, pay, ask)
        done = await self._in_time(summarizing, in_landing=in_landing)
        # A summary of which a request was given up would have a gap.
        if done is None or self._retries.was_stopped:
            return False
        self.transcript.shorten(done.history, done.tokens_after)
        for warning in done.warnings:
            if warning not in self._run.observers.warnings:
                self._run.observers.notify(Warned(warning))
        self._run.observers.notify(
            Summarized(done.summary, done.archived, before, done.tokens_after, bill.usage, rounded(bill.cost_usd))
        )
        return True

    def _retrying(self, event: Retrying) -> None:
        """Report a wait before a retry; text that has arrived is kept in case that no retry succeeds."""
        self._last_text, self._partial_reply = self.last_text, PartialReply()
        if self._schema_stream is not None:
            self._schema_stream = SchemaStream()
        self._run.observers.notify(event)

    def _show(self, delta: Delta) -> None:
        shown = delta if self._schema_stream is None else self._schema_stream.marked(delta)
        if shown is not None:
            self._partial_reply.add(shown)
            self._run.observers.show(shown)

    async def _in_time(self, work: Awaitable[_T], *, in_landing: bool) -> _T | None:
        """Await within the time limit; return None if time runs out, or if the run is to stop before a retry."""
        try:
            async with asyncio.timeout(self._run.account.seconds_left(in_landing=in_landing)) as timeout:
                return await work
        except StopRequested:
            return None
        except Exception as error:
            # A client may convert a cancellation into an error of its own.
            if (task := asyncio.current_task()) and task.cancelling():
                raise asyncio.CancelledError from error
            if timeout.expired():
                return None
            raise
