"""The lines that the live view prints: tool calls, and below each `delegate` call the calls of the child run."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text

from run_specialist.api.flag_names import with_flags
from run_specialist.budget import units
from run_specialist.budget.budget import Kind, Phase
from run_specialist.budget.ladder import Rung
from run_specialist.cli.console import printable
from run_specialist.cli.short_path import with_short_path
from run_specialist.cli.summary import brief
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    ChildTold,
    Event,
    FileChanged,
    Finished,
    Landed,
    Started,
    Summarized,
    Warned,
)
from run_specialist.record.outcome import Outcome
from run_specialist.tools.delegate_tool import NAME as DELEGATE
from run_specialist.tools.planning.todo import NAME as TODO
from run_specialist.tools.planning.todo import current

COLORS = {Phase.SILENT: "green", Phase.COUNTDOWN: "yellow", Phase.SPENT: "red"}
STATUSES = {"answered": "green", "landed": "green", "partial": "yellow"}
"""Colors of statuses; all others are red."""
LANDINGS = {
    Rung.FORCE: "it must call respond now",
    Rung.ORDER: "it is instructed to respond now",
    Rung.WAIT: "further calls are skipped",
    Rung.FINALIZE: "it is instructed to finish now",
    Rung.SCHEMA: "its reply is limited to the answer as JSON now",
    Rung.NONE: "it must answer in text now",
    Rung.SALVAGE: "the answer is assembled from the gathered material",
}
"""Descriptions of the rungs of the landing."""
_MOST_CHANGES = 10
"""Maximum number of changed files shown below a call."""
_ROOM_FOR_REMAINING = len("  12 remaining")


@dataclass(frozen=True)
class LineOutput:
    """The output for printed lines."""

    print: Callable[[Text], None]
    width: Callable[[], int]
    """Width of the terminal [columns]."""


class CallLines:
    """Prints the events of one run as lines; lines of child runs are indented and start with the child's name."""

    def __init__(self, output: LineOutput, label: str = "", name: str = "", depth: int = 0) -> None:
        """Create the lines of one run.

        label: number of the `delegate` call that started the run, e.g. `2`; its first call is `2.1`. Empty at the top.
        name: the specialist; empty at the top.
        depth: number of ancestor runs.
        """
        self._output = output
        self._label = label
        self._name = name
        self._depth = depth
        self.calls = 0
        """Number of calls printed."""
        self._line = Text()
        self._changes: dict[str, list[FileChanged]] = {}
        """Changes of files by the calls that are running."""
        self._ended_call = ""
        self._running_delegates: list[Called] = []
        self._children: dict[str, CallLines] = {}
        self._children_by_call: dict[str, CallLines] = {}
        self._outcome: Outcome | None = None

    def add(self, event: Event) -> None:
        """Print the lines of an event, if it has any."""
        match event:
            case Called():
                self._call(event)
            case ChildTold():
                self._child(event).add(event.told)
            case BudgetSpent():
                # A call is printed once the remaining budget is known, which follows in this event.
                self._print_call(_remaining(event))
                changes = self._changes.pop(self._ended_call, [])
                for change in changes[:_MOST_CHANGES]:
                    self._print_change(change)
                if len(changes) > _MOST_CHANGES:
                    indent, _ = _indent_and_number(self._depth, self._label)
                    more = f"{indent}    and {len(changes) - _MOST_CHANGES:,} more files"
                    self._output.print(self._truncated(Text(more, "magenta")))
            case FileChanged():
                # Printed below the line of its call, which follows.
                if event.call_id in self._changes:
                    self._changes[event.call_id].append(event)
                else:
                    self._print_change(event)
            case Landed() | Warned() | Summarized():
                self._output.print(self._notice(event))
            case Finished():
                self._outcome = event.outcome
            case _:
                pass

    def _call(self, event: Called) -> None:
        if event.phase == "started":
            self._running_delegates += [event] if event.name == DELEGATE else []
            self._changes[event.id] = []
            return
        self._ended_call = event.id
        self._running_delegates = [one for one in self._running_delegates if one.id != event.id]
        if child := self._children_by_call.pop(event.id, None):
            self._line = child.outcome_line()
        elif event.phase == "skipped":
            self._line = self._call_line(" -", event, "dim")
            self._print_call(Text("  not run", "dim"))
        else:
            self.calls += 1
            self._line = self._call_line(str(self.calls), event)
            if event.phase == "failed":
                reason = Text(f"  {one_line(event.text)}", "red")
                # Truncate a long call, so that the failure stays visible.
                self._line = self._truncated(self._line, min(len(reason), self._output.width() // 2)).append(reason)

    def _child(self, event: ChildTold) -> "CallLines":
        """Return the lines of a child run; its first event prints the `delegate` call that started it."""
        if event.run_id not in self._children:
            self.calls += 1
            label = f"{self._label}.{self.calls}" if self._label else str(self.calls)
            child = self._children[event.run_id] = CallLines(self._output, label, event.specialist, self._depth + 1)
            call = self._delegate_call(event)
            if call is not None:
                self._children_by_call[call.id] = child
            question = event.told.question if isinstance(event.told, Started) else ""
            line = self._numbered_line(str(self.calls), f"{DELEGATE} {printable(event.specialist)}")
            self._output.print(self._truncated(line.append(f"  {one_line(question)}", "italic")))
        return self._children[event.run_id]

    def _delegate_call(self, event: ChildTold) -> Called | None:
        """Return the running call that best matches a child run by specialist and question."""

        def mismatch(call: Called) -> tuple[bool, bool]:
            arguments = call.arguments or {}
            question = event.told.question if isinstance(event.told, Started) else None
            return arguments.get("specialist") != event.specialist, arguments.get("query") != question

        unmatched = [one for one in self._running_delegates if one.id not in self._children_by_call]
        return min(unmatched, key=mismatch, default=None)

    def outcome_line(self) -> Text:
        """Return the line with the outcome of this child run, printed when its `delegate` call returns."""
        indent, number = _indent_and_number(self._depth - 1, self._label)
        line = Text(indent).append(number, "dim").append(f"  {printable(self._name)} ")
        if self._outcome is not None:
            line.append(self._outcome.status, STATUSES.get(self._outcome.status, "red"))
            line.append(f" · {brief(self._outcome)}", "dim")
            if self._outcome.error:
                line.append(f"  {one_line(with_flags(self._outcome.error))}", "red")
        return line

    def _numbered_line(self, number: str, text: str, style: str = "") -> Text:
        """Return a line with its number; in a child run the specialist's name precedes the text."""
        label = f"{self._label}.{number.strip()}" if self._label else number
        indent, number = _indent_and_number(self._depth, label)
        name = f"{printable(self._name)}  " if self._name else ""
        return Text(indent, style).append(number, "dim").append("  ").append(name, "cyan").append(text)

    def _call_line(self, number: str, call: Called, style: str = "") -> Text:
        line = self._numbered_line(number, "", style)
        path = (call.arguments or {}).get("path")
        room = self._output.width() - line.cell_len - _ROOM_FOR_REMAINING
        return line.append(with_short_path(call_text(call), path if isinstance(path, str) else "", room))

    def _notice(self, event: Landed | Warned | Summarized) -> Text:
        text = _notice_text(event)
        if not self._name:
            return Text("  ").append(text)
        indent, _ = _indent_and_number(self._depth, self._label)
        line = Text(indent).append(f"{self._label}  ", "dim").append(f"{printable(self._name)}  ", "cyan")
        return self._truncated(line.append(text))

    def _print_change(self, event: FileChanged) -> None:
        indent, _ = _indent_and_number(self._depth, self._label)
        done = f"would {event.change[:-1]}" if event.dry_run else event.change
        line = Text(f"{indent}    ").append(f"{done} {one_line(event.path)}", "magenta")
        counts = Text("  ")
        if event.added is not None and event.removed is not None:
            counts.append(f"+{event.added}", "green").append(f" -{event.removed}", "red")
        if not (event.undoable or event.dry_run):
            counts.append(" cannot be undone", "yellow")
        self._output.print(self._truncated(line, len(counts)).append(counts))

    def _print_call(self, suffix: Text) -> None:
        self._output.print(self._truncated(self._line, len(suffix)).append(suffix))
        self._line = Text()

    def _truncated(self, line: Text, reserved: int = 0) -> Text:
        line.truncate(max(self._output.width() - reserved, 1), overflow="ellipsis")
        return line


def call_text(call: Called) -> str:
    """Return a call as text: the tool's name and its arguments."""
    text = current(call.arguments) if call.name == TODO else _arguments_text(call.arguments)
    return f"{printable(call.name):7} {one_line(text)}"


def one_line(text: str) -> str:
    """Return a text on one line, without control characters."""
    return " ".join(printable(text).split())


def _indent_and_number(depth: int, label: str) -> tuple[str, str]:
    """Return the indentation and the number of a line; at the top level numbers are right-aligned in a column."""
    return ("  ", f"{label:>2}") if not depth else ("  " * (depth + 2), label)


def _notice_text(event: Landed | Warned | Summarized) -> Text:
    match event:
        case Landed():
            return Text(f"limit of {event.reason.label} reached: {LANDINGS[event.how]}", "bold red")
        case Warned():
            return Text(one_line(event.text), "yellow")
        case Summarized():
            size = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
            return Text(f"summarized {event.archived} earlier results, from {size}", "cyan")


def _remaining(budget: BudgetSpent) -> Text:
    """Return the remaining budget that the countdown shows the model, in the color of the phase."""
    phase = Phase(budget.phase)
    if budget.remaining is None or phase is Phase.SILENT:
        return Text()
    kind = Kind(budget.kind)
    rest = units.number(kind, budget.remaining) if kind is Kind.TOOL_CALLS else units.amount(kind, budget.remaining)
    return Text(f"  {rest} remaining", COLORS[phase])


def _arguments_text(arguments: object) -> str:
    if not isinstance(arguments, dict):
        return ""
    # Constrained decoding makes a model write null for each argument that it does not need.
    given = [(key, value) for key, value in arguments.items() if value is not None]
    parts = [str(value) if not number else f"{key}={value}" for number, (key, value) in enumerate(given)]
    return one_line(" ".join(parts))
