"""Tools that return the recorded results of their calls."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from run_specialist.record.messages import ToolCall
from run_specialist.record.outcome import Child
from run_specialist.replay.cassette import Cassette, RecordedCall
from run_specialist.tools.base import Output, Tool
from run_specialist.tools.context import ChildContext, Context
from run_specialist.tools.server_tools import server_tool

_READ_ON = re.compile(r"\[cut at \d+ of \d+ characters; read on by .*\]")
"""Pattern of the note on a cut result, which the loop adds again."""


class RecordedTools:
    """The recorded calls of a run; each can be used once."""

    def __init__(self, cassette: Cassette, missing: Callable[[ToolCall], None]) -> None:
        """Set the recorded run.

        missing: called with each call that the recorded run did not execute.
        """
        self._calls: dict[str, deque[RecordedCall]] = {}
        for one in cassette.calls:
            self._calls.setdefault(ToolCall(one.id, one.name, one.arguments).key, deque()).append(one)
        self._children = [*cassette.children]
        self._missing = missing

    def replaced(self, tool: Tool) -> Tool:
        """Return a tool with the same definition that returns recorded results."""

        async def recorded(context_of_the_call: Context, **arguments: Any) -> Output:  # noqa: ANN401 - any arguments
            return self._output(ToolCall(context_of_the_call.call_id, tool.name, arguments), context_of_the_call)

        # Nothing is executed, so no timeout applies.
        return replace(tool, function=recorded, schema=tool.input_schema, timeout=float("inf"))

    def _output(self, call: ToolCall, context: Context) -> Output:
        found = self._take(call)
        if found is None:
            self._missing(call)
            return Output("", is_error=True)
        if isinstance(context, ChildContext):
            context.lender.settle(self._child(found))
        note = "" if _READ_ON.fullmatch(found.note) else found.note
        return Output(found.output, note, found.is_error)

    def _take(self, call: ToolCall) -> RecordedCall | None:
        """Return the next recorded call with this name and these arguments, preferably the one with the same id."""
        calls = self._calls.get(call.key)
        if not calls:
            return None
        chosen = next((one for one in calls if one.id == call.id), calls[0])
        calls.remove(chosen)
        return chosen

    def _child(self, call: RecordedCall) -> Child | None:
        """Return the child run of a call, whose result begins with the child's name, status and number of calls."""
        for child in self._children:
            if call.output.startswith(f"[{child.specialist}: {child.status} after {child.tool_calls} "):
                self._children.remove(child)
                return child
        return None


def stand_ins(definitions: Iterable[Mapping[str, Any]], calls: Sequence[RecordedCall]) -> tuple[Tool, ...]:
    """Return tools with recorded definitions, to be replaced by `RecordedTools`.

    calls: calls of the run, which show whether identical ones were executed again.
    """
    repeatable = {call.name for call in calls if call.repeated}
    return tuple(
        Tool(one["name"], one["description"], _nothing, one["name"] in repeatable, one["input_schema"])
        if "input_schema" in one
        else server_tool(one)
        for one in definitions
    )


def _nothing(**arguments: Any) -> str:  # noqa: ANN401 - any arguments
    return str(len(arguments))
