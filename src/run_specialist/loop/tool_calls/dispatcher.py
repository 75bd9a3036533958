"""Run the calls of one turn: in parallel, answered in call order, each with its last word from the augmenters."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind, Phase
from run_specialist.loop.observing import telemetry
from run_specialist.loop.observing.observers import Observers
from run_specialist.loop.spending.account import Account
from run_specialist.loop.tool_calls.call import ToolCaller, words
from run_specialist.loop.tool_calls.executed import Augmenter, Executed
from run_specialist.record.events import BudgetSpent, Called, CallPhase, Warned
from run_specialist.record.journal import Returned
from run_specialist.record.messages import ToolCall, ToolResult
from run_specialist.tools.archive import Archive
from run_specialist.tools.base import Toolset
from run_specialist.tools.respond import NAME as RESPOND


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """How the calls of a turn are run."""

    parallel_tools_limit: int = 4
    """Tools running at once inside one turn."""
    tool_timeout: float = 60
    """For one call [s]."""
    tool_result_limit: int = 20_000
    """Longer results are cut [characters]."""
    limit_fields: bool = False
    """Whether the last result of a turn tells in JSON fields that a limit is reached."""
    share_budget: bool = True
    """Whether a child draws on what is left of the budget."""


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """The calls of a run before it was resumed."""

    executed: Mapping[int, Executed] = field(default_factory=dict)
    """Those that returned, by their number in the run."""
    started: int = 0
    """Calls in the turns that were acted upon."""
    cut_off: int = 0
    """Calls after those that may have been under way when the process ended; not one of them is run again."""
    skipped: int = 0


class Dispatcher:
    """Runs tool calls and keeps the record of all that were run."""

    def __init__(  # noqa: PLR0913, PLR0917 - what a call needs and whom it touches, each a part of its own
        self,
        run_id: str,
        tools: Toolset,
        augmenters: Sequence[Augmenter],
        settings: DispatchSettings,
        account: Account,
        audience: Observers,
        archive: Archive | None,
        earlier: EarlierCalls,
        hide: Callable[[str], str],
    ) -> None:
        """Take the parts of a run.

        archive: keeps every output whole, where the model has a tool to read on in it.
        hide: masks credentials; applied to each output once, before anything else sees it.
        """
        timeout, share_budget = settings.tool_timeout, settings.share_budget
        self._calling = ToolCaller(run_id, tools, account, audience, timeout=timeout, share_budget=share_budget)
        self._tools = tools
        self._augmenters = augmenters
        self._settings = settings
        self._account = account
        self._audience = audience
        self._archive = archive
        self._hide = hide
        self._gate = asyncio.Semaphore(settings.parallel_tools_limit)
        self._executed = dict(earlier.executed)
        self._first: dict[str, asyncio.Task[Executed] | Executed] = {}
        for executed in earlier.executed.values():
            tool = tools.get(executed.call.name)
            # A call that never returned left nothing to answer from: whoever makes it again wants it run.
            if tool and tool.repeatable and not _is_unfinished(executed):
                self._first.setdefault(executed.call.key, executed)
        self.started = earlier.started
        """Calls that were started; the next one has the next number."""
        self._cut_off = range(earlier.started + 1, earlier.started + earlier.cut_off + 1)
        self.skipped = earlier.skipped
        """Calls that were answered without being run."""
        self._under_way = range(0)
        self._shown = Budget(())

    @property
    def executed(self) -> tuple[Executed, ...]:
        """All calls that finished so far, in call order."""
        return tuple(self._executed[number] for number in sorted(self._executed))

    async def run(self, calls: Sequence[ToolCall], rest: Sequence[ToolCall]) -> list[ToolResult]:
        """Run some calls of a turn and skip the rest; return all results in call order.

        calls: no more than the budget allows.
        """
        budget = self._shown = self._account.budget
        # Spent before they run: a call that is interrupted was an attempt all the same.
        self._account.spend(len(calls), Kind.TOOL_CALLS)
        first, self.started = self.started + 1, self.started + len(calls)
        self._under_way = range(first, self.started + 1)
        self._calling.expect(calls)
        async with asyncio.TaskGroup() as group:
            tasks = [self._start(group, call, number) for number, call in enumerate(calls, first)]
        budget = budget.spend(self._account.limit(Kind.TIME).used - budget[Kind.TIME].used, Kind.TIME)
        results: list[ToolResult] = []
        for number, task in enumerate(tasks):
            executed = task.result().cut(budget[Kind.CHARACTERS].remaining)
            budget = budget.spend().spend(len(executed.text), Kind.CHARACTERS).spend_all(executed.drawn)
            self._account.spend(len(executed.text), Kind.CHARACTERS)
            self._executed[first + number] = executed
            executed = replace(executed, budget=budget, number=number + 1, of_turn=len(calls))
            results.append(self._augmented(executed))
        results += [self.refuse(call, prompts.skipped(call.name)) for call in rest]
        if self._settings.limit_fields and budget.phase is Phase.SPENT:
            told = prompts.limit_reached(budget.tightest)
            results[-1] = replace(results[-1], content=with_fields(results[-1].content, told))
        self._under_way = range(0)
        return results

    def close(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer the calls of a turn that was broken off: what came of those that returned, and why of the rest."""
        numbers = [*self._under_way, *(0 for _ in calls)]
        self._under_way = range(0)
        return [self._closed(call, number) for call, number in zip(calls, numbers, strict=False)]

    def _closed(self, call: ToolCall, number: int) -> ToolResult:
        if call.name == RESPOND:
            return ToolResult(call.id, prompts.NOT_TAKEN, is_error=True)
        if number == 0:
            return self.refuse(call, prompts.NOT_BEGUN.format(tool=call.name))
        executed = self._executed.get(number) or self._unfinished(call, number, prompts.STOPPED)
        return ToolResult(call.id, "\n".join(executed.lines), executed.is_error)

    def _start(self, group: asyncio.TaskGroup, call: ToolCall, number: int) -> asyncio.Task[Executed]:
        if number in self._cut_off:
            return group.create_task(self._recall(call, number))
        tool = self._tools.get(call.name)
        if tool is None or not tool.repeatable:
            return group.create_task(self._execute(call, number))
        first = self._first.get(call.key)
        if first is not None:
            return group.create_task(self._repeat(first, call, number))
        task = self._first[call.key] = group.create_task(self._execute(call, number))
        return task

    async def _recall(self, call: ToolCall, number: int) -> Executed:
        """Return what the call brought before the process ended; one that had not returned is not run again."""
        return self._executed.get(number) or self._unfinished(call, number, prompts.PROCESS_ENDED)

    def _unfinished(self, call: ToolCall, number: int, why: str) -> Executed:
        return self._record(Executed(call, why.format(tool=call.name), is_error=True), number, 0.0)

    async def _repeat(self, first: asyncio.Task[Executed] | Executed, call: ToolCall, number: int) -> Executed:
        self._audience.tell(Called("started", call.id, call.name, call.arguments))
        done = first if isinstance(first, Executed) else await first
        if self._archive is not None:
            self._archive.add(call.id, done.all)
        return self._record(replace(done, call=call, repeated=True), number, 0.0)

    async def _execute(self, call: ToolCall, number: int) -> Executed:
        self._audience.tell(Called("started", call.id, call.name, call.arguments))
        async with self._gate:
            begun = time.monotonic()
            with telemetry.execute_tool(call) as span:
                answered = await self._calling.answer(call)
                text, note = self._hide(answered.output.text), self._hide(answered.output.note)
                executed = self._kept(Executed(call, text, answered.is_error, note=note, drawn=answered.drawn))
                span.returned(executed.text, answered.raised, is_error=answered.is_error)
            return self._record(executed, number, time.monotonic() - begun)

    def _kept(self, executed: Executed) -> Executed:
        """Put the whole output on record and cut it to what a result may hold."""
        limit, whole = self._settings.tool_result_limit, executed.text
        cut = executed.cut(limit)
        if self._archive is None:
            return cut
        begin = self._archive.add(executed.call.id, whole)
        if not cut.truncated or cut.note:
            return cut
        return replace(cut, note=prompts.read_on(executed.call.id, begin + limit, begin + len(whole)))

    def _record(self, executed: Executed, number: int, duration: float) -> Executed:
        self._executed[number] = executed
        call, size = executed.call, len(executed.text)
        turn = int(self._account.limit(Kind.TURNS).used)
        self._audience.keep(
            Returned(
                number, turn, call, executed.all, size, executed.is_error, executed.note, executed.repeated, duration
            )
        )
        phase: CallPhase = "failed" if executed.is_error else "finished"
        why = executed.text if executed.is_error else ""
        self._audience.tell(Called(phase, call.id, call.name, call.arguments, size, round(duration, 4), why))
        # Told as calls finish, which may be in another order than that of the calls.
        left = self._shown[Kind.CHARACTERS].remaining
        characters = size if left is None else min(size, left)
        self._shown = self._shown.spend().spend(characters, Kind.CHARACTERS).spend_all(executed.drawn)
        self._audience.tell(BudgetSpent.of(self._shown.tightest))
        return executed

    def _augmented(self, executed: Executed) -> ToolResult:
        lines = executed.lines
        fields: dict[str, Any] = {}
        for augmenter in self._augmenters:
            try:
                added = augmenter(executed)
                if isinstance(added, Mapping):
                    fields |= added
                elif added:
                    lines.append(str(added))
            except Exception as error:  # noqa: BLE001 - a foreign augmenter never harms the result
                self._audience.tell(Warned(f"an augmenter failed on {executed.call.name}: {words(error)}"))
        content = "\n".join(lines)
        return ToolResult(executed.call.id, with_fields(content, fields) if fields else content, executed.is_error)

    def refuse(self, call: ToolCall, why: str) -> ToolResult:
        """Answer a call that is not run, whatever the reason."""
        self.skipped += 1
        self._audience.tell(Called("skipped", call.id, call.name, call.arguments, text=why))
        return ToolResult(call.id, why, is_error=True)


def _is_unfinished(executed: Executed) -> bool:
    whys = (prompts.STOPPED, prompts.PROCESS_ENDED)
    return executed.is_error and executed.text in {why.format(tool=executed.call.name) for why in whys}


def with_fields(content: str, fields: Mapping[str, Any]) -> str:
    """Return a result as a JSON object with further fields; what is no JSON object becomes its `output`."""
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        read = None
    whole = read if isinstance(read, dict) else {"output": content}
    return json.dumps({**whole, **fields}, ensure_ascii=False, default=lambda value: type(value).__name__)
