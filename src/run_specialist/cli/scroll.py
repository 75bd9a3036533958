"""The lines of the live view: the calls of a run, and below a call of `delegate` those of the specialist it asked."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text

from run_specialist.budget import units
from run_specialist.budget.budget import Kind, Phase
from run_specialist.budget.ladder import Rung
from run_specialist.cli.console import printable
from run_specialist.cli.summary import brief
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    ChildTold,
    Event,
    Finished,
    Landed,
    Started,
    Summarized,
    Warned,
)
from run_specialist.record.outcome import Outcome
from run_specialist.tools.delegate_tool import NAME as DELEGATE

COLOURS = {Phase.SILENT: "green", Phase.COUNTDOWN: "yellow", Phase.SPENT: "red"}
STATUSES = {"answered": "green", "landed": "green", "partial": "yellow"}
"""All others are red."""
LANDINGS = {
    Rung.FORCE: "it must call respond now",
    Rung.ORDER: "it is told to respond now",
    Rung.WAIT: "further calls are skipped",
    Rung.FINALIZE: "it is told to finish now",
    Rung.NONE: "it must answer in text now",
    Rung.SALVAGE: "an answer is made from what was gathered",
}


@dataclass(frozen=True)
class LineOutput:
    """What lines are printed on."""

    print: Callable[[Text], None]
    width: Callable[[], int]
    """In columns."""


class Scroll:
    """Prints what happens in one run, line by line; the runs below it are indented, each with its name in front."""

    def __init__(self, paper: LineOutput, label: str = "", name: str = "", depth: int = 0) -> None:
        """Begin an empty one.

        label: of the call that asked, e.g. `2`; the first call below it is `2.1`. Empty for the run itself.
        name: of the specialist, where it is not the run itself.
        depth: how many runs are above it.
        """
        self._paper = paper
        self._label = label
        self._name = name
        self._depth = depth
        self.calls = 0
        """Those that were shown."""
        self._line = Text()
        self._waiting: list[Called] = []
        self._below: dict[str, Scroll] = {}
        self._asking: dict[str, Scroll] = {}
        self._outcome: Outcome | None = None

    def take(self, event: Event) -> None:
        """Print what there is to print of an event."""
        match event:
            case Called():
                self._called(event)
            case ChildTold():
                self._child(event).take(event.told)
            case BudgetSpent():
                # A call is printed with what then remains, which this event tells.
                self._print_call(_remaining(event))
            case Landed() | Warned() | Summarized():
                self._paper.print(self._remark(event))
            case Finished():
                self._outcome = event.outcome
            case _:
                pass

    def _called(self, event: Called) -> None:
        if event.phase == "started":
            self._waiting += [event] if event.name == DELEGATE else []
            return
        self._waiting = [one for one in self._waiting if one.id != event.id]
        if below := self._asking.pop(event.id, None):
            self._line = below.closing()
        elif event.phase == "skipped":
            self._line = self._begun(" -", words(event), "dim")
            self._print_call(Text("  not run", "dim"))
        else:
            self.calls += 1
            self._line = self._begun(str(self.calls), words(event))
            if event.phase == "failed":
                why = Text(f"  {one_line(event.text)}", "red")
                # However long the call is, that it failed is seen.
                self._line = self._cut(self._line, min(len(why), self._paper.width() // 2)).append(why)

    def _child(self, event: ChildTold) -> "Scroll":
        """Return what is printed of a run below; its first event prints the call that asked for it."""
        if event.run_id not in self._below:
            self.calls += 1
            label = f"{self._label}.{self.calls}" if self._label else str(self.calls)
            below = self._below[event.run_id] = Scroll(self._paper, label, event.specialist, self._depth + 1)
            asked = self._asked(event)
            if asked is not None:
                self._asking[asked.id] = below
            question = event.told.question if isinstance(event.told, Started) else ""
            line = self._begun(str(self.calls), f"{DELEGATE} {printable(event.specialist)}")
            self._paper.print(self._cut(line.append(f"  {one_line(question)}", "italic")))
        return self._below[event.run_id]

    def _asked(self, event: ChildTold) -> Called | None:
        """Return the call that a run below works for: the first one that fits it best."""

        def fits(call: Called) -> tuple[bool, bool]:
            given = call.arguments or {}
            question = event.told.question if isinstance(event.told, Started) else None
            return given.get("specialist") != event.specialist, given.get("query") != question

        waiting = [one for one in self._waiting if one.id not in self._asking]
        return min(waiting, key=fits, default=None)

    def closing(self) -> Text:
        """Return the line that tells what came of this run, to stand where its call stands."""
        indent, number = _front(self._depth - 1, self._label)
        line = Text(indent).append(number, "dim").append(f"  {printable(self._name)} ")
        if self._outcome is not None:
            line.append(self._outcome.status, STATUSES.get(self._outcome.status, "red"))
            line.append(f" · {brief(self._outcome)}", "dim")
            if self._outcome.error:
                line.append(f"  {one_line(self._outcome.error)}", "red")
        return line

    def _begun(self, number: str, said: str, style: str = "") -> Text:
        """Return a line with its number, and the name in front where several runs are told of."""
        label = f"{self._label}.{number.strip()}" if self._label else number
        indent, number = _front(self._depth, label)
        name = f"{printable(self._name)}  " if self._name else ""
        return Text(indent, style).append(number, "dim").append("  ").append(name, "cyan").append(said)

    def _remark(self, event: Landed | Warned | Summarized) -> Text:
        said = _remark(event)
        if not self._name:
            return Text("  ").append(said)
        indent, _ = _front(self._depth, self._label)
        line = Text(indent).append(f"{self._label}  ", "dim").append(f"{printable(self._name)}  ", "cyan")
        return self._cut(line.append(said))

    def _print_call(self, told: Text) -> None:
        self._paper.print(self._cut(self._line, len(told)).append(told))
        self._line = Text()

    def _cut(self, line: Text, taken: int = 0) -> Text:
        line.truncate(max(self._paper.width() - taken, 1), overflow="ellipsis")
        return line


def words(call: Called) -> str:
    """Return a call in words: the tool and what it was given."""
    return f"{printable(call.name):7} {_short(call.arguments)}"


def one_line(text: str) -> str:
    """Return a text without line breaks, and without what could move the cursor."""
    return " ".join(printable(text).split())


def _front(depth: int, label: str) -> tuple[str, str]:
    """Return the blanks before a line, and its number: of the run itself in a column, of those below behind it."""
    return ("  ", f"{label:>2}") if not depth else ("  " * (depth + 2), label)


def _remark(event: Landed | Warned | Summarized) -> Text:
    match event:
        case Landed():
            return Text(f"limit of {event.reason.words} reached: {LANDINGS[event.how]}", "bold red")
        case Warned():
            return Text(one_line(event.text), "yellow")
        case Summarized():
            size = f"{event.tokens_before:,} to {event.tokens_after:,} tokens"
            return Text(f"summarised {event.archived} earlier results, from {size}", "cyan")


def _remaining(budget: BudgetSpent) -> Text:
    """What the model is told after a call, in the colour of the phase."""
    phase = Phase(budget.phase)
    if budget.remaining is None or phase is Phase.SILENT:
        return Text()
    kind = Kind(budget.kind)
    left = units.number(kind, budget.remaining) if kind is Kind.TOOL_CALLS else units.amount(kind, budget.remaining)
    return Text(f"  {left} remaining", COLOURS[phase])


def _short(arguments: object) -> str:
    if not isinstance(arguments, dict):
        return ""
    said = [str(value) if not number else f"{key}={value}" for number, (key, value) in enumerate(arguments.items())]
    return one_line(" ".join(said))
