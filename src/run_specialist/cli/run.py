"""The command `run-specialist NAME QUERY`."""

import asyncio
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.cli.console import complete_names, fail, guarded, limit_text, print_json, print_line, say

if TYPE_CHECKING:
    from run_specialist.cli.live import LiveView
    from run_specialist.events import Event
    from run_specialist.outcome import Outcome
    from run_specialist.runner import Run

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


class Landing(StrEnum):
    """Values of `--landing`."""

    AUTO = "auto"
    FORCE = "force"
    ORDER = "order"
    FINALIZE = "finalize"
    NONE = "none"
    STOP = "stop"


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
    model: Annotated[str | None, typer.Option(help="sonnet, opus, haiku, fable, a full id, or `offline`.")] = None,
    tool_calls_limit: Annotated[
        str | None,
        typer.Option(metavar="N|none", callback=limit_text, help="Tool calls in this run."),
    ] = None,
    landing: Annotated[Landing | None, typer.Option(help="How to land when the limit is reached.")] = None,
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
    question = sys.stdin.buffer.read().decode("utf-8", "replace") if query == "-" else query
    settings: dict[str, Any] = {}
    if tool_calls_limit is not None:
        settings["tool_calls_limit"] = None if tool_calls_limit == "none" else int(tool_calls_limit)
    if landing is not None:
        settings["landing"] = landing.value
    view = _view(json_=json_, events=events, quiet=quiet)
    with guarded():
        from run_specialist.doors.api import Runner  # noqa: PLC0415 - `--help` must not pay for it

        async def once() -> "Outcome":
            async with Runner(root=root, dir=dir_, model=model, strict=strict) as runner:
                listener = _print_event if events else view
                watch = view.grow if view else None
                run = runner.prepare(name, question, listener=listener, watch=watch, **settings)
                return await _interruptible(run)

        if view is None:
            outcome = asyncio.run(once())
        else:
            with view:
                outcome = asyncio.run(once())
    _show(outcome, json_=json_, events=events, quiet=quiet)
    raise typer.Exit(outcome.exit_code)


async def _interruptible(run: "Run") -> "Outcome":
    """Let Ctrl-C end the run with what was gathered; a second one ends the program."""
    loop = asyncio.get_running_loop()

    def abort() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        run.abort()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, abort)
    return await run.outcome()


def _view(*, json_: bool, events: bool, quiet: bool) -> "LiveView | None":
    if json_ or events or quiet or not sys.stderr.isatty():
        return None
    from run_specialist.cli.live import LiveView  # noqa: PLC0415 - only a terminal needs it

    return LiveView()


def _print_event(event: "Event") -> None:
    print_json(event.as_json(), indent=None)


def _show(outcome: "Outcome", *, json_: bool, events: bool, quiet: bool) -> None:
    if json_:
        print_json(outcome.as_json())
    elif not events and outcome.answer:
        print_line(outcome.answer)
    if not quiet:
        for warning in outcome.warnings:
            if warning != outcome.error:
                say(f"warning: {warning}")
        if outcome.model == "offline":
            say(
                "answered offline, without a language model: ranked search and verbatim quotes; "
                "set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL to have a model answer"
            )
    if outcome.error:
        say(f"{outcome.status}: {outcome.error}")


def main() -> None:
    """Run the command."""
    app()
