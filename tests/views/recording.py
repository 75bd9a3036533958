"""Stored runs as they are recorded: requests, replies, tool calls and their events, with a simulated clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from run_specialist import prompts
from run_specialist.budget import Budget, Kind, Rung
from run_specialist.record.events import BudgetSpent, Called, Event, Landed, Replied, Requested, Started, Warned
from run_specialist.record.journal import Received, Returned
from run_specialist.record.messages import Block, Message, Reply, Stop, ToolResult, Usage
from run_specialist.store.stored import StoredEvent, StoredMessage

BEGIN = 1_795_320_000.0
"""Start of the runs: 2026-11-22 04:00:00 UTC [seconds since 1970]."""
SYSTEM = 5_200
"""Size of the system prompt and the tools [tokens]."""
MODEL = "claude-sonnet-4-5"
QUESTION = "What happens when a sub-agent reaches its tool call limit, and is anything that it gathered ever lost?"


@dataclass(frozen=True)
class Did:
    """A tool call and its result."""

    name: str
    arguments: Mapping[str, Any] | None
    result: str
    seconds: float = 0.2
    is_error: bool = False
    repeated: bool = False
    whole: str = ""
    """The complete output, if the result was cut."""
    call_id: str = ""


@dataclass
class Recording:
    """A run that is being recorded; its clock advances with each request and tool call."""

    limits: Mapping[Kind, float | None]
    question: str = QUESTION
    model: str = MODEL
    now: float = BEGIN
    turns: list[Received] = field(default_factory=list)
    calls: list[Returned] = field(default_factory=list)
    messages: list[StoredMessage] = field(default_factory=list)
    events: list[StoredEvent] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    skipped: int = 0
    landing: Landed | None = None
    part: int = 0
    begun: float = BEGIN

    def __post_init__(self) -> None:
        self.budget = Budget.of(self.limits)
        self.cached = 0
        self.say(Message.user(self.question))
        names = ("search", "grep", "glob", "read", "ls", "get_tool_response", "respond")
        self.tell(Started("", "codebase-analyst", self.model, self.question, names, self._limits()))

    def _limits(self) -> dict[str, float | None]:
        return {limit.kind.value: limit.limit for limit in self.budget.limits}

    def tell(self, event: Event | Mapping[str, Any]) -> None:
        """Record an event."""
        body = event.as_json() if isinstance(event, Event) else dict(event)
        self.events.append(StoredEvent(len(self.events), self.now, body))
        if isinstance(event, Warned):
            self.warnings.append(event.text)

    def say(self, message: Message, *, copied: bool = False) -> None:
        """Record a message."""
        place = sum(one.part == self.part for one in self.messages)
        self.messages.append(StoredMessage(self.part, place, copied, message))

    def ask(
        self,
        text: str,
        calls: Sequence[Did] = (),
        *,
        seconds: float = 2.4,
        choice: str = "auto",
        stop: str = "wants_tools",
        grown: int = 1_400,
        lost: int | None = None,
        blocks: Sequence[Block] = (),
        entered: bool = True,
    ) -> Received:
        """Record a request and its reply.

        grown: Tokens that are new in this request.
        lost: Tokens read from the cache, if not all that were cached.
        """
        number = len(self.turns) + 1
        self.tell(Requested(number, choice))
        self.now += seconds
        said = [
            *blocks,
            *([{"type": "text", "text": text}] if text else []),
            *(
                {
                    "type": "tool_use",
                    "id": one.call_id or f"toolu_{number:02}{place}",
                    "name": one.name,
                    "input": one.arguments,
                }
                for place, one in enumerate(calls, 1)
            ),
        ]
        read, whole = (self.cached if lost is None else lost), max(self.cached, SYSTEM) + grown
        forced = choice != "auto"
        usage = Usage(whole - read if forced else 4, read, 0 if forced else whole - read - 4, 90 + len(text) // 4)
        cost = round(
            usage.input_tokens * 3e-6
            + read * 3e-7
            + usage.cache_creation_input_tokens * 3.75e-6
            + usage.output_tokens * 15e-6,
            8,
        )
        self.cached = whole
        self.spend(usage, cost)
        reason = {"wants_tools": "tool_use", "answered": "end_turn", "truncated": "max_tokens"}.get(stop, stop)
        self.turns.append(
            Received(
                number=number,
                choice=choice,
                landing=self.landing is not None,
                reply=Reply(Stop(stop), tuple(said), usage, reason),
                cost_usd=cost,
                seconds=seconds,
                at=self.now,
            )
        )
        self.tell(Replied(number, stop, reason, text, usage, cost))
        if entered:
            self.say(Message("assistant", tuple(said)))
        return self.turns[-1]

    def spend(self, usage: Usage, cost: float, turns: int = 1) -> None:
        """Add the usage and cost of a request to the budget."""
        self.budget = self.budget.spend(turns, Kind.TURNS).spend(usage.total_tokens, Kind.TOKENS).spend(cost, Kind.COST)

    def run(self, done: Sequence[Did], skipped: Sequence[Did] = (), words: str | None = None) -> None:
        """Record the parallel execution of the newest turn's first calls, and skip the others.

        words: The landing instruction at the end of the results.
        """
        turn = self.turns[-1]
        begin, results = self.now, []
        first = len(self.calls) + 1
        for number, (one, call) in enumerate(zip(done, turn.reply.calls, strict=False), first):
            self.now = begin + one.seconds
            note = prompts.read_on(call.id, len(one.result), len(one.whole)) if one.whole else ""
            whole = one.whole or one.result
            self.calls.append(
                Returned(
                    number,
                    turn.number,
                    call,
                    whole,
                    len(one.result),
                    one.is_error,
                    note,
                    one.repeated,
                    one.seconds,
                    at=self.now,
                )
            )
            self.tell(
                Called(
                    "failed" if one.is_error else "finished",
                    call.id,
                    call.name,
                    call.arguments,
                    len(one.result),
                    one.seconds,
                )
            )
            self.budget = self.budget.spend().spend(len(one.result), Kind.CHARACTERS)
            self.tell(BudgetSpent.of(self.budget.tightest))
            lines = [one.result or prompts.EMPTY_RESULT]
            lines += [prompts.TRUNCATED, note] if one.whole else []
            lines += [prompts.SAME_CALL] if one.repeated else []
            lines += filter(None, [prompts.countdown(self.budget.tightest, "remaining")])
            results.append(ToolResult(call.id, "\n".join(lines), one.is_error))
        self.now = begin + max((one.seconds for one in done), default=0)
        for one, call in zip(skipped, turn.reply.calls[len(done) :], strict=True):
            why = prompts.skipped(one.name)
            self.skipped += 1
            self.tell(Called("skipped", call.id, call.name, call.arguments, text=why))
            results.append(ToolResult(call.id, why, is_error=True))
        self.say(Message.results(results).with_instruction(words))

    def turn(self, text: str, *done: Did, **settings: Any) -> None:
        """Record a request, its reply, and the execution of all its calls."""
        self.ask(text, done, **settings)
        self.run(done)

    def land(self, reason: Kind, how: Rung) -> None:
        """Record the start of the landing."""
        self.landing = Landed(reason, how)
        self.tell(self.landing)
