"""What both commands that ask a model share: the live view, the events, the outcome, Ctrl-C."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from run_specialist.api.shutdown import and_leave
from run_specialist.cli.console import fail, print_json, print_line, say
from run_specialist.cli.startup import resume_gc
from run_specialist.store.location import shown

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.cli.live import LiveView
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Watch
    from run_specialist.record.events import Event, Listener
    from run_specialist.record.outcome import Outcome

OutcomeJson = Annotated[bool, typer.Option("--json", help="Print the outcome as one JSON object.")]
Events = Annotated[bool, typer.Option("--events", help="Print each event as one line of JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the answer, and errors.")]


@dataclass(frozen=True)
class Output:
    """What is printed, and where."""

    json: bool
    events: bool
    quiet: bool

    @classmethod
    def chosen(cls, *, json: bool, events: bool, quiet: bool) -> "Output":
        """Return what the flags ask for, and leave where they cannot be had together."""
        if json and events:
            fail("--json and --events exclude each other; --events ends with the outcome anyway")
        return cls(json, events, quiet)


Prepare = Callable[["Listener | None", "Watch | None"], Awaitable["Run"]]
"""Makes the run, for somebody who listens and somebody who watches."""


def answer(runner: "Runner", prepare: Prepare, output: Output) -> "Outcome":
    """Make a run, wait for its end while somebody watches, and print what came of it.

    Raises OSError when the events cannot be written any more, BrokenPipeError when nobody reads them.
    """
    view = _view(output)
    printer = _EventPrinter(sys.stdout)

    async def once() -> "Outcome":
        async with runner:
            _listen_for_signals(printer)
            printer.run = await prepare(printer if output.events else view, view.grow if view else None)
            resume_gc()
            return await printer.run.outcome()

    # What a tool prints, or the module that it comes from, is neither answer nor event.
    with view or nullcontext(), redirect_stdout(sys.stderr):
        try:
            outcome = asyncio.run(and_leave(once()))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
    if printer.unread:
        raise printer.unread
    from run_specialist.cli.summary import resume_command  # noqa: PLC0415 - fast `--help`

    kept = printer.run is not None and printer.run.is_kept
    _show(outcome, output, resume=resume_command(outcome, runner.store and shown(runner.store)) if kept else None)
    return outcome


class _EventPrinter:
    """Prints each event as a line; when none can be written any more, the run is stopped."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self.run: Run | None = None
        self.unread: OSError | None = None

    def __call__(self, event: "Event") -> None:
        if self.unread or self._out is None:
            return
        try:
            print_json(event.as_json(), None, self._out)
        except OSError as error:
            self.unread = error
            if self.run:
                self.run.abort()


def _listen_for_signals(printer: _EventPrinter) -> None:
    """Let Ctrl-C end the run with what was gathered; a second one ends the program."""
    loop, asking = asyncio.get_running_loop(), asyncio.current_task()

    def abort() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        if printer.run:
            printer.run.abort()
        elif asking:
            # Servers are being started, which may take long, and nothing is gathered yet.
            asking.cancel()

    # The end of a terminal ends what runs in it, unless `nohup` has that ignored.
    hang_up = getattr(signal, "SIGHUP", None)
    ends = [] if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN else [hang_up]
    for number in (signal.SIGINT, signal.SIGTERM, *ends):
        loop.add_signal_handler(number, abort)


def _view(output: Output) -> "LiveView | None":
    if output.json or output.events or output.quiet or sys.stderr is None or not sys.stderr.isatty():
        return None
    from run_specialist.cli.live import LiveView  # noqa: PLC0415 - only a terminal needs it

    return LiveView()


def _show(outcome: "Outcome", output: Output, *, resume: str | None) -> None:
    """Print an outcome, and what there is to say of it.

    resume: the command that goes on; None where the run is not kept.
    """
    if output.json:
        print_json(outcome.as_json())
    elif not output.events and outcome.answer:
        print_line(outcome.answer)
    if not output.quiet:
        _tell_warnings(outcome)
    if outcome.error:
        say(f"{outcome.status}: {outcome.error}{f'; to go on: {resume}' if resume else ''}")
    if not output.quiet:
        _tell_end(outcome, resume, for_people=not (output.json or output.events))


def _tell_warnings(outcome: "Outcome") -> None:
    for warning in outcome.warnings:
        if warning != outcome.error:
            say(f"warning: {warning}")
    if outcome.model == "offline":
        say(
            "answered offline, without a language model: ranked search and verbatim quotes; "
            "set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL to have a model answer"
        )


def _tell_end(outcome: "Outcome", resume: str | None, *, for_people: bool) -> None:
    from run_specialist.cli.summary import how_to_go_on, summary  # noqa: PLC0415 - fast `--help`

    good = outcome.status in ("answered", "landed")
    if good and (told := how_to_go_on(outcome, resume)):
        say(told)
    # What went wrong stands alone where a program reads it: one line, and it says what to do.
    if for_people and (good or (sys.stderr is not None and sys.stderr.isatty())):
        say(summary(outcome), dim=True)
