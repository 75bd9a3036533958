"""Runs as they are stored, recorded with a simulated clock: requests, calls, summaries, resumptions and their end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from run_specialist import prompts
from run_specialist.budget import Budget, Kind, Limit, Rung
from run_specialist.loop.compaction import archived_placeholder, summary_pair
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    Event,
    Finished,
    Landed,
    Replied,
    Requested,
    Resumed,
    Started,
    Summarized,
    Warned,
)
from run_specialist.record.journal import Received, Returned, RunSnapshot
from run_specialist.record.messages import Block, Message, Reply, Stop, ToolResult, Usage
from run_specialist.record.outcome import Evidence, LandingReport, Outcome, Spent, Status, ToolCalls
from run_specialist.store.stored import StoredEvent, StoredMessage, StoredRun

BEGIN = 1_795_320_000.0
"""Start of the runs: 2026-11-22 04:00:00 UTC [seconds since 1970]."""
SYSTEM = 5_200
"""Size of the system prompt and the tools [tokens]."""
MODEL = "claude-sonnet-4-5"
QUESTION = "What happens when a sub-agent reaches its tool call limit, and is anything that it gathered ever lost?"


FROZEN = {
    "system": "You explain how existing code behaves. The person who asked will open the lines that you name.\n\n"
    + prompts.DATA_NOT_INSTRUCTIONS,
    "tools": [
        {"name": "search", "description": "Return the passages that fit a question best.", "input_schema": {}},
        {"name": "grep", "description": "Return the lines that match a pattern.", "input_schema": {}},
        {"name": "read", "description": "Return numbered lines of a file.", "input_schema": {}},
        {"name": "respond", "description": "Deliver your answer.", "input_schema": {}},
    ],
    "effort": None,
    "model": MODEL,
    "settings": {"name": "codebase-analyst", "tool_calls_limit": 20, "countdown": {"from": 0.5}, "landing": "force"},
    "file": "specialists/codebase-analyst.md",
    "digest": "sha256:4f1c0a7e",
    "root": "/home/ada/agents",
    "version": "0.1.0",
}


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
class Tape:
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
        entered: bool = True,
    ) -> Received:
        """Record a request and its reply.

        grown: Tokens that are new in this request.
        lost: Tokens read from the cache, if not all that were cached.
        """
        number = len(self.turns) + 1
        self.tell(Requested(number, choice))
        self.now += seconds
        said = [{"type": "text", "text": text}] if text else []
        for place, one in enumerate(calls, 1):
            call_id = one.call_id or f"toolu_{number:02}{place}"
            said.append({"type": "tool_use", "id": call_id, "name": one.name, "input": one.arguments})
        read, whole = (self.cached if lost is None else lost), max(self.cached, SYSTEM) + grown
        forced = choice != "auto"
        usage = Usage(whole - read if forced else 4, read, 0 if forced else whole - read - 4, 90 + len(text) // 4)
        written = usage.cache_creation_input_tokens
        cost = round(usage.input_tokens * 3e-6 + read * 3e-7 + written * 3.75e-6 + usage.output_tokens * 15e-6, 8)
        self.cached = whole
        self.spend(usage, cost)
        reason = {"wants_tools": "tool_use", "answered": "end_turn", "truncated": "max_tokens"}.get(stop, stop)
        reply, is_landing = Reply(Stop(stop), tuple(said), usage, reason), self.landing is not None
        self.turns.append(Received(number, choice, is_landing, reply, cost, seconds, at=self.now))
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
            size, phase = len(one.result), "failed" if one.is_error else "finished"
            how = one.is_error, note, one.repeated, one.seconds
            self.calls.append(Returned(number, turn.number, call, whole, size, *how, at=self.now))
            self.tell(Called(phase, call.id, call.name, call.arguments, size, one.seconds))
            self.budget = self.budget.spend().spend(size, Kind.CHARACTERS)
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

    def summarize(self, summary: str) -> None:
        """Record a summary that replaces all but the two newest messages."""
        keep, usage = 2, Usage(21_000, 0, 0, 900)
        old = [one.message for one in self.messages if one.part == self.part]
        ids = {call.id for turn in self.turns for call in turn.reply.calls}
        self.now += 6.5
        self.part += 1
        cost = round(usage.input_tokens * 3e-6 + usage.output_tokens * 15e-6, 8)
        self.spend(usage, cost, turns=0)
        question, *middle = old[:-keep]

        def short(block: Block) -> Block:
            is_known = block.get("tool_use_id") in ids
            return {**block, "content": archived_placeholder(block["tool_use_id"])} if is_known else block

        archived = sum(block["type"] == "tool_result" for one in middle for block in one.blocks)
        for message in (
            question,
            *(replace(one, blocks=tuple(map(short, one.blocks))) for one in middle),
            *summary_pair(summary, archived, old),
            *old[-keep:],
        ):
            self.say(message, copied=True)
        before, self.cached = self.cached, SYSTEM + 3_000
        self.tell(Summarized(summary, archived, before, self.cached, usage, cost))

    def resume(self, after: float, note: str, **limits: float) -> None:
        """Record a resume with other limits, some time after the last event [s]."""
        self.stop()
        self.now += after
        used = {limit.kind.value: limit.used for limit in self.budget.limits}
        self.begun = self.now
        self.budget = Budget(
            tuple(Limit(one.kind, limits.get(one.kind.value, one.limit), one.used) for one in self.budget.limits)
        )
        self.landing = None
        self.tell(Started("", "codebase-analyst", self.model, self.question, (), self._limits()))
        self.tell(Resumed("", used, note))
        self.say(Message.user(note))

    def stop(self) -> None:
        """Add the time since the start or the last resume to the budget."""
        self.budget = self.budget.spend(self.now - self.begun, Kind.TIME)
        self.begun = self.now

    def outcome(self, status: Status, answer: str, evidence: Sequence[Evidence] = (), **others: Any) -> Outcome:
        """Return the outcome of the run so far."""
        self.stop()
        used = {limit.kind: limit.used for limit in self.budget.limits}
        usage = sum((Usage(**one.body["usage"]) for one in self.events if "usage" in one.body), Usage())
        landing = None
        if self.landing:
            billed = [turn for turn in self.turns if turn.landing]
            spent = sum((turn.reply.usage for turn in billed), Usage()), sum(turn.cost_usd or 0 for turn in billed)
            landing = LandingReport(self.landing.reason.value, self.landing.how.value, len(billed), *spent)
        limit, failed = self.budget[Kind.TOOL_CALLS].limit, sum(call.is_error for call in self.calls)
        given: dict[str, Any] = {
            "gaps": (),
            "output": None,
            "tool_calls": ToolCalls(int(used[Kind.TOOL_CALLS]), limit and int(limit), failed, self.skipped),
            "limits": {one.kind.value: Spent(round(one.used, 4), one.limit) for one in self.budget.limits},
            "landing": landing,
            "usage": usage,
            "cost_usd": round(used[Kind.COST], 8),
            "duration_s": round(used[Kind.TIME], 3),
            "warnings": tuple(self.warnings),
        }
        names = "20261122-040000-5f3a9c", "codebase-analyst", self.model
        return Outcome(*names, status, answer, tuple(evidence), **(given | others))

    def end(self, outcome: Outcome) -> StoredRun:
        """Record the end, and return the run with its outcome."""
        self.tell(Finished(outcome))
        return self.stored(outcome.status, outcome=outcome.as_json(), ended_at=self.now)

    def stored(self, status: str, **others: Any) -> StoredRun:
        """Return the run so far as it is stored."""
        self.stop()
        used = {limit.kind.value: limit.used for limit in self.budget.limits}
        last = next((turn.reply.text for turn in reversed(self.turns) if turn.reply.text), "")
        given: dict[str, Any] = {
            "run_id": "20261122-040000-5f3a9c",
            "parent_id": None,
            "specialist": "codebase-analyst",
            "model": self.model,
            "question": self.question,
            "status": status,
            "started_at": BEGIN,
            "ended_at": None,
            "tool_calls": len(self.calls),
            "cost_usd": used["cost"],
            "frozen": FROZEN,
            "snapshot": RunSnapshot(used, skipped=self.skipped, last_text=last, warnings=tuple(self.warnings)),
            "outcome": None,
            "turns": tuple(self.turns),
            "calls": tuple(self.calls),
            "messages": tuple(self.messages),
            "events": tuple(self.events),
        }
        return StoredRun(**(given | others))
