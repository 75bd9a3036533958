"""The live view of a run: its calls, the gauge of its budget, and the summary at the end."""

import math
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.live_render import LiveRender
from rich.padding import Padding
from rich.segment import ControlType, Segment
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from run_specialist import budget as units
from run_specialist.budget import Kind, Phase, Rung
from run_specialist.cli.console import printable
from run_specialist.errors import with_flags
from run_specialist.loop.exchange import PartialReply
from run_specialist.providers.base import Delta
from run_specialist.record.events import (
    BudgetSpent,
    Called,
    ChildTold,
    Event,
    FileChanged,
    Finished,
    Forked,
    Landed,
    Replied,
    Requested,
    Resumed,
    Retrying,
    Started,
    Summarized,
    Waiting,
    Warned,
)
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child, Outcome
from run_specialist.tools.delegate import NAME as DELEGATE
from run_specialist.tools.planning import TODO, current

ANSWER_LINES = 6
ANSWER_CHARACTERS = 2_000
PARSED_CHARACTERS = 100_000
"""Longer answers are not shown while they stream, because each refresh parses the answer again."""


@dataclass(frozen=True)
class _Wait:
    """A wait before a request or a retry."""

    event: Retrying | Waiting
    until: float | None
    """Its end by the monotonic clock [s]; None if it is unknown."""
    name: str
    """Prefix with the name of the child run that waits; empty for the run itself."""

    @property
    def text(self) -> str:
        """The remaining time first, so that even a narrow terminal shows it."""
        left = 0 if self.until is None else math.ceil(self.until - time.monotonic())
        if isinstance(self.event, Retrying):
            what = f"retry {self.event.attempt} {f'in {left} s' if left > 0 else 'now'}"
        else:
            what = f"waiting {left} s" if left > 0 else "waiting"
        return f"{self.name}{what} · {one_line(self.event.reason)}"


class LiveView:
    """Shows a run on standard error; listens to its events and watches its streamed replies."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._spinner = Spinner("dots")
        self._title = ""
        self._doing = "starting"
        self._wait: _Wait | None = None
        self._total = RunningTotal()
        self._turn = 0
        self._begun = time.monotonic()
        self._budget: BudgetSpent | None = None
        self._call_lines = CallLines(LineOutput(self._print, lambda: self._console.width))
        self._reply = PartialReply()
        self._live = live_lines(self._render, self._console)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show an event of the run."""
        self._total.add(event)
        self._wait = None
        match event:
            case Started():
                self._title = one_line(f"{event.specialist} · {event.model}")
                kind, limit = next(((k, v) for k, v in event.limits.items() if v is not None), ("tool_calls", None))
                self._budget = BudgetSpent(kind, limit, 0, limit, Phase.SILENT)
                self._print(Text(self._title, "bold"))
            case Resumed() | Forked():
                self._show_resumed(event)
            case Requested():
                self._turn, self._doing, self._reply = event.turn, "thinking", PartialReply()
            case Retrying():
                self._doing, self._reply = "thinking", PartialReply()
                self._wait_for(event)
            case Waiting() if event.phase == "started":
                self._wait_for(event)
            case Called() if event.phase == "started":
                self._doing = call_text(event)
            case ChildTold():
                self._show_child(event)
            case BudgetSpent():
                self._budget = event
            case Finished():
                self._print("")
            case _:
                pass
        self._call_lines.add(event)

    def grow(self, delta: Delta) -> None:
        """Show a delta of a streamed reply."""
        self._wait = None
        self._reply.add(delta)
        if self._reply.is_answering:
            self._doing = "answering"

    def stopping(self) -> None:
        """Show that the run ends after the current turn."""
        line = Text("stopping after this turn; a second signal stops immediately", "yellow")
        self._print(Padding(line, (0, 0, 0, 2), expand=False))

    def prepare(self, what: str) -> None:
        """Show what happens before the run begins; may be called from any thread."""
        self._doing = one_line(what)

    def _show_child(self, child: ChildTold) -> None:
        """Show the activity of a child run; the budget bar shows the parent only."""
        match child.told:
            case ChildTold():
                self._show_child(child.told)
            case Requested():
                self._doing = f"{printable(child.specialist)}: thinking"
            case Called() if child.told.phase == "started":
                self._doing = f"{printable(child.specialist)}: {call_text(child.told)}"
            case Retrying():
                self._wait_for(child.told, f"{printable(child.specialist)}: ")
            case Waiting() if child.told.phase == "started":
                self._wait_for(child.told, f"{printable(child.specialist)}: ")
            case _:
                pass

    def _wait_for(self, event: Retrying | Waiting, name: str = "") -> None:
        self._wait = _Wait(event, None if event.seconds is None else time.monotonic() + event.seconds, name)

    def _show_resumed(self, event: Resumed | Forked) -> None:
        self._call_lines.calls = int(event.used.get(Kind.TOOL_CALLS, 0))
        if self._budget is not None and self._budget.limit is not None:
            used = event.used.get(self._budget.kind, 0)
            remaining = max(self._budget.limit - used, 0)
            self._budget = replace(self._budget, used=used, remaining=remaining)
        calls = units.amount(Kind.TOOL_CALLS, self._call_lines.calls)
        after = f"resumed after {calls}"
        if isinstance(event, Forked):
            after = f"forked after {units.amount(Kind.TURNS, event.at)} and {calls}"
        self._print(Text(f"  {after}", "cyan"))

    def _print(self, line: RenderableType) -> None:
        self._console.print(line)

    def _render(self) -> RenderableType:
        row = Table.grid(padding=(0, 1))
        # Without wrapping, the height stays constant; otherwise old lines would remain on the screen.
        row.add_column(no_wrap=True, overflow="ellipsis")
        wait = self._wait
        doing = Text(wait.text, "yellow") if wait else Text(self._doing)
        doing.no_wrap, doing.overflow = True, "ellipsis"
        self._spinner.update(text=doing)
        row.add_row(self._spinner)
        parts: list[RenderableType] = [row, self._gauge()]
        size = len(self._reply)
        answer = self._reply.text if size <= PARSED_CHARACTERS else f"… {size:,} characters"
        if answer:
            # Wrapped at words, so that the newest ones are always on the screen.
            lines = Text(printable(answer[-ANSWER_CHARACTERS:])).wrap(self._console, self._console.width)
            newest = "\n".join(line.plain.rstrip() for line in lines[-ANSWER_LINES:])
            parts.append(Text(newest, "italic", no_wrap=True, overflow="ellipsis"))
        return Group(*parts)

    def _gauge(self) -> Text:
        seconds = time.monotonic() - self._begun
        if self._budget is None:
            return Text(f"{seconds:.0f} s", "dim")
        return gauge(self._budget, self._call_lines.calls, self._turn, self._total, seconds, self._console.width)


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
    if call.name == TODO:
        text = current(call.arguments)
    else:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        # Constrained decoding makes a model write null for each argument that it does not need.
        given = [(key, value) for key, value in arguments.items() if value is not None]
        text = " ".join(str(value) if not number else f"{key}={value}" for number, (key, value) in enumerate(given))
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


def with_short_path(text: str, path: str, most: int) -> str:
    """Return a text with `…` in place of the leading folders of a path in it, as many as are too long to fit.

    path: as it is in the text; a text without it stays unchanged.
    most: length that the text should not exceed [characters]; the name of the file is always kept.
    """
    short, rest = text, path
    while len(short) > most and "/" in rest:
        rest = rest.partition("/")[2]
        short = text.replace(path, f"…/{rest}", 1)
    return short if len(short) < len(text) else text


FLAGS = {kind: f"--{kind.key.replace('_', '-')}" for kind in Kind}
"""The option for each kind of limit."""
FALLBACK_LIMITS = {
    Kind.TOOL_CALLS: 10,
    Kind.TURNS: 10,
    Kind.TOKENS: 100_000,
    Kind.COST: 1,
    Kind.TIME: 60,
    Kind.CHARACTERS: 100_000,
}
"""Suggested new limits where the old limit was 0, which cannot be doubled."""


def summary(outcome: Outcome) -> str:
    """Return status, calls used and their limit, tokens by kind, cost, cost of the landing, time, on one line."""
    calls = outcome.tool_calls
    parts = [
        outcome.status,
        _calls(outcome),
        *([f"{calls.failed} failed"] if calls.failed else []),
        *([f"{calls.skipped} skipped"] if calls.skipped else []),
    ]
    if outcome.usage.total_tokens:
        parts += [
            _tokens(outcome.usage),
            "price unknown" if outcome.cost_usd is None else units.dollars(outcome.cost_usd),
        ]
    landing = outcome.landing
    if landing and landing.usage.total_tokens:
        cost = "" if landing.cost_usd is None else f", {units.dollars(landing.cost_usd)}"
        parts.append(f"landing alone {landing.usage.total_tokens:,} tokens{cost}")
    parts.append(f"{outcome.duration_s:.1f} s")
    looked_up = [one.verified for one in outcome.evidence if one.verified is not None]
    if looked_up and outcome.status in ("answered", "landed"):
        parts.append(f"{sum(looked_up)} of {len(looked_up)} quotes found")
    if outcome.children:
        parts.append(_children(outcome.children))
    return " · ".join(parts)


def brief(outcome: Outcome) -> str:
    """Return a shorter summary for a child run: calls, tokens, cost, time."""
    parts = [_calls(outcome)]
    if outcome.usage.total_tokens:
        parts.append(f"{outcome.usage.total_tokens:,} tokens")
        parts += [] if outcome.cost_usd is None else [units.dollars(outcome.cost_usd)]
    return " · ".join([*parts, f"{outcome.duration_s:.1f} s"])


def resume_command(outcome: Outcome, store: str | None) -> str:
    """Return the command that resumes a run with a doubled limit, or with double the usage if that is more.

    store: the value of `--store`; None if it was not given.
    """
    command = ["specialists", "resume", outcome.run_id]
    kind = Kind(outcome.landing.reason) if outcome.landing else None
    spent = outcome.limits[kind] if kind else None
    if kind and spent and spent.limit is not None:
        doubled = 2 * spent.limit
        if (used := spent.used or 0) > spent.limit:
            # The landing has exceeded the limit: twice the usage, rounded up to two digits.
            unit = 10.0 ** (math.floor(math.log10(used * 2)) - 1)
            doubled = math.ceil(used * 2 / unit) * unit
        command += [FLAGS[kind], f"{doubled or FALLBACK_LIMITS[kind]:.15g}"]
    return shlex.join([*command, *(["--store", store] if store else [])])


def undo_command(outcome: Outcome, store: str | None) -> str:
    """Return the command that undoes the changes of a run.

    store: as for `resume_command`.
    """
    return shlex.join(["specialists", "undo", outcome.run_id, *(["--store", store] if store else [])])


def changed_files(outcome: Outcome, undo: str | None) -> str:
    """Return what a run has done to files, and how to undo it, on one line; empty if it changed none.

    undo: the command that undoes it; None if the run is not stored.
    """
    counts = [(kind, sum(one.change == kind for one in outcome.changes)) for kind in ("created", "changed", "removed")]
    parts = [f"{count} {kind}" for kind, count in counts if count]
    if not parts:
        return ""
    number, kind = parts[0].split()
    parts[0] = f"{number} file{'' if number == '1' else 's'} {kind}"
    lasting = sum(not one.undoable for one in outcome.changes)
    if undo is None or lasting == len(outcome.changes):
        return f"{', '.join(parts)}; this cannot be undone"
    kept = f", but {lasting} of them cannot be undone" if lasting else ""
    return f"{', '.join(parts)}; to undo: {undo}{kept}"


def limit_hint(outcome: Outcome, resume: str | None) -> str | None:
    """Return which limit ended the run and how to continue; None if no limit was reached.

    resume: the command that resumes the run; None if the run is not stored.
    """
    landing = outcome.landing
    if landing is None:
        return None
    kind = Kind(landing.reason)
    limit = outcome.limits[kind].limit
    if limit is None:
        return "the model's context window was full; ask for less, or lower summarize_at to summarize earlier"
    advice = f"to resume: {resume}" if resume else f"raise it with {FLAGS[kind]} for a longer run"
    return f"the limit of {units.amount(kind, limit)} was reached; {advice}"


def _calls(outcome: Outcome) -> str:
    calls = outcome.tool_calls
    if calls.limit is None:
        return units.amount(Kind.TOOL_CALLS, calls.used)
    return f"{calls.used} of {units.of(Kind.TOOL_CALLS, calls.limit)}"


def _children(children: Sequence[Child]) -> str:
    """Return the total usage of the child runs; each child's usage includes its own children."""
    parts = [units.amount(Kind.TOOL_CALLS, sum(one.tool_calls for one in children))]
    if tokens := sum(one.usage.total_tokens for one in children):
        parts.append(f"{tokens:,} tokens")
        costs = [one.cost_usd for one in children if one.cost_usd is not None]
        parts += [units.dollars(sum(costs))] if len(costs) == len(children) else []
    count = f"{len(children)} specialist{'' if len(children) == 1 else 's'} asked"
    return f"{count}: {', '.join(parts)}, included"


def _tokens(usage: Usage) -> str:
    kinds = {
        "in": usage.input_tokens,
        "cache read": usage.cache_read_input_tokens,
        "cache write": usage.cache_creation_input_tokens,
        "out": usage.output_tokens,
    }
    by_kind = ", ".join(f"{tokens:,} {name}" for name, tokens in kinds.items() if tokens)
    return f"{usage.total_tokens:,} tokens ({by_kind})"


@dataclass
class RunningTotal:
    """The sum over all answered requests of a run and its children."""

    tokens: int = 0
    cost_usd: float | None = 0.0
    """None if the price of any request is unknown."""

    def add(self, event: Event) -> None:
        """Add the requests that an event reports."""
        match event:
            case Replied() | Summarized():
                self._add(event.usage.total_tokens, event.cost_usd)
            case Resumed():
                self._add(event.tokens, event.cost_usd)
            case ChildTold():
                self.add(event.told)
            case _:
                pass

    def _add(self, tokens: int, cost_usd: float | None) -> None:
        self.tokens += tokens
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd


WIDEST_BAR = 24
NARROWEST_BAR = 8
"""Minimum width of the bar, below which the text is shortened first [columns]."""
_THOUSAND = 1_000
_MILLION = 1_000_000


def gauge(budget: BudgetSpent, calls: int, turn: int, total: RunningTotal, seconds: float, width: int) -> Text:
    """Return the line, in at most `width` columns.

    budget: state of the limit closest to exhaustion; its `limit` is None if there is none.
    calls: number of tool calls, shown if there is no limit.
    """
    if budget.limit is None:
        usages = f"{units.amount(Kind.TOOL_CALLS, calls)}, no limit", units.amount(Kind.TOOL_CALLS, calls)
    else:
        kind = Kind(budget.kind)
        used = units.number(kind, budget.used)
        usages = f" {used} of {units.of(kind, budget.limit)}", f" {used}/{units.number(kind, budget.limit)}"
    rests = [*_rests(turn, total, seconds)]
    bar = NARROWEST_BAR if budget.limit is not None else 0
    forms = [(usages[0], rests[0], bar), (usages[0], rests[1], bar), (usages[1], rests[2], 0), (usages[1], rests[3], 0)]
    fitting = (form for form in forms if sum(map(len, form[:2])) + form[2] <= width)
    usage, rest, _ = next(fitting, forms[-1])
    size = min(max(width - len(usage) - len(rest), 0), WIDEST_BAR) if bar else 0
    color = COLORS[Phase(budget.phase)] if bar else "dim"
    filled = size if not budget.limit else round(size * min(budget.used / budget.limit, 1))
    text = Text("━" * filled, color, no_wrap=True, overflow="ellipsis").append("━" * (size - filled), "bright_black")
    text.append(usage, color).append(rest, "dim")
    text.truncate(width, overflow="ellipsis")
    return text


def _rests(turn: int, total: RunningTotal, seconds: float) -> Iterator[str]:
    """Yield the remainder of the line, from the longest form to the shortest."""
    # An unknown price is named at the end of the run, not all the time; offline nothing is billed.
    cost = [units.dollars(total.cost_usd)] if total.cost_usd else []
    elapsed, tokens = f"{seconds:.0f} s", f"{_short(total.tokens)} tokens"
    yield _joined(f"turn {turn}", f"{total.tokens:,} tokens", *cost, elapsed)
    yield _joined(f"{total.tokens:,} tokens", *cost, elapsed)
    yield _joined(tokens, *cost, elapsed)
    yield _joined(*(cost or [tokens]), elapsed)


def _joined(*parts: str) -> str:
    return f"  {' · '.join(parts)}"


def _short(tokens: int) -> str:
    """Return a number of tokens in few characters, such as `12.3k`."""
    for unit, letter in ((_MILLION, "M"), (_THOUSAND, "k")):
        if tokens >= unit:
            return f"{tokens / unit:.3g}{letter}" if tokens < _THOUSAND * unit else f"{tokens // unit:,}{letter}"
    return str(tokens)


# Erased from the second column on: some terminals take an erasure from the very first one for a new screen, and put
# what was there into their history.
_ERASE = "\x1b[2K\x1b[C\x1b[J\x1b[D"
"""Erases the line with the cursor and all below it."""
_WITHOUT_WRAPPING, _WITH_WRAPPING = "\x1b[?7l", "\x1b[?7h"


def live_lines(render: Callable[[], RenderableType], console: Console) -> Live:
    """Return a live display at the bottom of the terminal, which disappears at the end.

    render: returns the lines; each must fit the width of the terminal.
    """
    # Refreshed by a timer, so that the elapsed time advances during long waits.
    live = Live(get_renderable=render, console=console, transient=True, refresh_per_second=8)
    live._live_render = _Lines("")  # noqa: SLF001 - Rich has no other way to change where the cursor stays
    return live


class _Lines(LiveRender):
    """Leaves the cursor at the beginning of its lines, instead of counting rows to find it again.

    A terminal that becomes narrower wraps its content, often before this program learns of it, but keeps the cursor at
    its character. For the same reason the lines are drawn without wrapping, so that each fills exactly one row.
    """

    def position_cursor(self) -> Control:
        """Return the codes that erase the lines."""
        return _control(f"\r{_ERASE}") if self.last_render_height else Control()

    def restore_cursor(self) -> Control:
        """Return the codes that erase the lines, starting from the row below their beginning, where Rich stops."""
        return _control(f"\r\x1b[A{_ERASE}")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines, and the codes that move back to their beginning."""
        yield _control(_WITHOUT_WRAPPING).segment
        yield from super().__rich_console__(console, options)
        above = self.last_render_height - 1
        yield _control("\r" + (f"\x1b[{above}A" if above > 0 else "") + _WITH_WRAPPING).segment


def _control(codes: str) -> Control:
    control = Control()
    # Printed unchanged, with no width; the kind does not matter to terminals that understand codes.
    control.segment = Segment(codes, None, [(ControlType.CARRIAGE_RETURN,)])
    return control
