"""Run the tool calls of one turn in parallel, and return their results in call order, extended by the augmenters."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind, Phase
from run_specialist.loop.executed import CallRecord, in_call_order, spend_call
from run_specialist.loop.job import RunContext
from run_specialist.loop.observing import telemetry
from run_specialist.loop.tool_calls.call import ToolCaller
from run_specialist.loop.tool_calls.server_uses import ServerUses
from run_specialist.loop.tool_calls.tool_result import augmented, with_fields
from run_specialist.record.events import BudgetSpent, Called, CallPhase, Warned
from run_specialist.record.journal import Returned
from run_specialist.record.messages import Reply, ToolCall, ToolResult
from run_specialist.tools.respond import NAME as RESPOND


class Dispatcher:
    """Runs the tool calls of a run, and records all calls that returned."""

    def __init__(self, run: RunContext) -> None:
        self._run, job = run, run.job
        self._tools = job.opening.tools
        self._caller = ToolCaller(run)
        self._server_uses = ServerUses(run)
        self._gate = asyncio.Semaphore(job.settings.parallel_tools_limit)
        earlier = job.resume_state.earlier
        self._records = dict(earlier.executed)
        """The calls that returned, by their number in the run."""
        self._first: dict[str, asyncio.Task[CallRecord] | CallRecord] = {}
        """First calls of repeatable tools; later identical calls get their results."""
        for record in earlier.executed.values():
            tool = self._tools.get(record.call.name)
            # A call that never returned has no result to repeat: an identical one is run.
            if tool and tool.repeatable and not _is_unfinished(record):
                self._first.setdefault(record.call.key, record)
        self.started = earlier.started
        """Number of calls started so far."""
        self._cut_off = range(earlier.started + 1, earlier.started + earlier.cut_off + 1)
        """Numbers of the calls that may have been running when the process ended."""
        self.skipped = earlier.skipped
        """Number of calls that were answered without being run."""
        self._running = range(0)
        """Numbers of the calls of the turn in progress."""
        self._budget = Budget(())
        """The budget after the calls of the current turn that have returned so far."""

    @property
    def executed(self) -> tuple[CallRecord, ...]:
        """All calls that returned so far, in call order."""
        return tuple(self._records[number] for number in sorted(self._records))

    @property
    def read_by_model(self) -> tuple[CallRecord, ...]:
        """The calls of earlier turns that returned, in call order; an interrupted turn does not count as read."""
        return tuple(self._records[number] for number in sorted(self._records) if number <= self.started)

    def forget_interrupted(self) -> None:
        """Allow further calls to run, although interrupted calls may have been running; those are not repeated."""
        self._cut_off = range(0)

    def book_server_calls(self, reply: Reply) -> None:
        """Count and record the calls that the API ran itself during a reply."""
        booked = self._server_uses.book(reply, self.started)
        self._records |= booked.records
        self.started += len(booked.records)
        self.skipped += booked.skipped
        # The calls that were interrupted have the numbers after these.
        self._cut_off = range(self._cut_off.start + len(booked.records), self._cut_off.stop + len(booked.records))

    async def run(self, calls: Sequence[ToolCall], rest: Sequence[ToolCall]) -> list[ToolResult]:
        """Run some calls of a turn and skip the rest; return all results in call order.

        calls: no more than the budget allows.
        """
        # `self._budget` follows the calls as they return, `budget` as the model reads them, in call order.
        budget = self._budget = self._run.account.budget
        # Spent before they run: an interrupted call was an attempt, too.
        self._run.account.spend(len(calls), Kind.TOOL_CALLS)
        first_number, self.started = self.started + 1, self.started + len(calls)
        self._running = range(first_number, self.started + 1)
        self._caller.expect(calls)
        async with asyncio.TaskGroup() as group:
            tasks = [self._start(group, call, number) for number, call in enumerate(calls, first_number)]
        # Before the first result is read, the time of all calls is spent.
        budget = budget.spend(self._run.account.limit(Kind.TIME).used - budget[Kind.TIME].used, Kind.TIME)
        results = []
        for number, executed in enumerate(in_call_order(budget, [task.result() for task in tasks]), first_number):
            self._run.account.spend(len(executed.text), Kind.CHARACTERS)
            # An `Executed` would keep its budget alive: more than half of the objects that a call leaves behind.
            self._records[number] = self._records[number].cut(len(executed.text))
            budget = executed.budget
            results.append(augmented(executed, self._run.job.augmenters, self._warn))
        results += [self.refuse(call, prompts.skipped(call.name)) for call in rest]
        countdown = self._run.job.settings.countdown
        if countdown.style == "json" and countdown.from_ is not None and budget.phase is Phase.SPENT:
            fields = prompts.limit_reached(budget.tightest)
            results[-1] = replace(results[-1], content=with_fields(results[-1].content, fields))
        self._running = range(0)
        return results

    def close(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer the calls of an interrupted turn: with their result if they returned, otherwise with the reason."""
        numbers, self._running = iter(self._running), range(0)
        # 0 = a call that was not started.
        return [self._closed(call, 0 if call.name == RESPOND else next(numbers, 0)) for call in calls]

    def refuse(self, call: ToolCall, why: str) -> ToolResult:
        """Answer a call without running it."""
        self.skipped += 1
        self._run.observers.notify(Called("skipped", call.id, call.name, call.arguments, text=why))
        return ToolResult(call.id, why, is_error=True)

    def _closed(self, call: ToolCall, number: int) -> ToolResult:
        if call.name == RESPOND:
            return ToolResult(call.id, prompts.NOT_TAKEN, is_error=True)
        if number == 0:
            return self.refuse(call, prompts.NOT_BEGUN.format(tool=call.name))
        record = self._records.get(number) or self._record_unfinished(call, number, prompts.STOPPED)
        return ToolResult(call.id, "\n".join(record.lines), record.is_error)

    def _start(self, group: asyncio.TaskGroup, call: ToolCall, number: int) -> asyncio.Task[CallRecord]:
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

    async def _recall(self, call: ToolCall, number: int) -> CallRecord:
        """Return a result from before the process ended; a call that had not returned is not run again."""
        return self._records.get(number) or self._record_unfinished(call, number, prompts.PROCESS_ENDED)

    def _record_unfinished(self, call: ToolCall, number: int, why: str) -> CallRecord:
        return self._record(CallRecord(call, why.format(tool=call.name), is_error=True), number, 0.0)

    async def _repeat(self, first: asyncio.Task[CallRecord] | CallRecord, call: ToolCall, number: int) -> CallRecord:
        self._run.observers.notify(Called("started", call.id, call.name, call.arguments))
        done = first if isinstance(first, CallRecord) else await first
        if self._run.job.archive is not None:
            self._run.job.archive.add(call.id, done.all)
        return self._record(replace(done, call=call, repeated=True), number, 0.0)

    async def _execute(self, call: ToolCall, number: int) -> CallRecord:
        self._run.observers.notify(Called("started", call.id, call.name, call.arguments))
        hide = self._run.job.hide
        async with self._gate:
            begun = time.monotonic()
            with telemetry.execute_tool(call) as span:
                result = await self._caller.answer(call)
                text, note = hide(result.output.text), hide(result.output.note)
                record = self._archived(CallRecord(call, text, result.is_error, note=note, drawn=result.drawn))
                span.returned(record.text, result.raised, is_error=result.is_error)
            return self._record(record, number, time.monotonic() - begun)

    def _archived(self, record: CallRecord) -> CallRecord:
        """Archive the complete output and cut it to the result limit."""
        archive, limit = self._run.job.archive, self._run.job.result_chars(len(self._running))
        cut = record.cut(limit)
        if archive is None:
            return cut
        begin = archive.add(record.call.id, record.text)
        # A tool keeps to the limit of one result and says how to read on, but does not know about the other calls.
        if not cut.truncated or (cut.note and limit == self._run.job.settings.tool_result_limit):
            return cut
        return replace(cut, note=prompts.read_on(record.call.id, begin + limit, begin + len(record.text)))

    def _record(self, record: CallRecord, number: int, seconds: float) -> CallRecord:
        """Store and report a call as soon as it returns; the order may differ from call order."""
        self._records[number] = record
        call, size, turn = record.call, len(record.text), self._run.account.turns
        returned = Returned(
            number, turn, call, record.all, size, record.is_error, record.note, record.repeated, seconds
        )
        self._run.observers.record(returned)
        phase: CallPhase = "failed" if record.is_error else "finished"
        error = record.text if record.is_error else ""
        self._run.observers.notify(Called(phase, call.id, call.name, call.arguments, size, round(seconds, 4), error))
        self._budget = spend_call(self._budget, record)
        self._run.observers.notify(BudgetSpent.of(self._budget.tightest))
        return record

    def _warn(self, text: str) -> None:
        self._run.observers.notify(Warned(text))


def _is_unfinished(record: CallRecord) -> bool:
    reasons = (prompts.STOPPED, prompts.PROCESS_ENDED)
    return record.is_error and record.text in {reason.format(tool=record.call.name) for reason in reasons}
