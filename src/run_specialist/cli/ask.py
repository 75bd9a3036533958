"""The command `run-specialist`: ask a question, show the run, print the answer."""

import fcntl
import os
import re
import select
import signal
import stat
import sys
import termios
from array import array
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from run_specialist.cli import console, flags
from run_specialist.cli.help import GroupedCommand, VersionFlag, everyday, grouped
from run_specialist.errors import SpecialistNotFound, UsageError, errors_as, with_flags

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.cli.live import LiveView
    from run_specialist.loop.run import EndedRun, Run
    from run_specialist.record.events import Event
    from run_specialist.record.outcome import Outcome


STDIN = "-"
"""The word that is replaced by the text on standard input."""
LARGEST = 10 * 1024 * 1024
"""Maximum size of the text on standard input [bytes]; no model has room for a longer one."""

# Time without any input after which a message explains what the command is waiting for [s].
_PATIENCE = 1.0

_query = partial(typer.Argument, metavar="QUERY", show_default=False)
_QUERY = (
    "The question, in quotes or as several words; `-` means the text on standard input, which is also read if there is "
    "no QUERY."
)
_MORE = "An additional question, in quotes or as several words; `-` means the text on standard input."
QueryWords = Annotated[list[str] | None, _query(help=_QUERY)]
MoreWords = Annotated[list[str] | None, _query(help=_MORE)]


def question_from(words: Sequence[str] | None) -> str:
    """Return the question: the words joined by spaces, otherwise the text on standard input; exit if both are empty."""
    if words:
        return more_from(words) or ""
    if sys.stdin is None or sys.stdin.isatty():
        program = "run-specialist NAME"
        console.fail(f"there is no question; use: {program} 'why does it stop?', or from a pipe: git diff | {program}")
    # Replaced by the calling program, or no pipe on Windows.
    with suppress(OSError, ValueError):
        if not select.select([sys.stdin], [], [], _PATIENCE)[0]:
            console.say("waiting for the question on standard input; to ask without it: run-specialist NAME QUERY")
    text = _read()
    if not text.strip():
        console.fail("there is no question: QUERY is missing, and standard input is empty")
    return text


def more_from(words: Sequence[str] | None) -> str | None:
    """Return the words joined by spaces, with `-` replaced by the text on standard input; None without words.

    The text is a separate paragraph between the words before and after it.
    """
    if not words:
        return None
    if STDIN not in words:
        return " ".join(words)
    if words.count(STDIN) > 1:
        console.fail("`-` means standard input, which can be read only once; put the question in quotes")
    if sys.stdin is None:
        console.fail("standard input is closed; pass the question as QUERY instead of `-`")
    if sys.stdin.isatty():
        console.say("type the text, then press Ctrl-D on an empty line")
    text = _read()
    if len(words) == 1:
        return text
    at = [*words].index(STDIN)
    parts = (" ".join(words[:at]), text.strip("\r\n"), " ".join(words[at + 1 :]))
    return "\n\n".join(part for part in parts if part)


def unread_input() -> bool:
    """Return whether standard input is a pipe, a socket or a file with unread text.

    An open but empty pipe, as programs often pass it to their children, has none.
    """
    try:
        descriptor = sys.stdin.fileno()
        info = os.fstat(descriptor)
        if stat.S_ISREG(info.st_mode):
            return os.lseek(descriptor, 0, os.SEEK_CUR) < info.st_size
        if not (stat.S_ISFIFO(info.st_mode) or stat.S_ISSOCK(info.st_mode)):
            return False
        waiting = array("i", [0])
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
        return waiting[0] > 0
    except (OSError, ValueError, AttributeError):
        return False  # closed, or replaced by the calling program


def _read() -> str:
    with errors_as(UsageError, "standard input cannot be read", OSError):
        data = sys.stdin.buffer.read(LARGEST + 1)
    if len(data) > LARGEST:
        console.fail(f"standard input is longer than {LARGEST // 1024**2} MiB; ask about a file of the project instead")
    return data.decode("utf-8", "replace")


app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)


def addressed(runner: "Runner", words: Sequence[str]) -> tuple[str | None, Sequence[str]]:
    """Return the NAME and the words of the question; None instead of a NAME if the first word begins the question.

    It does if it is no specialist and no path, and has blanks or a question mark, is `-`, or is a word like `why`.
    Raises SpecialistNotFound for another first word.
    """
    first, *rest = words
    try:
        runner.registry.find(first)
    except SpecialistNotFound as error:
        from run_specialist.tools.search import STOP_WORDS  # noqa: PLC0415 - fast `--help`

        if first == STDIN or re.search(r"[\s?]|^$", first) or (rest and first.lower() in STOP_WORDS):
            return None, words
        raise SpecialistNotFound(f"{error}; to ask without a NAME, put the question in quotes") from None
    return first, rest


@app.command(cls=GroupedCommand)
@everyday(
    "model tool_calls_limit cost_limit root trust chat dry_run json_ output quiet",
    'run-specialist "Why did checkout go down?"',
    'git diff | run-specialist codebase-analyst "What could break here?" -',
)
@grouped
def run(
    name: flags.AnySpecialist = None,
    query: QueryWords = None,
    *,
    model: flags.ModelOptions,
    given: flags.SettingOptions,
    output: flags.OutputOptions,
    project: flags.ProjectOptions,
    dry_run: flags.DryRun = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Ask again and again; the default on a terminal without QUERY.")
    ] = False,
    version: VersionFlag = False,  # noqa: ARG001 - its callback prints and exits
) -> None:
    """Ask a specialist a question and print its answer.

    A specialist is a Markdown file with YAML front matter. It works with a limited number of tool calls and always
    answers, at the limit from what it has gathered. Without NAME, the one that fits the question is asked. Without an
    API key, ranked search answers offline, without a language model.

    Exit codes: 0 answered, 2 wrong flag or file, 3 model not reachable, 4 no answer, 130 interrupted.
    """
    output.check()
    with console.guarded():
        config = flags.config_for_run(project.root, model.model, trust=project.trust, quiet=output.quiet)
        runner = flags.configured_runner(config, **vars(project), **vars(model), dry_run=dry_run)
        if name is None:
            if chat or output.json_ or output.events:
                console.fail("there is no question; use: run-specialist NAME QUERY")
            from run_specialist.cli.tables import print_table  # noqa: PLC0415 - fast `--help`

            files = runner.maker.usable()
            rows = [(console.one_line(file.name), console.one_line(file.description)) for file in files]
            print_table(("NAME", "DESCRIPTION"), rows)
            console.say("to ask: run-specialist [NAME] 'QUESTION'", dim=True)
            return
        name, words = addressed(runner, [name, *(query or ())])
        chats = _chats(words, output, wanted=chat)
        question = more_from(words) if chats else question_from(words)
        if name is None:
            name, *others = runner.maker.fitting(question or "", config.values.get("default_specialist"))
            if not output.quiet:
                console.say(console.one_line(f"asking {name}{f' (also: {others[0]})' if others else ''}"), dim=True)
        if chats:
            from run_specialist.cli.chat import converse  # noqa: PLC0415 - only a conversation needs it

            ask = partial(answer, output=output, chats=True)
            converse(name, question, runner, ask, given.settings)
            raise typer.Exit(0)
        outcome = answer(runner, partial(runner.prepare, name, question, **given.settings), output)
    raise typer.Exit(outcome.exit_code)


def _chats(query: Sequence[str] | None, output: flags.OutputOptions, *, wanted: bool) -> bool:
    """Return whether questions are typed one after the other: on request, or on a terminal without a question."""
    is_for_program = bool(output.json_ or output.events or output.output)
    if wanted and (is_for_program or sys.stdin is None or STDIN in (query or ())):
        console.fail("--chat reads typed questions; it excludes `-`, closed input, --json, --events and --output")
    on_terminal = sys.stdin is not None and sys.stdin.isatty() and console.is_terminal()
    return wanted or (not query and on_terminal and not is_for_program)


def main() -> None:
    """Run the command."""
    with console.as_program():
        app()


# Prepares the run, e.g. `partial(runner.prepare, name, question)`, with its `listener` and the `watch` of replies.
_PrepareRun = Callable[..., Awaitable["Run | EndedRun"]]


def _view(output: flags.OutputOptions) -> "LiveView | None":
    if output.json_ or output.events or output.quiet or sys.stderr is None or not sys.stderr.isatty():
        return None
    from run_specialist.cli.live import LiveView  # noqa: PLC0415 - only a terminal needs it

    return LiveView()


def answer(runner: "Runner", prepare: _PrepareRun, output: flags.OutputOptions, *, chats: bool = False) -> "Outcome":
    """Execute a run, show its progress, and print its outcome.

    chats: whether further questions are read from standard input.
    Raises OSError if the events can no longer be written; BrokenPipeError if the reader closed the pipe.
    """
    if not (output.quiet or chats) and unread_input():
        console.say(
            "warning: the text on standard input was not read; to add it to the question, end the question with ` -`"
        )
    import asyncio  # noqa: PLC0415 - fast `--help`

    from run_specialist.api.event_loop import with_bounded_cleanup  # noqa: PLC0415 - as above
    from run_specialist.store.location import shown  # noqa: PLC0415 - as above

    view = _view(output)
    printer = _EventPrinter(sys.stdout)
    runner.loading = view.prepare if view else None
    runner.allowed = None if output.quiet else console.say_allowed

    async def once() -> "Outcome":
        async with runner:
            _handle_signals(printer, view)
            listener, watch = printer if output.events else view, view.grow if view else None
            printer.run = run = await prepare(listener=listener, watch=watch)
            if view is None:
                return await run.outcome()
            return await _steered(run, view)

    # Prints of tools and their modules must not mix with the answer or the events.
    with view or nullcontext(), redirect_stdout(sys.stderr):
        try:
            outcome = asyncio.run(with_bounded_cleanup(once()))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
    if printer.error:
        raise printer.error
    is_kept = printer.run is not None and printer.run.is_kept
    left = tuple(one for one in outcome.warnings if not (view and one in view.warnings))
    _show(replace(outcome, warnings=left), output, runner.store and shown(runner.store), stored=is_kept, chats=chats)
    return outcome


async def _steered(run: "Run | EndedRun", view: "LiveView") -> "Outcome":
    """Return the outcome of a run; what is typed on the terminal until then is added beside its results."""
    from run_specialist.cli.live import TypedLines  # noqa: PLC0415 - only a terminal needs it

    def take(line: str) -> None:
        if run.steer(line):
            view.waiting.append(line)
        else:
            view.say(f"too late, it is about to answer: ask this as a further question: {line}")

    with TypedLines(take) as view.typed:
        outcome = await run.outcome()
    if rest := view.typed.line:
        view.say(f"not added, because it was typed without Enter: {rest}")
    return outcome


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
            console.print_json(event.as_json(), None, self._out)
        except OSError as error:
            self.error = error
            if self.run:
                self.run.abort()


def _handle_signals(printer: _EventPrinter, view: "LiveView | None") -> None:
    """On the first Ctrl-C, abort the run and keep its findings; a second Ctrl-C ends the program.

    The first SIGTERM completes the current turn, so that no reply is paid for twice; the second one aborts immediately.
    """
    import asyncio  # noqa: PLC0415 - fast `--help`

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
            view.say("stopping after this turn; a second signal stops immediately")

    loop.add_signal_handler(signal.SIGTERM, terminate)
    # Closing the terminal ends the program, unless `nohup` ignores the signal.
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, abort)
    loop.add_signal_handler(signal.SIGINT, abort)


def _show(outcome: "Outcome", output: flags.OutputOptions, store: str | None, *, stored: bool, chats: bool) -> None:
    """Print the outcome, its warnings, the summary and what was changed.

    store: the value of `--store`; None if it was not given.
    stored: whether the run is stored, so that commands can resume it, undo its changes and print it.
    chats: whether what is typed next is a reply.
    """
    from run_specialist.cli.tables import changed_files, limit_hint, resume_command, run_command, summary  # noqa: PLC0415 - fast `--help`

    resume = resume_command(outcome, store) if stored else None
    for_people = not (output.json_ or output.events)
    if outcome.question and for_people and not output.quiet:
        reply = run_command("resume", outcome, store, "YOUR REPLY") if stored and not chats else None
        console.say(f"The specialist asks: {outcome.question}{f'; to reply: {reply}' if reply else ''}", command=reply)
    with output.file.opened() as out:
        if output.json_:
            kind = outcome.error_kind or console.ERROR_KINDS.get(outcome.exit_code, outcome.status)
            error = {"kind": kind, "message": with_flags(outcome.error)} if outcome.error else None
            console.print_json(outcome.as_json() | {"error": error}, to=out)
        elif output.file.path or for_people:
            to_file = out if output.file.path else None
            # The file of a dry run has the patch alone, so that `git apply` takes it.
            if outcome.patch is None or for_people:
                transcript = run_command("transcript", outcome, store) if stored else None
                _print_answer(outcome, output, None if outcome.patch is not None else to_file, transcript)
            if outcome.patch and to_file:
                to_file.write(outcome.patch)
            elif outcome.patch:
                if outcome.answer:
                    console.print_line("")
                console.print_diff(outcome.patch)
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    if not output.quiet:
        is_read = for_people and is_watched and console.is_terminal()
        if is_read:
            console.print_line("", sys.stderr)
        _print_warnings(outcome, marked=is_read and not output.raw)
    if outcome.error:
        to_resume = f"; to resume: {resume}" if resume else ""
        console.say(f"{outcome.status}: {with_flags(outcome.error)}{to_resume}", command=resume)
    if output.quiet:
        return
    answered = outcome.status in ("answered", "landed")
    if answered and (hint := limit_hint(outcome, resume)):
        console.say(hint, dim=True, command=resume)
    # Without a terminal, an error is the only line, so that programs can read it.
    if for_people and (answered or is_watched):
        console.say(summary(outcome), dim=True)
    undo = run_command("undo", outcome, store) if stored else None
    if for_people and (line := changed_files(outcome, undo)):
        console.say(line, dim=True, command=undo)
    if output.file.is_written and is_watched:
        console.say(f"written to {output.file.path}", dim=True)


def _print_warnings(outcome: "Outcome", *, marked: bool) -> None:
    """Print the warnings.

    marked: whether the printed answer marks the quotes that were not found, so that no warning needs to name them.
    """
    from run_specialist.loop.evidence import QUOTE_NOT_FOUND  # noqa: PLC0415 - fast `--help`
    from run_specialist.record.outcome import NO_MODEL  # noqa: PLC0415 - as above

    for warning in outcome.warnings:
        is_quote = warning.startswith(QUOTE_NOT_FOUND)
        if warning not in {outcome.error, NO_MODEL} and not (is_quote and marked):
            console.say(f"warning: {warning if is_quote else with_flags(warning)}", dim=True)
    if outcome.is_offline:
        console.say(
            "answered offline, without a language model: ranked search and verbatim quotes; "
            "set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL to use a model",
            dim=True,
        )


MOST_LINES, MOST_COLUMNS = 16, 100
"""What is printed of the results of an interrupted run, so that they and the notes about the run fit on a screen."""


def _print_answer(outcome: "Outcome", output: flags.OutputOptions, to: TextIO | None, transcript: str | None) -> None:
    """Print the answer; on a terminal rendered, followed by its evidence and gaps.

    Of an interrupted run, only the beginning of what was gathered is printed.
    to: a file, which gets the answer unchanged; None for standard output.
    transcript: the command that prints the whole run; None if it is not stored.
    """
    if outcome.status == "aborted" and not output.raw and to is None:
        from run_specialist.views.page import cut  # noqa: PLC0415 - fast `--help`

        lines = outcome.answer.splitlines()
        for line in lines[:MOST_LINES]:
            console.print_line(cut(line, MOST_COLUMNS))
        if len(lines) > MOST_LINES:
            rest = f"to see everything: {transcript}" if transcript else "--raw prints everything"
            console.say(f"{len(lines) - MOST_LINES:,} more lines; {rest}", command=transcript)
    elif output.raw or to is not None or not console.is_terminal():
        if outcome.answer:
            console.print_line(outcome.answer, to)
    else:
        from run_specialist.cli.answer import print_rendered_answer  # noqa: PLC0415 - only a terminal needs it

        print_rendered_answer(outcome, alone=output.quiet)
