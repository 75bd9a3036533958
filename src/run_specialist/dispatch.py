"""Run the calls of one turn: in parallel, answered in call order, each with its last word from the augmenters."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from run_specialist import prompts
from run_specialist.budget import Budget, Kind
from run_specialist.errors import ToolError
from run_specialist.events import BudgetSpent, Called, CallPhase, Listener, Warned
from run_specialist.messages import ToolCall, ToolResult
from run_specialist.redaction import redact
from run_specialist.tools.base import Tool, Toolset


@dataclass(frozen=True, slots=True)
class Executed:
    """A tool call that was run, with what came of it."""

    call: ToolCall
    text: str
    """The raw output: redacted, cut to the limit of a result, without any notice of ours."""
    is_error: bool
    repeated: bool
    """True when an identical call was made before and this is its result."""
    budget: Budget
    """The budget after this call, in call order."""


Augmenter = Callable[[Executed], str | None]
"""Looks at a finished call and may return a line to stand at the end of its result."""


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """How the calls of a turn are run."""

    parallel_tools_limit: int = 4
    """Tools running at once inside one turn."""
    tool_timeout: float = 60
    """For one call [s]."""
    tool_result_limit: int = 20_000
    """Longer results are cut [characters]."""


class Dispatcher:
    """Runs tool calls and keeps the record of all that were run."""

    def __init__(
        self,
        tools: Toolset,
        augmenters: Sequence[Augmenter],
        settings: DispatchSettings,
        emit: Listener,
    ) -> None:
        self._tools = tools
        self._augmenters = augmenters
        self._settings = settings
        self._emit = emit
        self._gate = asyncio.Semaphore(settings.parallel_tools_limit)
        self._first: dict[str, asyncio.Task[Executed]] = {}
        self._executed: dict[int, Executed] = {}
        self._started = 0
        self.skipped = 0
        """Calls that were answered without being run."""
        self._shown = Budget(())

    @property
    def executed(self) -> tuple[Executed, ...]:
        """All calls that finished so far, in call order."""
        return tuple(self._executed[number] for number in sorted(self._executed))

    async def run(self, calls: Sequence[ToolCall], budget: Budget) -> list[ToolResult]:
        """Run the calls, which the budget must allow, and return their results in call order."""
        self._shown = budget
        async with asyncio.TaskGroup() as group:
            tasks = []
            for call in calls:
                budget = budget.spend()
                self._started += 1
                tasks.append(self._start(group, call, self._started, budget))
        return [self._augmented(task.result()) for task in tasks]

    def _start(self, group: asyncio.TaskGroup, call: ToolCall, number: int, budget: Budget) -> asyncio.Task[Executed]:
        tool = self._tools.get(call.name)
        first = self._first.get(call.key)
        if first is not None:
            return group.create_task(self._repeat(first, call, number, budget))
        task = group.create_task(self._execute(tool, call, number, budget))
        if tool is not None and tool.repeatable:
            self._first[call.key] = task
        return task

    async def _repeat(self, first: asyncio.Task[Executed], call: ToolCall, number: int, budget: Budget) -> Executed:
        self._emit(Called("started", call.id, call.name, call.arguments))
        executed = replace(await first, call=call, repeated=True, budget=budget)
        return self._record(executed, number, 0.0)

    async def _execute(self, tool: Tool | None, call: ToolCall, number: int, budget: Budget) -> Executed:
        async with self._gate:
            self._emit(Called("started", call.id, call.name, call.arguments))
            begun = time.monotonic()
            try:
                text, is_error = await self._output(tool, call), False
            except ToolError as error:
                text, is_error = prompts.failed(call.name, str(error)), True
            # A tool may raise anything, even what would end a task or a program: the model is told, the run goes on.
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                if (task := asyncio.current_task()) and task.cancelling():
                    raise
                text, is_error = prompts.failed(call.name, f"{type(error).__name__}: {error}"), True
            executed = Executed(call, self._cut(redact(text)), is_error, repeated=False, budget=budget)
            return self._record(executed, number, time.monotonic() - begun)

    async def _output(self, tool: Tool | None, call: ToolCall) -> str:
        if tool is None:
            raise ToolError(f"there is no such tool; there are {', '.join(self._tools.names)}")
        if call.arguments is None:
            raise ToolError("the arguments are no JSON object")
        seconds = self._settings.tool_timeout
        try:
            async with asyncio.timeout(seconds) as timeout:
                return await tool.call(call.arguments)
        except TimeoutError as error:
            if timeout.expired():
                raise ToolError(f"no result within {seconds:g} seconds") from error
            raise

    def _cut(self, text: str) -> str:
        limit = self._settings.tool_result_limit
        return text if len(text) <= limit else text[:limit] + prompts.TRUNCATED

    def _record(self, executed: Executed, number: int, duration: float) -> Executed:
        self._executed[number] = executed
        call, size = executed.call, len(executed.text)
        phase: CallPhase = "failed" if executed.is_error else "finished"
        why = executed.text if executed.is_error else ""
        self._emit(Called(phase, call.id, call.name, call.arguments, size, round(duration, 4), why))
        # Told as calls finish, which may be in another order than that of the calls.
        self._shown = self._shown.spend()
        self._emit(BudgetSpent.of(self._shown.tightest))
        return executed

    def _augmented(self, executed: Executed) -> ToolResult:
        lines = [executed.text if executed.text.strip() else prompts.EMPTY_RESULT]
        if executed.repeated:
            lines.append(prompts.SAME_CALL)
        for augmenter in self._augmenters:
            try:
                lines += [str(line)] if (line := augmenter(executed)) else []
            except Exception as error:  # noqa: BLE001 - a foreign augmenter never harms the result
                self._emit(Warned(f"an augmenter failed on {executed.call.name}: {error!r}"))
        return ToolResult(executed.call.id, "\n".join(lines), executed.is_error)

    def skip(self, calls: Sequence[ToolCall], kind: Kind, limit: float | None) -> list[ToolResult]:
        """Answer calls that the budget does not allow, without running them."""
        return [self.refuse(call, prompts.skipped(call.name, kind, limit)) for call in calls]

    def refuse(self, call: ToolCall, why: str) -> ToolResult:
        """Answer a call that is not run, whatever the reason."""
        self.skipped += 1
        self._emit(Called("skipped", call.id, call.name, call.arguments, text=why))
        return ToolResult(call.id, why, is_error=True)
