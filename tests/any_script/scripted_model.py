"""A model that follows any script and records the requests that it receives."""

import asyncio
from collections.abc import Sequence
from dataclasses import MISSING, astuple, dataclass, field, fields
from enum import Enum
from typing import Any, Literal

from run_specialist.errors import ContextExceeded, ForcingRefused, ProviderError, SchemaRefused
from run_specialist.providers.base import Capabilities, Choice, Opening, Request, Watch
from run_specialist.record.messages import Message, Reply, Stop, Usage
from tests.any_script.scripted_tools import Clock

GIVEN_UP = 600
"""Timeout of the simulated API client for a request that hangs [s]."""
USUAL = Usage(10, 0, 0, 5)
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s1"}


class Endless(BaseException):
    """More requests than any limit allows; not an Exception, so that no part of a run handles it as a failure."""


class Terse:
    """Base class with a repr of the non-default values only, so that a failing script can be pasted into a test."""

    def __repr__(self) -> str:
        usual = {one.name: one.default if one.default is not MISSING else None for one in fields(self)}
        shown = (f"{name}={_python(getattr(self, name))}" for name in usual if getattr(self, name) != usual[name])
        return f"{type(self).__name__}({', '.join(shown)})"


def _python(value: object) -> str:
    match value:
        case Enum():
            return str(type(value).__name__) + "." + value.name
        case dict():
            given = (f"{_python(key)}: {_python(one)}" for key, one in value.items() if one is not None)
            return "{" + ", ".join(given) + "}"
        case tuple():
            return "(" + "".join(f"{_python(one)}, " for one in value) + ")"
        case Usage():
            return f"Usage{astuple(value)}"
        case _:
            return repr(value)


@dataclass(frozen=True, repr=False)
class ScriptedCall(Terse):
    """A tool call of a script."""

    name: str
    arguments: Any = None
    id: str | None = None
    """None for a new, unique id."""


@dataclass(frozen=True, repr=False)
class Line(Terse):
    """The scripted response to one request."""

    does: Stop | Literal["error", "context", "forcing", "bug", "hang"] = Stop.WANTS_TOOLS
    text: str = ""
    wishes: tuple[ScriptedCall, ...] = ()
    usage: Usage = USUAL
    seconds: float = 0
    """Response time [s]."""
    jump: float = 0
    """How far the clock jumps forward, as after the machine slept [s]."""
    thinks: bool = False
    more_room_helps: bool = True
    spoils: bool = False
    """Whether a cancellation during the request raises a ProviderError instead."""


@dataclass(eq=False)
class ModelRequest:
    """One request of the run, and its result."""

    messages: tuple[Message, ...]
    encoded: tuple[bytes, ...]
    choice: Choice
    max_tokens: int
    events: int
    """Number of events before the request."""
    reply: Reply | None = None
    """None if the request failed or was cancelled."""
    error: Exception | None = None


@dataclass(eq=False)
class ScriptedModel:
    """A provider that returns its lines in order and then repeats one reply forever."""

    lines: Sequence[Line]
    afterwards: Line
    summaries: Sequence[Line]
    """Responses to requests for summaries; after the last one they start again from the first."""
    most: int
    """Maximum number of requests; one more raises Endless."""
    refuses_force: bool = False
    price: float | None = 1e-5
    """Price per token [USD]; None if unknown."""
    forced_choice: bool = True
    schema: bool = False
    schema_first: bool = False
    refuses_schema: bool = False
    clock: Clock = field(default_factory=Clock)
    model = "scripted"
    events: list[Any] = field(default_factory=list)
    """Events of the run so far; the test's listener fills the list."""
    openings: list[Opening] = field(default_factory=list)
    requests: list[ModelRequest] = field(default_factory=list)
    """All requests of the run in order, without those for summaries."""
    used: list[Usage] = field(default_factory=list)
    """Usage of every reply, including summaries."""
    _summarised: int = 0
    _ids: int = 0

    @property
    def capabilities(self) -> Capabilities:
        """Return the capabilities of a large model."""
        return Capabilities(self.forced_choice, 64_000, schema=self.schema, schema_first=self.schema_first)

    def open(self, opening: Opening, watch: Watch | None = None) -> "_Conversation":
        """Start a conversation; one without tools is for a summary."""
        if opening.tools.names:
            self.openings.append(opening)
        return _Conversation(self, is_summary=not opening.tools.names)

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of a request [USD], or None if the price is unknown."""
        return None if self.price is None else usage.total_tokens * self.price

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    async def answer(self, messages: Sequence[Message], choice: Choice, max_tokens: int) -> Reply:
        """Return the reply of the next line, or raise its error."""
        if len(self.requests) >= self.most:
            raise Endless(f"{len(self.requests)} requests, and no end")
        at = len(self.requests)
        line = self.lines[at] if at < len(self.lines) else self.afterwards
        encoded = tuple(message.encoded for message in messages)
        asked = ModelRequest(tuple(messages), encoded, choice, max_tokens, len(self.events))
        self.requests.append(asked)
        try:
            if choice is Choice.RESPOND and self.refuses_force:
                raise ForcingRefused("tool_choice is not taken")  # noqa: TRY301 - handled like any other error
            if choice is Choice.SCHEMA and self.refuses_schema:
                raise SchemaRefused("response_format is not taken")  # noqa: TRY301 - handled like any other error
            reply = await self._played(line)
        except Exception as error:
            asked.error = error
            raise
        asked.reply = reply
        return reply

    async def summary(self) -> Reply:
        """Return the reply of the next line for summaries, or raise its error."""
        self._summarised += 1
        if self._summarised > 50 * self.most:
            raise Endless("summaries without end")
        return await self._played(self.summaries[(self._summarised - 1) % len(self.summaries)])

    async def _played(self, line: Line) -> Reply:
        self.clock.jumped += line.jump
        try:
            await asyncio.sleep(GIVEN_UP if line.does == "hang" else line.seconds)
        except asyncio.CancelledError:
            if line.spoils:
                raise ProviderError("the connection broke off") from None
            raise
        match line.does:
            case Stop():
                reply = self._reply(line.does, line)
                self.used.append(reply.usage)
                return reply
            case "error":
                raise ProviderError("the API is down")
            case "context":
                raise ContextExceeded("the context is full")
            case "forcing":
                raise ForcingRefused("tool_choice is not taken")
            case _:
                raise RuntimeError("a bug")

    def _reply(self, stop: Stop, line: Line) -> Reply:
        blocks = [THOUGHT] if line.thinks else []
        blocks += [{"type": "text", "text": line.text}] if line.text else []
        blocks += [
            {"type": "tool_use", "id": wish.id or self._new_id(), "name": wish.name, "input": wish.arguments}
            for wish in line.wishes
        ]
        return Reply(stop, tuple(blocks), line.usage, stop.value, more_room_helps=line.more_room_helps)

    def _new_id(self) -> str:
        self._ids += 1
        return f"new_{self._ids}"


@dataclass
class _Conversation:
    model: ScriptedModel
    is_summary: bool

    async def ask(self, request: Request) -> Reply:
        if self.is_summary:
            return await self.model.summary()
        return await self.model.answer(request.messages, request.choice, request.max_tokens)
