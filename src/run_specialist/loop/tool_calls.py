"""Execute the tool calls of one turn: check, run, time, count and log each."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from math import inf
from typing import Any, cast

from run_specialist import prompts
from run_specialist.budget import Budget, Kind, Phase
from run_specialist.errors import ToolError
from run_specialist.loop import observing
from run_specialist.loop.account import ChildBudget
from run_specialist.loop.job import Augmenter, CallRecord, Executed, RunContext, in_call_order, spend_call
from run_specialist.loop.observing import Observers
from run_specialist.record.events import BudgetSpent, Called, CallPhase, Event, Warned
from run_specialist.record.journal import Record, Returned
from run_specialist.record.messages import Reply, ToolCall, ToolResult, server_calls
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.tools.base import ChildContext, Context, Output, Tool


class Dispatcher:
    """Runs the tool calls of a run, and records all calls that returned."""

    def __init__(self, run: RunContext) -> None:
        self._run, job = run, run.job
        self._tools = job.opening.tools
        self._log = CallLog(run.observers, job.hide)
        self._gate = asyncio.Semaphore(job.settings.parallel_tools_limit)
        earlier = job.resume_state.earlier
        # The calls that returned, by their number in the run.
        self._records = dict(earlier.executed)
        # First calls of repeatable tools; later identical calls get their results.
        self._first: dict[str, asyncio.Task[CallRecord] | CallRecord] = {}
        for record in earlier.executed.values():
            tool = self._tools.get(record.call.name)
            # A call that never returned has no result to repeat: an identical one is run.
            unfinished = {why.format(tool=record.call.name) for why in (prompts.STOPPED, prompts.PROCESS_ENDED)}
            if tool and tool.repeatable and not (record.is_error and record.text in unfinished):
                self._first.setdefault(record.call.key, record)
        self.started = earlier.started
        """Number of calls started so far."""
        # Numbers of the calls that may have been running when the process ended.
        self._cut_off = range(earlier.started + 1, earlier.started + earlier.cut_off + 1)
        self.skipped = earlier.skipped
        """Number of calls that were answered without being run."""
        self.cancelled_before = 0
        """How often the task of the run was cancelled before it began; its caller has ignored that."""
        # Numbers of the calls of the turn in progress.
        self._running = range(0)
        # The budget after the calls of the current turn that have returned so far.
        self._budget = Budget(())

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
        """Count and record the calls that the API ran itself during a reply; each counts like a local call.

        A call without a result is charged, too: the API runs it with the next request, whose reply begins with the
        result.
        """
        account, observers, started = self._run.account, self._run.observers, self.started
        uses = server_calls(reply.content)
        for use in uses:
            if use.is_refused:
                self.refuse(use.call, prompts.skipped(use.call.name))
        for use in uses:
            if use.is_refused:
                continue
            call = use.call
            if use.was_made_here:
                account.spend(1, Kind.TOOL_CALLS)
                observers.notify(Called("started", call.id, call.name, call.arguments))
            if use.result is None:
                continue
            self.started += 1
            text = self._run.job.hide(use.text)
            record = self._records[self.started] = CallRecord(call, text, is_error=bool(use.error))
            if self._run.job.archive is not None:
                self._run.job.archive.add(call.id, text)
            account.spend(len(text), Kind.CHARACTERS)
            self._report(record, self.started, 0.0)
            observers.notify(BudgetSpent.of(account.budget.tightest))
        # The calls that were interrupted have the numbers after these.
        returned = self.started - started
        self._cut_off = range(self._cut_off.start + returned, self._cut_off.stop + returned)

    async def run(self, turn: Sequence[ToolCall], to_run: int, most: float = inf) -> list[ToolResult]:
        """Run the first calls of a turn and skip the rest; return all results in call order.

        turn: `respond` among them is not accepted.
        to_run: number of other calls to run; no more than the budget allows.
        most: timeout of each call, beside those of the specialist and the tool [s].
        """
        wanted = [call for call in turn if call.name != RESPOND]
        calls, rest = wanted[:to_run], wanted[to_run:]
        # `self._budget` follows the calls as they return, `budget` as the model reads them, in call order.
        begun = self._run.account.elapsed
        budget = self._budget = self._run.account.budget
        # Spent before they run: an interrupted call was an attempt, too.
        self._run.account.spend(len(calls), Kind.TOOL_CALLS)
        first_number, self.started = self.started + 1, self.started + len(calls)
        self._running = range(first_number, self.started + 1)
        # The children of a turn share the remaining budget.
        self._run.account.waiting_children = sum(self._tools.runs_child(call.name) for call in calls)
        if len(calls) == 1:
            # A task of its own would take a tenth of the time of a turn.
            returned = [await self._work(calls[0], first_number, most)]
        else:
            numbered_calls = enumerate(calls, first_number)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._work(call, number, most)) for number, call in numbered_calls]
            returned = [task.result() for task in tasks]
        # Before the first result is read, the time of all calls is spent.
        budget = budget.spend_all({Kind.TIME: self._run.account.elapsed - begun})
        results = []
        for number, executed in enumerate(in_call_order(budget, returned), first_number):
            self._run.account.spend(len(executed.text), Kind.CHARACTERS)
            # An `Executed` would keep its budget alive: more than half of the objects that a call leaves behind.
            self._records[number] = self._records[number].cut(len(executed.text))
            budget = executed.budget
            results.append(augmented(executed, self._run.job.augmenters, self._run.observers))
        others = iter([*results, *(self.refuse(call, prompts.skipped(call.name)) for call in rest)])
        results = [
            ToolResult(call.id, prompts.TOO_EARLY, is_error=True) if call.name == RESPOND else next(others)
            for call in turn
        ]
        countdown = self._run.job.settings.countdown
        if countdown.style == "json" and countdown.from_ is not None and budget.phase is Phase.SPENT:
            fields = prompts.limit_reached(budget.tightest)
            results[-1] = replace(results[-1], content=with_fields(results[-1].content, fields))
        self._running = range(0)
        return results

    def close(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Answer the calls of an interrupted turn: with their result if they returned, otherwise with the reason."""
        numbers, self._running = iter(self._running), range(0)
        results = []
        for call in calls:
            if call.name == RESPOND:
                results.append(ToolResult(call.id, prompts.NOT_TAKEN, is_error=True))
            elif (number := next(numbers, None)) is None:
                results.append(self.refuse(call, prompts.NOT_BEGUN.format(tool=call.name)))
            else:
                record = self._records.get(number) or self._record_unfinished(call, number, prompts.STOPPED)
                results.append(ToolResult(call.id, "\n".join(record.lines), record.is_error))
        return results

    def refuse(self, call: ToolCall, why: str) -> ToolResult:
        """Answer a call without running it."""
        self.skipped += 1
        self._run.observers.notify(Called("skipped", call.id, call.name, call.arguments, text=why))
        return ToolResult(call.id, why, is_error=True)

    async def _work(self, call: ToolCall, number: int, most: float) -> CallRecord:
        """Answer a call by running it, or by the result of an identical one; several calls have a task each."""
        if number in self._cut_off:
            # Begun before the process ended; if it had not returned, it is not run again.
            return self._records.get(number) or self._record_unfinished(call, number, prompts.PROCESS_ENDED)
        tool = self._tools.get(call.name)
        if tool is None or not tool.repeatable:
            return await self._execute(call, tool, number, most)
        key = call.key
        if (first := self._first.get(key)) is not None:
            return await self._repeat(first, call, number)
        if len(self._running) > 1:
            # Identical calls of the turn wait for this one.
            self._first[key] = cast("asyncio.Task[CallRecord]", asyncio.current_task())
        record = self._first[key] = await self._execute(call, tool, number, most)
        return record

    def _record_unfinished(self, call: ToolCall, number: int, why: str) -> CallRecord:
        return self._record(CallRecord(call, why.format(tool=call.name), is_error=True), number, 0.0)

    async def _repeat(self, first: asyncio.Task[CallRecord] | CallRecord, call: ToolCall, number: int) -> CallRecord:
        self._run.observers.notify(Called("started", call.id, call.name, call.arguments))
        done = first if isinstance(first, CallRecord) else await first
        if self._run.job.archive is not None:
            self._run.job.archive.add(call.id, done.all)
        return self._record(replace(done, call=call, repeated=True), number, 0.0)

    async def _execute(self, call: ToolCall, tool: Tool | None, number: int, most: float) -> CallRecord:
        self._run.observers.notify(Called("started", call.id, call.name, call.arguments))
        hide = self._run.job.hide
        async with self._gate:
            begun = time.monotonic()
            with observing.execute_tool(call) as span:
                output, raised, drawn = await self._answer(call, tool, most)
                is_error = raised is not None or output.is_error
                text = hide(output.text)
                if tool and tool.numbered and not is_error:
                    text = numbered(text, number)
                record = CallRecord(call, text, is_error, note=hide(output.note), drawn=drawn)
                record = self._archived(record, is_numbered=bool(tool and tool.numbered))
                span.returned(record.text, raised, is_error=is_error)
            return self._record(record, number, time.monotonic() - begun)

    async def _answer(
        self, call: ToolCall, tool: Tool | None, most: float
    ) -> tuple[Output, BaseException | None, Mapping[Kind, float]]:
        """Call the tool; return its output, the exception that the output describes, and what a child run spent.

        Raises only cancellations, KeyboardInterrupt and GeneratorExit.
        """
        shared = self._run.job.settings.share_budget
        child_budget = ChildBudget(self._run.account, self._run.observers, shared=shared)
        raised: BaseException | None = None
        cancelled_before = self.cancelled_before if len(self._running) == 1 else 0
        try:
            output = await self._output(call, tool, child_budget, most)
        except ToolError as error:
            output, raised = Output(prompts.failed(call.name, str(error))), error
        except (KeyboardInterrupt, GeneratorExit):
            raise
        # The model reads every other exception, even one that would end a task or a program, and the run continues.
        except BaseException as error:
            if (task := asyncio.current_task()) and task.cancelling() > cancelled_before:
                # The tool may have converted the cancellation into its own exception.
                raise asyncio.CancelledError from error
            output, raised = Output(prompts.failed(call.name, error_line(error))), error
        if tool and tool.runs_child:
            # The child may have failed before it reserved its share.
            child_budget.leave()
        return output, raised, child_budget.drawn

    async def _output(self, call: ToolCall, tool: Tool | None, child_budget: ChildBudget, most: float) -> Output:
        if tool is None:
            raise ToolError(f"there is no such tool; there are {', '.join(self._tools.names)}")
        if call.arguments is None:
            raise ToolError("the arguments are no JSON object")
        seconds = min(self._run.job.settings.tool_timeout if tool.timeout is None else tool.timeout, most)
        left, reason = self._run.account.seconds_left(in_landing=False), ""
        if left is not None and left < seconds:
            seconds, reason = left, ", when the time of the run was up"
        context = None
        if tool.takes_context:
            known = (self._run.job.run_id, call.id, self._run.account.budget, seconds)
            context = Context(*known, log=self._log)
            if tool.runs_child:
                context = ChildContext(*known, child_budget, self._run.stop.notifying, self._run.steered, log=self._log)
        output = await tool.call_within(seconds, call.arguments, context)
        if output is None:
            raise ToolError(f"no result within {seconds:.3g} seconds{reason}")
        return output

    def _archived(self, record: CallRecord, *, is_numbered: bool) -> CallRecord:
        """Archive the complete output and cut it to the result limit."""
        archive, limit = self._run.job.archive, self._run.job.result_chars(len(self._running))
        cut = record.cut(limit)
        if archive is None:
            return cut
        begin = archive.add(record.call.id, record.text)
        # A file tool keeps to the limit of one result and says how to read on, but does not know about the other calls.
        says_how = cut.note and limit == self._run.job.settings.tool_result_limit and not is_numbered
        if not cut.truncated or says_how:
            return cut
        note = prompts.read_on(record.call.id, begin + limit, begin + len(record.text))
        return replace(cut, note="\n".join(filter(None, [note, cut.note if is_numbered else ""])))

    def _record(self, record: CallRecord, number: int, seconds: float) -> CallRecord:
        """Store and report a call as soon as it returns; the order may differ from call order."""
        self._records[number] = record
        if self._run.observers.are_any:
            self._report(record, number, seconds)
            self._budget = spend_call(self._budget, record)
            self._run.observers.notify(BudgetSpent.of(self._budget.tightest))
        return record

    def _report(self, record: CallRecord, number: int, seconds: float) -> None:
        call, whole, size, turn = record.call, record.all, len(record.text), self._run.account.turns
        returned = Returned(number, turn, call, whole, size, record.is_error, record.note, record.repeated, seconds)
        self._run.observers.record(returned)
        phase: CallPhase = "failed" if record.is_error else "finished"
        error = record.text if record.is_error else ""
        self._run.observers.notify(Called(phase, call.id, call.name, call.arguments, size, round(seconds, 4), error))


class CallLog:
    """Implements `RunLog` for the calls of one run."""

    def __init__(self, observers: Observers, hide: Callable[[str], str]) -> None:
        """Set the observers of the run, and the function that masks its credentials."""
        self._observers = observers
        self._hide = hide

    def notify(self, event: Event) -> None:
        """Report and store an event; credentials in its texts are masked."""
        texts = {one.name: value for one in fields(event) if isinstance(value := getattr(event, one.name), str)}
        self._observers.notify(replace(event, **{name: self._hide(text) for name, text in texts.items()}))

    @property
    def is_stored(self) -> bool:
        """Whether the run is stored."""
        return self._observers.journal is not None

    async def stored(self, record: Record) -> bool:
        """Store a record and wait; return whether it was stored. True if the run is not stored at all."""
        journal = self._observers.journal
        if journal is None:
            return True
        journal.write(record)
        return await journal.has_stored()


def numbered(text: str, number: int) -> str:
    """Return a result of several lines with a name and line numbers; one line is returned unchanged.

    number: number of the call in the run.
    """
    lines = text.removesuffix("\n").split("\n")
    if len(lines) == 1:
        return text
    return "\n".join([prompts.numbered(number, len(lines)), *(f"{at}\t{line}" for at, line in enumerate(lines, 1))])


def augmented(executed: Executed, augmenters: Iterable[Augmenter], observers: Observers) -> ToolResult:
    """Return the result of a call with the additions of the augmenters.

    observers: get a warning for each augmenter that raises; its addition is omitted.
    """
    lines = executed.lines
    fields: dict[str, Any] = {}
    for augmenter in augmenters:
        try:
            added = augmenter(executed)
            if isinstance(added, Mapping):
                fields |= added
            elif added:
                lines.append(str(added))
        except Exception as error:  # noqa: BLE001 - a foreign augmenter must not harm the result
            observers.notify(Warned(f"an augmenter failed on {executed.call.name}: {error_line(error)}"))
    content = "\n".join(lines)
    return ToolResult(executed.call.id, with_fields(content, fields) if fields else content, executed.is_error)


def with_fields(content: str, fields: Mapping[str, Any]) -> str:
    """Return a result as a JSON object with further fields; other content becomes its `output`."""
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        read = None
    whole = read if isinstance(read, dict) else {"output": content}
    return json.dumps({**whole, **fields}, ensure_ascii=False, default=lambda value: type(value).__name__)


def error_line(error: BaseException) -> str:
    """Return an exception as a line of text that a model may read."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - `__str__` of a foreign exception is foreign code
        return type(error).__name__


# Share of the character limit at which a warning that was set for tool calls appears, too.
_WARN_AT_CHARACTERS = 0.9


def countdown(style: str) -> Augmenter:
    """Return the augmenter that appends the remaining budget of the tightest kind to each result.

    style: `remaining` or `budget`, the formats of `prompts.countdown`.
    """
    return lambda executed: prompts.countdown(executed.budget.tightest, style)


def warning(at: float) -> Augmenter:
    """Return the augmenter that asks the model once to finish, before a limit is reached.

    at: when to warn; an integer = tool calls left, a float = spent share of any kind.
    """
    warned = False

    def warn(executed: Executed) -> str | None:
        nonlocal warned
        is_last = executed.number == executed.of_turn
        if warned or not is_last or executed.budget.phase is Phase.SPENT:
            return None
        budget = executed.budget
        if isinstance(at, int):
            remaining = budget[Kind.TOOL_CALLS].remaining
            # The next turn may make as many calls as this one, and the warning must come before the last call.
            few_are_left = remaining is not None and remaining <= max(at, executed.of_turn)
            warned = few_are_left or budget[Kind.CHARACTERS].reached(_WARN_AT_CHARACTERS)
        else:
            warned = any(limit.reached(at) for limit in budget.limits)
        return prompts.WARNING if warned else None

    return warn
