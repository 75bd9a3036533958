"""Ask the model once, and normalize its reply: streamed, cut off, or constrained to JSON."""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from run_specialist import prompts
from run_specialist.loop import observing, transcript
from run_specialist.loop.account import rounded
from run_specialist.loop.compaction import estimate, tokens
from run_specialist.loop.evidence import ReturnedAnswers
from run_specialist.loop.job import RunContext
from run_specialist.loop.retries import Retries, StopRequested
from run_specialist.providers.base import Choice, Delta, Opening, Request
from run_specialist.providers.choose import is_replaceable
from run_specialist.providers.json_calls import open_conversation
from run_specialist.providers.knowledge import CALLS_AS_TEXT, leaked_calls, with_calls
from run_specialist.providers.transport import unique_id
from run_specialist.record.events import Replied, Requested, Retrying, Summarized, Warned
from run_specialist.record.journal import Received, Spending
from run_specialist.record.messages import Block, Message, Reply, Stop, ToolResult, Usage, encode, has_calls, spoken
from run_specialist.specialist.answer_schema import AnswerSchema, restored, strict
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.respond import Response, without_question

_T = TypeVar("_T")


# Maximum `max_tokens` of the short request [tokens].
_SHORT_TOKENS = 512


class Exchange:
    """Sends the transcript, receives the replies, and shortens the transcript when it grows too long."""

    def __init__(self, run: RunContext) -> None:
        """Open the conversation; nothing is sent yet."""
        self._run = run
        job = run.job
        replaceable = partial(is_replaceable, job.provider)
        self._retries = Retries(job.settings.patience, self._retrying, run.observers.notify, run.stop, replaceable)
        self._partial_reply = PartialReply()
        self._respond = job.opening.tools.get(RESPOND)
        self._schema_stream: SchemaStream | None = None
        state = job.resume_state
        messages = state.messages or (Message.user(job.question),)
        self.transcript = transcript.Transcript(messages, state.snapshot.history_tokens, state.part, state.copies)
        # The newest text of the model, without the reply that is arriving.
        self._last_text = state.snapshot.last_text
        self._open(messages)
        self.returned = ReturnedAnswers(job)
        """Answers that were returned to the model."""
        self.has_passages = bool(state.earlier.executed) or has_calls(messages)
        """Whether the model has results of calls, maybe in the message with the question."""
        self.open_reply: Reply | None = None
        """The newest reply, until it is added to the transcript or the next request is sent."""
        self.response: Response | None = None
        """The input of `respond` in the newest reply, if that reply was constrained to JSON and contains it."""
        # The end of the request that `open_reply` answers.
        self._request_end: str | None = None
        self.short_schema: Mapping[str, Any] | None = None
        """The schema of the reply while the request is the short one; None for all others."""

    def _open(self, messages: Sequence[Message]) -> None:
        """Open a conversation with the current model.

        messages: the transcript.
        """
        job, capabilities = self._run.job, self._run.job.provider.capabilities
        self.short_schema = None
        self._watch = self._show if self._run.observers.watch else None
        call_first = job.settings.evidence == "require"
        self._conversation = open_conversation(job.provider, job.opening, self._watch, call_first=call_first)
        self._has_json_calls = job.opening.tool_calls == "json" and capabilities.is_language_model
        self._thinks = capabilities.thinks or bool(job.opening.effort) or transcript.has_thought(messages)

    def begin_short(self, system: str, text: str, schema: Mapping[str, Any]) -> None:
        """Send the next request with its own system prompt, without tools, and constrain its reply to a schema."""
        self.transcript.say(text)
        self._conversation = self._run.job.provider.open(Opening(system, Toolset([])), self._watch)
        self.short_schema = schema

    def restart(self, text: str) -> None:
        """Continue with the conversation of the run, whose first message is a text."""
        self.transcript.restart(text)
        self._open(self.transcript.messages())

    def change_model(self) -> str:
        """Continue with the provider's current model; return the parts of the transcript that it does not receive."""
        job, before = self._run.job, self.transcript.messages()
        lost, named = transcript.lost_parts(before), transcript.with_portable_ids(before)
        if job.archive is not None:
            job.archive.add_names(transcript.portable_id)
        if (messages := transcript.portable_messages(named, also_written=True)) != tuple(before):
            self.transcript.shorten(messages, self.transcript.tokens)
        self.open_reply = None
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
        turn, short = self._run.account.turns + 1, self.short_schema
        choice = choice if short is None else Choice.SCHEMA
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
        longest = transcript.longest_reply(in_landing=in_landing, json_calls=self._has_json_calls, thinks=self._thinks)
        schema = short
        if schema is None and choice is Choice.SCHEMA and self._respond:
            schema = strict(without_question(self._respond.input_schema))
        room = self._run.account.room(longest if short is None else _SHORT_TOKENS)
        # None after a pause: the last message is the model's own, and takes no instruction.
        instruction = messages[-1].landing_instruction and landing_instruction
        name = RESPOND if short is None else "answer"
        request = Request(messages, choice, room, instruction, schema, schema_name=name, has_read=self.has_passages)
        begun = time.monotonic()
        with observing.chat(self._run.job.provider, request.max_tokens) as span:
            seconds_left = self._run.account.seconds_left(in_landing=in_landing)
            sending = self._retries.ask(self._conversation, request, seconds_left)
            reply = await self._in_time(sending, seconds_left)
            if reply is None:
                span.failed("CancelledError" if self._retries.was_stopped else "timeout")
                return None
            # Without the text of attempts that broke off.
            self._last_text = text_before
            seconds = time.monotonic() - begun
            reply = normalized(self._run, reply, self.transcript, turn, choice)
            span.replied(reply, reply.usage)
        cost = rounded(self.receive(reply, choice, request_end, in_landing=in_landing))
        self._run.observers.record(Received(turn, choice, in_landing, reply, cost, seconds, request_end))
        self._run.observers.notify(Replied(turn, reply.stop, reply.reason, reply.text, reply.usage, cost))
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
            lines.append(prompts.CUT_SHORTER)
        if self._has_json_calls and choice is Choice.NONE:
            # Nothing else keeps the model from going on in JSON.
            lines.append(prompts.ANSWER_IN_TEXT)
        return "\n".join(lines) or None

    def receive(self, reply: Reply, choice: str, request_end: str | None, *, in_landing: bool) -> float | None:
        """Make a reply the newest one, charge it to the account, and return its cost [USD].

        choice, request_end: those of the request that it answers.
        """
        self.open_reply, self._request_end = reply, request_end
        self._thinks = self._thinks or transcript.is_thought(reply.content)
        self.response = None
        if choice == Choice.SCHEMA and self._respond is not None:
            self.response = read_by_schema(reply, self._respond, self._run.job.answer_schema)
        called = Response.among(reply.calls)
        text = self.response.answer if self.response else reply.text
        self._last_text = (called and called.answer) or text or self._last_text
        self._partial_reply = PartialReply()
        return self._run.account.book(reply.usage, in_landing=in_landing, turns=1)

    def enter(self, reply: Reply, results: Sequence[ToolResult]) -> None:
        """Append a turn and the results of its calls to the transcript."""
        self.transcript.enter(reply, results, self._request_end)
        self.has_passages = self.has_passages or bool(results)
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
        done = await self._in_time(summarizing, seconds_left)
        # A summary of which a request was given up would have a gap.
        if done is None or self._retries.was_stopped:
            return False
        self.transcript.shorten(done.history, done.tokens_after)
        for warning in done.warnings:
            self._run.observers.warn(warning)
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

    async def _in_time(self, work: Awaitable[_T], seconds_left: float | None) -> _T | None:
        """Await within the time limit; return None if time runs out, or if the run is to stop before a retry."""
        timeout = asyncio.timeout(seconds_left)
        try:
            if seconds_left is None:
                return await work
            async with timeout:
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


class PartialReply:
    """Collects the pieces of one reply."""

    def __init__(self) -> None:
        # Joined on demand: a reply may arrive in a hundred thousand pieces.
        self._texts: list[str] = []
        self._answers: list[str] = []

    def add(self, delta: Delta) -> None:
        """Add the next piece."""
        if delta.tool == RESPOND:
            self._answers.append(delta.text)
        elif delta.tool is None:
            self._texts.append(delta.text)

    @property
    def is_answering(self) -> bool:
        """True once `respond` is being called."""
        return any(self._answers)

    def __len__(self) -> int:
        return sum(map(len, self._answers)) + sum(map(len, self._texts))

    @property
    def text(self) -> str:
        """The arrived part of the answer, or of the text if `respond` is not being called; never thinking."""
        if not (self._texts or self._answers):
            return ""
        text, arguments_json = "".join(self._texts), "".join(self._answers)
        if not arguments_json or (arguments := _decoded(arguments_json, is_cut=True)) is None:
            return spoken(text)
        return str(arguments.get("answer") or "") if isinstance(arguments, dict) else ""


MOST_CALLS = 200
"""Maximum number of tool calls kept per reply: each costs tokens in every later request, even if it is skipped."""


def normalized(run: RunContext, reply: Reply, sent: transcript.Transcript, turn: int, choice: Choice) -> Reply:
    """Return a reply with usage, with calls that were written as text, and with at most MOST_CALLS calls.

    sent: the messages of the request.
    turn: number of the turn, from 1.
    choice: tool choice of the request.
    """
    opening = run.job.opening
    if not reply.usage.total_tokens and run.job.provider.capabilities.is_language_model:
        # The server reports none, but limits need a number.
        run.observers.warn("the server reports no token usage; it is estimated")
        answer = estimate([Message("assistant", reply.content)])
        reply = replace(reply, usage=Usage(sent.tokens + opening_tokens(opening), 0, 0, answer))
    # The bare input of `respond` may match the schema of the answer, or be the JSON that was requested.
    bare_answer = run.job.answer_schema is None and choice is not Choice.SCHEMA
    if calls := leaked_calls(reply, opening.tools.names, bare_answer=bare_answer):
        if any(call.is_named for call in calls):
            run.observers.warn(CALLS_AS_TEXT)
        blocks = (block for message in sent.messages() for block in message.blocks)
        taken = {block["id"] for block in blocks if block["type"] == "tool_use"}
        # With the number of the turn an id is new even if a summary has replaced the earlier calls.
        ids = [f"written_{turn}_{number}" for number in range(1, len(calls) + 1)]
        reply = with_calls(reply, calls, [unique_id(each, taken, f"{each}_") for each in ids])
    return reply if len(reply.content) <= MOST_CALLS else _bounded(reply)


def opening_tokens(opening: Opening) -> int:
    """Return the estimated size of the system prompt and the tools [tokens]."""
    return tokens(len(opening.system) + sum(len(encode(tool.definition)) for tool in opening.tools))


def _bounded(reply: Reply) -> Reply:
    """Return a reply with at most MOST_CALLS tool calls; a `respond` after them is kept."""
    tool_uses: list[Block] = [block for block in reply.content if block.get("type") == "tool_use"]
    dropped = {id(call) for call in tool_uses[MOST_CALLS:] if call.get("name") != RESPOND}
    if not dropped:
        return reply
    warning = f"the model made {len(reply.calls):,} tool calls in one reply; those after call {MOST_CALLS} were dropped"
    kept = tuple(block for block in reply.content if id(block) not in dropped)
    return replace(reply, content=kept).with_warning(warning)


_THINK = "<think>"
_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n|\n?```\Z", re.IGNORECASE)


def read_by_schema(reply: Reply, respond: Tool, answer_schema: AnswerSchema | None) -> Response | None:
    """Return the response in a reply that was constrained to JSON; None if there is none.

    respond: the tool whose input the JSON is. If the reply was cut off, the received part is read.
    """
    is_cut, text = reply.stop is Stop.TRUNCATED, _FENCE.sub("", reply.text)
    arguments = _decoded(text, is_cut=is_cut)
    # An empty object that is complete says nothing as an input: it is kept as text.
    if not isinstance(arguments, dict) or (not arguments and text.rstrip().endswith("}")):
        return None
    known = respond.input_schema.get("properties", {})
    # It has an answer, or was cut off before it.
    if "answer" not in arguments and not (is_cut and (not arguments or not known.keys().isdisjoint(arguments))):
        return None
    given = restored(arguments, respond.input_schema)
    return Response.parse(given if isinstance(given, dict) else {}, None if is_cut else answer_schema)


class SchemaStream:
    """Marks the pieces of one streamed reply as input of `respond`, once the reply turns out to be JSON."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._is_thinking = self._is_known = False
        self._tool: str | None = None

    def marked(self, delta: Delta) -> Delta | None:
        """Return the next piece to show; None while it is unknown whether the reply is JSON."""
        if delta.tool is not None:
            return delta
        if self._is_known:
            return Delta(delta.text, self._tool)
        self._held.append(delta.text)
        # Thinking may be long, and only a tag ends it.
        if self._is_thinking and ">" not in delta.text:
            return None
        held = "".join(self._held)
        text = spoken(held).lstrip()
        self._is_thinking = not text and _THINK in held and "</think>" not in held
        # The tag may arrive in pieces.
        if _THINK.startswith(text):
            return None
        self._is_known, self._tool = True, RESPOND if text.startswith("{") else None
        return Delta(text if self._tool else held, self._tool)


def _decoded(text: str, *, is_cut: bool) -> object:
    """Return the value of a JSON text, or of its received part; None if the text is not JSON."""
    try:
        if not is_cut:
            return json.loads(text)
        from jiter import from_json  # noqa: PLC0415 - comes with the SDKs, and only a part of a reply needs it

        return from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings")
    except (ValueError, RecursionError):
        return None
