"""One call of a tool: what it knows of the run, how long it may take, and what the model is told of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from run_specialist import prompts
from run_specialist.budget.budget import Kind
from run_specialist.errors import ToolError
from run_specialist.loop.observing.observers import Observers
from run_specialist.loop.spending.account import Account
from run_specialist.loop.spending.child_budget import ChildBudget, ChildBudgets
from run_specialist.record.messages import ToolCall
from run_specialist.tools.base import Output, Tool, Toolset
from run_specialist.tools.context import Context


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call."""

    output: Output
    """For the model; where something was raised, that in words."""
    raised: BaseException | None
    drawn: dict[Kind, float]
    """What a child took of the budget, beside the call itself."""

    @property
    def is_error(self) -> bool:
        """True where the output tells what went wrong."""
        return self.raised is not None or self.output.is_error


class ToolCaller:
    """Calls the tools of one run."""

    def __init__(  # noqa: PLR0913 - what a call needs and whom it touches
        self,
        run_id: str,
        tools: Toolset,
        account: Account,
        audience: Observers,
        *,
        timeout: float,
        share_budget: bool,
    ) -> None:
        """Take the parts of a run.

        timeout: of a tool that has none of its own [s].
        share_budget: whether a child draws on what is left of the budget.
        """
        self._run_id = run_id
        self._tools = tools
        self._account = account
        self._audience = audience
        self._timeout = timeout
        self._share_budget = share_budget
        self._queue = ChildBudgets(account, 0)

    def expect(self, calls: Sequence[ToolCall]) -> None:
        """Take note of the calls of a turn, among whose children the budget is parted."""
        self._queue = ChildBudgets(self._account, sum(self._tools.runs_child(call.name) for call in calls))

    async def answer(self, call: ToolCall) -> CallResult:
        """Call the tool and return what came of it; only a cancellation, and what ends the program, is raised."""
        purse = ChildBudget(self._account, self._audience, self._queue, shared=self._share_budget)
        raised: BaseException | None = None
        try:
            output = await self._output(call, purse)
        except ToolError as error:
            output, raised = Output(prompts.failed(call.name, str(error))), error
        except (KeyboardInterrupt, GeneratorExit):
            raise
        # Anything else, even what would end a task or a program, is told to the model, and the run goes on.
        except BaseException as error:
            if (task := asyncio.current_task()) and task.cancelling():
                # Whatever the tool makes of a cancellation, to those who wait it stays one.
                raise asyncio.CancelledError from error
            output, raised = Output(prompts.failed(call.name, words(error))), error
        if self._tools.runs_child(call.name):
            # Also one that was refused before it asked for its part.
            purse.leave()
        return CallResult(output, raised, purse.drawn)

    async def _output(self, call: ToolCall, purse: ChildBudget) -> Output:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no such tool; there are {', '.join(self._tools.names)}")
        if call.arguments is None:
            raise ToolError("the arguments are no JSON object")
        seconds, why = self._time_for(tool)
        context = Context(self._run_id, call.id, self._account.budget, seconds, purse)
        output = await tool.call_within(seconds, call.arguments, context)
        if output is None:
            raise ToolError(f"no result within {seconds:.3g} seconds{why}")
        return output

    def _time_for(self, tool: Tool) -> tuple[float, str]:
        """Return how long a call may take [s], and what to say of that if it does not do."""
        seconds = self._timeout if tool.timeout is None else tool.timeout
        left = self._account.seconds_left(landing=False)
        return (seconds, "") if left is None or left >= seconds else (left, ", when the time of the run was up")


def words(error: BaseException) -> str:
    """Return an error as a model may read it."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - the words of foreign errors are foreign code
        return type(error).__name__
