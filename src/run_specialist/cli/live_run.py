"""Execute a run for `run-specialist` and `specialists resume`: live view, events, outcome, Ctrl-C."""

import asyncio
import shlex
import signal
import sys
from contextlib import nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Protocol, TextIO

from run_specialist.api.flag_names import with_flags
from run_specialist.api.shutdown import with_bounded_cleanup
from run_specialist.cli.console import ERROR_KINDS, is_terminal, print_json, print_line, say, say_allowed
from run_specialist.cli.notes import note, without_shown
from run_specialist.cli.output_options import OutputSettings
from run_specialist.cli.query_words import unread_input
from run_specialist.cli.startup import resume_gc
from run_specialist.store.location import shown

if TYPE_CHECKING:
    from run_specialist.api.ended_run import EndedRun
    from run_specialist.api.runner import Runner
    from run_specialist.cli.live import LiveView
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Watch
    from run_specialist.record.events import Event, Listener
    from run_specialist.record.outcome import Outcome


class PrepareRun(Protocol):
    """Prepares the run, e.g. `partial(runner.prepare, name, question)`."""

    async def __call__(self, *, listener: "Listener | None", watch: "Watch | None") -> "Run | EndedRun":
        """Return the run, with its listener and the watcher of its replies."""
        ...


def answer(runner: "Runner", prepare: PrepareRun, output: OutputSettings) -> "Outcome":
    """Execute a run, show its progress, and print its outcome.

    Raises OSError if the events can no longer be written; BrokenPipeError if the reader closed the pipe.
    """
    unread = _warn_about_unread_input(output)
    view = _view(output)
    printer = _EventPrinter(sys.stdout)
    runner.loading = view.prepare if view else None
    runner.allowed = None if output.quiet else say_allowed

    async def once() -> "Outcome":
        async with runner:
            _handle_signals(printer, view)
            listener, watch = printer if output.events else view, view.grow if view else None
            printer.run = await prepare(listener=listener, watch=watch)
            resume_gc()
            return await printer.run.outcome()

    # Prints of tools and their modules must not mix with the answer or the events.
    with view or nullcontext(), redirect_stdout(sys.stderr):
        try:
            outcome = asyncio.run(with_bounded_cleanup(once()))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
    if printer.error:
        raise printer.error
    from run_specialist.cli.summary import resume_command, undo_command  # noqa: PLC0415 - fast `--help`

    stored = printer.run is not None and printer.run.is_kept
    store = runner.store and shown(runner.store)
    transcript = shlex.join(["specialists", "transcript", outcome.run_id, *(["--store", store] if store else [])])
    _show(
        outcome,
        output,
        resume=resume_command(outcome, store) if stored else None,
        undo=undo_command(outcome, store) if stored else None,
        transcript=transcript if stored else None,
    )
    if not unread:
        # A slow program has written to the pipe in the meantime.
        _warn_about_unread_input(output)
    return outcome


def _warn_about_unread_input(output: OutputSettings) -> bool:
    """Warn if text on standard input is not part of the question; return whether there is any."""
    unread = unread_input()
    if unread and not output.quiet:
        say("warning: the text on standard input was not read; to add it to the question, end the question with ` -`")
    return unread


class _EventPrinter:
    """Prints each event as a line; aborts the run if the output can no longer be written."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self.run: Run | EndedRun | None = None
        self.error: OSError | None = None
        """The error that ended the output."""

    def __call__(self, event: "Event") -> None:
        if self.error or self._out is None:
            return
        try:
            print_json(event.as_json(), None, self._out)
        except OSError as error:
            self.error = error
            if self.run:
                self.run.abort()


def _handle_signals(printer: _EventPrinter, view: "LiveView | None") -> None:
    """On the first Ctrl-C, abort the run and keep its findings; a second Ctrl-C ends the program.

    The first SIGTERM completes the current turn, so that no reply is paid for twice; the second one aborts immediately.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def abort() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        if printer.run:
            printer.run.abort()
        elif task:
            # MCP servers are starting, which can take long; there are no findings yet.
            task.cancel()

    def terminate() -> None:
        loop.add_signal_handler(signal.SIGTERM, abort)
        if printer.run is None:
            abort()
            return
        printer.run.abort(after_turn=True)
        if view and printer.run.ended is None:
            view.stopping()

    loop.add_signal_handler(signal.SIGTERM, terminate)
    # Closing the terminal ends the program, unless `nohup` ignores the signal.
    hang_up = getattr(signal, "SIGHUP", None)
    hang_ups = [] if hang_up is None or signal.getsignal(hang_up) is signal.SIG_IGN else [hang_up]
    for number in (signal.SIGINT, *hang_ups):
        loop.add_signal_handler(number, abort)


def _view(output: OutputSettings) -> "LiveView | None":
    if output.json or output.events or output.quiet or sys.stderr is None or not sys.stderr.isatty():
        return None
    from run_specialist.cli.live import LiveView  # noqa: PLC0415 - only a terminal needs it

    return LiveView()


def _show(
    outcome: "Outcome", output: OutputSettings, *, resume: str | None, undo: str | None, transcript: str | None
) -> None:
    """Print the outcome, its warnings, the summary and what was changed.

    resume, undo, transcript: the commands that resume the run, undo its changes and print it; None if it is not stored.
    """
    from run_specialist.cli.answer_output import print_answer, print_patch  # noqa: PLC0415 - fast `--help`
    from run_specialist.cli.summary import changed_files  # noqa: PLC0415 - as above

    with output.file.opened() as out:
        if output.json:
            print_json(outcome.as_json() | {"error": _error(outcome)}, to=out)
        elif output.file.path or not output.events:
            to_file = out if output.file.path else None
            # The file of a dry run has the patch alone, so that `git apply` takes it.
            if outcome.patch is None or not output.events:
                answer_file = to_file if outcome.patch is None else None
                print_answer(outcome, raw=output.raw, alone=output.quiet, to=answer_file, transcript=transcript)
            print_patch(outcome, to_file)
    if not output.quiet:
        if not (output.json or output.events) and is_terminal() and sys.stderr is not None and sys.stderr.isatty():
            print_line("", sys.stderr)
        _print_warnings(outcome, alone=output.raw or output.json or output.events)
    if outcome.error:
        note(
            f"{outcome.status}: {with_flags(outcome.error)}{f'; to resume: {resume}' if resume else ''}",
            command=resume,
            dim=False,
        )
    if not output.quiet:
        for_people = not (output.json or output.events)
        _print_summary(outcome, resume, for_people=for_people)
        if for_people and (line := changed_files(outcome, undo)):
            note(line, command=undo)
        if output.file.is_written and sys.stderr is not None and sys.stderr.isatty():
            say(f"written to {output.file.path}", dim=True)


def _error(outcome: "Outcome") -> dict[str, str] | None:
    """Return why there is no complete answer, as JSON; None if there is one."""
    if outcome.error is None:
        return None
    kind = outcome.error_kind or ("partial" if outcome.status == "partial" else ERROR_KINDS.get(outcome.exit_code))
    return {"kind": kind or outcome.status, "message": with_flags(outcome.error)}


def _print_warnings(outcome: "Outcome", *, alone: bool) -> None:
    from run_specialist.loop.founded import QUOTE_NOT_FOUND  # noqa: PLC0415 - fast `--help`
    from run_specialist.record.outcome import NO_MODEL  # noqa: PLC0415 - fast `--help`

    for warning in without_shown(outcome.warnings, alone=alone):
        if warning not in {outcome.error, NO_MODEL}:
            note(f"warning: {warning if warning.startswith(QUOTE_NOT_FOUND) else with_flags(warning)}")
    if outcome.is_offline:
        note(
            "answered offline, without a language model: ranked search and verbatim quotes; "
            "set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL to use a model"
        )


def _print_summary(outcome: "Outcome", resume: str | None, *, for_people: bool) -> None:
    from run_specialist.cli.summary import limit_hint, summary  # noqa: PLC0415 - fast `--help`

    answered = outcome.status in ("answered", "landed")
    if answered and (hint := limit_hint(outcome, resume)):
        note(hint, command=resume)
    # Without a terminal, an error is the only line, so that programs can read it.
    if for_people and (answered or (sys.stderr is not None and sys.stderr.isatty())):
        note(summary(outcome))
