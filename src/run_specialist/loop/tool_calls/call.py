"""Call one tool: its view of the run, its time limit, and the report of its failure to the model."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.errors import ToolError
from run_specialist.loop.job import RunContext
from run_specialist.loop.spending.child_budget import ChildBudget, ChildBudgets
from run_specialist.loop.tool_calls.run_log import CallLog
from run_specialist.loop.tool_calls.tool_result import error_line
from run_specialist.record.messages import ToolCall
from run_specialist.tools.base import Output, Tool
from run_specialist.tools.context import ChildContext, Context


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a call."""

    output: Output
    """Output for the model; describes the exception if one was raised."""
    raised: BaseException | None
    drawn: Mapping[Kind, float]
    """The amounts that a child run spent of the budget, in addition to the call itself."""

    @property
    def is_error(self) -> bool:
        """True if the output describes a failure."""
        return self.raised is not None or self.output.is_error


class ToolCaller:
    """Calls the tools of one run."""

    def __init__(self, run: RunContext) -> None:
        self._run = run
        self._tools = run.job.opening.tools
        self._child_budgets = ChildBudgets(run.account, 0)
        self._log = CallLog(run.observers, run.job.hide)

    def expect(self, calls: Sequence[ToolCall]) -> None:
        """Prepare for the calls of a turn; their children share the remaining budget."""
        self._child_budgets = ChildBudgets(self._run.account, sum(self._tools.runs_child(call.name) for call in calls))

    async def answer(self, call: ToolCall) -> CallResult:
        """Call the tool; raise only cancellations, KeyboardInterrupt and GeneratorExit."""
        shared = self._run.job.settings.share_budget
        child_budget = ChildBudget(self._run.account, self._run.observers, self._child_budgets, shared=shared)
        raised: BaseException | None = None
        try:
            output = await self._output(call, child_budget)
        except ToolError as error:
            output, raised = Output(prompts.failed(call.name, str(error))), error
        except (KeyboardInterrupt, GeneratorExit):
            raise
        # The model reads every other exception, even one that would end a task or a program, and the run continues.
        except BaseException as error:
            if (task := asyncio.current_task()) and task.cancelling():
                # The tool may have converted the cancellation into its own exception.
                raise asyncio.CancelledError from error
            output, raised = Output(prompts.failed(call.name, error_line(error))), error
        if self._tools.runs_child(call.name):
            # The child may have failed before it reserved its share.
            child_budget.leave()
        return CallResult(output, raised, child_budget.drawn)

    async def _output(self, call: ToolCall, child_budget: ChildBudget) -> Output:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no such tool; there are {', '.join(self._tools.names)}")
        if call.arguments is None:
            raise ToolError("the arguments are no JSON object")
        seconds, reason = self._time_for(tool)
        known = (self._run.job.run_id, call.id, self._run.account.budget, seconds)
        context = (
            ChildContext(*known, child_budget, self._run.stop.notifying, log=self._log)
            if tool.runs_child
            else Context(*known, log=self._log)
        )
        output = await tool.call_within(seconds, call.arguments, context)
        if output is None:
            raise ToolError(f"no result within {seconds:.3g} seconds{reason}")
        return output

    def _time_for(self, tool: Tool) -> tuple[float, str]:
        """Return the timeout of a call [s], and a text to append to the timeout message."""
        seconds = self._run.job.settings.tool_timeout if tool.timeout is None else tool.timeout
        left = self._run.account.seconds_left(in_landing=False)
        return (seconds, "") if left is None or left >= seconds else (left, ", when the time of the run was up")
