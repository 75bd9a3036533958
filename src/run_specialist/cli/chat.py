"""A conversation with a specialist: ask, read the answer, ask again; each further question resumes the run."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from run_specialist.budget import counted, dollars
from run_specialist.cli.console import print_line, say
from run_specialist.cli.report import report
from run_specialist.errors import RunSpecialistError, with_flags
from run_specialist.store.location import NONE, place

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.record.outcome import Outcome

COMMANDS = {
    "/report": "write the HTML report of this conversation",
    "/cost": "show the tokens and the cost so far",
    "/new": "forget the conversation; the next question begins a new run",
    "/help": "show this list",
    "/quit": "end, as Ctrl-D and Ctrl-C at the prompt do; Ctrl-C during a run stops only the run",
}


def converse(
    name: str,
    question: str | None,
    runner: "Runner",
    ask: "Callable[[Runner, Callable[..., Any]], Outcome]",
    settings: dict[str, Any],
) -> None:
    """Ask a specialist what is typed, line by line, until the input ends; all questions but the first resume its run.

    question: the first one; None = it is typed, too.
    ask: executes a run that a function prepares, shows it, and returns its outcome.
    settings: of the first question; further ones keep them.
    """
    keeps = place(runner.store).url != NONE
    # Line editing and the history of the arrow keys.
    with suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - importing it changes `input`
    prompt = f"\n{name}> " if sys.stdin.isatty() else ""
    say(f"ask {name}; /help lists the commands, Ctrl-D ends", dim=True)
    if not keeps:
        say("follow-ups need a store, and --store none keeps nothing: each question begins a new run")
    outcomes: list[Outcome] = []
    while True:
        if question is None:
            try:
                question = input(prompt).strip()
            except (EOFError, KeyboardInterrupt):
                print_line("")
                return
        # A failed command or question has said why; the conversation goes on.
        with suppress(typer.Exit, KeyboardInterrupt):
            if question == "/quit":
                return
            if question == "/new" and outcomes:
                outcomes.clear()
            elif question.startswith("/"):
                _obey(question, outcomes, runner.store)
            elif question:
                prepare: Callable[..., Any] = partial(runner.prepare, name, question, **settings)
                if outcomes and keeps:
                    prepare = partial(runner.resume, outcomes[-1].run_id, question)
                try:
                    outcomes.append(ask(runner, prepare))
                except RunSpecialistError as error:
                    say(with_flags(str(error)) + ("; /new begins a new run" if outcomes else ""))
        question = None


def _obey(command: str, outcomes: "list[Outcome]", store: str | None) -> None:
    """Execute a command about the conversation.

    outcomes: of its questions, oldest first.
    """
    if command == "/help":
        for name, text in COMMANDS.items():
            print_line(f"{name:8} {text}")
    elif command not in COMMANDS:
        say(f"there is no command {command}; there are {', '.join(COMMANDS)}")
    elif not outcomes:
        say("nothing was asked yet")
    elif command == "/cost":
        cost, tokens = outcomes[-1].cost_usd, outcomes[-1].usage.total_tokens
        price = "price unknown" if cost is None else dollars(cost)
        print_line(f"{tokens:,} tokens, {price}, {counted(len(outcomes), 'question')}")
    else:
        report(outcomes[-1].run_id, store=store)
