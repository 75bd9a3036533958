"""A model and tools that follow any script; the model records the requests that it receives."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from run_specialist.errors import ContextExceeded, ForcingRefused, ProviderError, SchemaRefused, ToolError
from run_specialist.providers.base import Capabilities, Choice, Opening, Request, Watch
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.tools.base import Output, Tool

GIVEN_UP = 600
"""Timeout of the simulated API client for a request that hangs [s]."""
USUAL = Usage(10, 0, 0, 5)
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s1"}


class Endless(BaseException):
    """More requests than any limit allows; not an Exception, so that no part of a run handles it as a failure."""


@dataclass(frozen=True)
class ScriptedCall:
    """A tool call of a script."""

    name: str
    arguments: Any = None
    id: str | None = None
    """None for a new, unique id."""


@dataclass(frozen=True)
class Line:
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


@dataclass
class Clock:
    """The time of the event loop, plus jumps of the clock."""

    jumped: float = 0

    def __call__(self) -> float:
        """Return the time [s]."""
        return asyncio.get_running_loop().time() + self.jumped


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
    priced: bool = True
    """Whether its price is known: 1e-5 USD per token."""
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
    ids: int = 0
    """Number of ids given so far; an endpoint repeats none after a run is resumed."""
    summarised: int = 0

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
        return usage.total_tokens * 1e-5 if self.priced else None

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
        self.summarised += 1
        if self.summarised > 50 * self.most:
            raise Endless("summaries without end")
        return await self._played(self.summaries[(self.summarised - 1) % len(self.summaries)])

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
        self.ids += 1
        return f"new_{self.ids}"


@dataclass
class _Conversation:
    model: ScriptedModel
    is_summary: bool

    async def ask(self, request: Request) -> Reply:
        if self.is_summary:
            return await self.model.summary()
        return await self.model.answer(request.messages, request.choice, request.max_tokens)


class Panic(BaseException):
    """A BaseException such as some native extensions raise."""


class Unspeakable(Exception):
    """An error that raises when it is converted to text."""

    def __str__(self) -> str:
        raise ValueError("no words")


RAISED = {
    "fail": ToolError("not today"),
    "crash": RuntimeError("crashed"),
    "exit": SystemExit(3),
    "cancelled": asyncio.CancelledError("by itself"),
    "panic": Panic("native"),
    "late": TimeoutError("late"),
    "unspeakable": Unspeakable(),
}
RETURNED = {
    "tell": "one note",
    "lots": "much " * 5_000,
    "nothing": "",
    "blank": " \n",
    "odd": "\ud800 and \x00",
    "number": 42,
    "none": None,
    "list": ["a", {"b": 1}],
    "json": '{"found": 1}',
    "noted": Output("text", "[a note]"),
}
WAITS = ("slow", "hang", "grumpy", "deaf")
"""Instructions that wait: 3 s, endlessly, raising another error when cancelled, ignoring the first cancellation."""


@dataclass
class Hands:
    """The state that the tools of one run share."""

    clock: Clock
    done: list[str]
    """Instructions that the tools received, in the order in which the calls started."""


HANDS: ContextVar[Hands] = ContextVar("hands")


async def _do(how: str) -> Any:
    hands = HANDS.get()
    hands.done.append(how)
    if how in RAISED:
        raise RAISED[how]
    if how in RETURNED:
        return RETURNED[how]
    if how == "jump":
        hands.clock.jumped += 7
        return "jumped"
    try:
        await asyncio.sleep(3 if how == "slow" else 10_000)
    except asyncio.CancelledError:
        if how == "grumpy":
            raise RuntimeError("not like this") from None
        if how != "deaf":
            raise
    return "waited"


TOOLS = (Tool("do", "Do something.", _do), Tool("look", "Look.", _do, repeatable=True))
