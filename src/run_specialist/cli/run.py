"""The command `run-specialist NAME QUERY`."""

import asyncio
import signal
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.console import (
    complete_names,
    fail,
    guarded,
    interruptible,
    print_json,
    print_line,
    say,
)
from run_specialist.cli.flags import (
    CostLimit,
    LandingStyle,
    PresetName,
    TimeLimit,
    ToolCallsLimit,
    ToolCharsLimit,
    TotalTokensLimit,
    TurnsLimit,
    setting,
)

if TYPE_CHECKING:
    from run_specialist.cli.live import LiveView
    from run_specialist.doors.api import Runner
    from run_specialist.events import Event
    from run_specialist.outcome import Outcome
    from run_specialist.runner import Run

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A specialist's name, or the path of its file.", autocompletion=complete_names
        ),
    ],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question; `-` reads it from standard input.")],
    dir_: Annotated[
        Path | None, typer.Option("--dir", help="Look for specialist files here before the usual places.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="What the file tools may see.  [default: the project root]")] = None,
    model: Annotated[
        str | None, typer.Option(help="sonnet, opus, haiku, fable, a full id, `openai:ID` or `offline`.")
    ] = None,
    tool_calls_limit: ToolCallsLimit = None,
    turns_limit: TurnsLimit = None,
    total_tokens_limit: TotalTokensLimit = None,
    cost_limit: CostLimit = None,
    time_limit: TimeLimit = None,
    tool_chars_limit: ToolCharsLimit = None,
    landing: LandingStyle = None,
    preset: PresetName = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print each event as one line of JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the answer, and errors.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a file that has warnings.")] = False,
) -> None:
    """Put a question to a specialist and print its answer.

    A specialist is a Markdown file with YAML front matter. It works with a limited number of tool calls and always
    answers: silent for the first half, a countdown in the second, and at the limit it must answer from what it has
    gathered. Without an API key the answer comes offline, by ranked search, without a language model.

    Exit codes: 0 an answer, 2 a wrong flag or file, 3 the model could not be reached, 4 no answer, 130 interrupted.
    """
    if json_ and events:
        fail("--json and --events exclude each other; --events ends with the outcome anyway")
    given = {
        "tool_calls_limit": tool_calls_limit,
        "turns_limit": turns_limit,
        "total_tokens_limit": total_tokens_limit,
        "cost_limit": cost_limit,
        "time_limit": time_limit,
        "tool_chars_limit": tool_chars_limit,
        "landing": landing,
        "preset": preset,
    }
    settings = {key: setting(text) for key, text in given.items() if text is not None}
    output = Output(json=json_, events=events, quiet=quiet)
    with guarded():
        from run_specialist.doors.api import Runner  # noqa: PLC0415 - `--help` must not pay for it

        question = _read_question() if query == "-" else query
        runner = Runner(root=root, dir=dir_, model=model, strict=strict)
        outcome = _ask(runner, name, question, settings, output)
        _show(outcome, output)
    raise typer.Exit(outcome.exit_code)


@dataclass(frozen=True)
class Output:
    """What is printed, and where."""

    json: bool
    events: bool
    quiet: bool


def _ask(runner: "Runner", name: str, question: str, settings: dict[str, Any], output: Output) -> "Outcome":
    """Run the specialist while somebody watches; raises BrokenPipeError when the events are no longer read."""
    view = _view(output)
    printer = _EventPrinter()

    async def once() -> "Outcome":
        async with runner:
            listener = printer if output.events else view
            watch = view.grow if view else None
            printer.run = runner.prepare(name, question, listener=listener, watch=watch, **settings)
            return await _interruptible(printer.run)

    with view or nullcontext():
        outcome = asyncio.run(once())
    if printer.unread:
        raise printer.unread
    return outcome


class _EventPrinter:
    """Prints each event as a line; when nobody reads any more, the run is stopped."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.unread: BrokenPipeError | None = None

    def __call__(self, event: "Event") -> None:
        if self.unread:
            return
        try:
            print_json(event.as_json(), indent=None)
        except BrokenPipeError as error:
            self.unread = error
            if self.run:
                self.run.abort()


def _read_question() -> str:
    if sys.stdin is None:
        fail("the question shall come from standard input, which is closed")
    return sys.stdin.buffer.read().decode("utf-8", "replace")


async def _interruptible(run: "Run") -> "Outcome":
    """Let Ctrl-C end the run with what was gathered; a second one ends the program."""
    loop = asyncio.get_running_loop()

    def abort() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        run.abort()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, abort)
    return await run.outcome()


def _view(output: Output) -> "LiveView | None":
    if output.json or output.events or output.quiet or sys.stderr is None or not sys.stderr.isatty():
        return None
    from run_specialist.cli.live import LiveView  # noqa: PLC0415 - only a terminal needs it

    return LiveView()


def _show(outcome: "Outcome", output: Output) -> None:
    if output.json:
        print_json(outcome.as_json())
    elif not output.events and outcome.answer:
        print_line(outcome.answer)
    if not output.quiet:
        _tell_warnings(outcome)
    if outcome.error:
        say(f"{outcome.status}: {outcome.error}")
    if not output.quiet:
        _tell_end(outcome, for_people=not (output.json or output.events))


def _tell_warnings(outcome: "Outcome") -> None:
    for warning in outcome.warnings:
        if warning != outcome.error:
            say(f"warning: {warning}")
    if outcome.model == "offline":
        say(
            "answered offline, without a language model: ranked search and verbatim quotes; "
            "set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL to have a model answer"
        )


def _tell_end(outcome: "Outcome", *, for_people: bool) -> None:
    from run_specialist.cli.summary import how_to_go_on, summary  # noqa: PLC0415 - fast `--help`

    good = outcome.status in ("answered", "landed")
    if good and (told := how_to_go_on(outcome)):
        say(told)
    # What went wrong stands alone where a program reads it: one line, and it says what to do.
    if for_people and (good or (sys.stderr is not None and sys.stderr.isatty())):
        say(summary(outcome), dim=True)


def main() -> None:
    """Run the command."""
    with interruptible():
        app()
