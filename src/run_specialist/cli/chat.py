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


class Chat:
    """The questions to one specialist, of which all but the first resume its run."""

    def __init__(
        self,
        name: str,
        make_runner: "Callable[[], Runner]",
        ask: "Callable[[Runner, Callable[..., Any]], Outcome]",
        settings: dict[str, Any],
    ) -> None:
        """Begin without a run; raises UsageError if there is no such specialist.

        make_runner: returns a new runner for each question.
        ask: executes a run that a function prepares, shows it, and returns its outcome.
        settings: of the first question; further ones keep them.
        """
        self._name, self._make_runner, self._ask, self._settings = name, make_runner, ask, settings
        runner = make_runner()
        runner.registry.find(name)
        self._store = runner.store
        self._keeps = place(self._store).url != NONE
        self._newest: Outcome | None = None
        self._questions = 0

    def converse(self, question: str | None) -> None:
        """Ask what is typed, line by line, until the input ends.

        question: the first one; None = it is typed, too.
        """
        # Line editing and the history of the arrow keys.
        with suppress(ImportError):
            import readline  # noqa: F401, PLC0415 - importing it changes `input`
        prompt = f"\n{self._name}> " if sys.stdin.isatty() else ""
        say(f"ask {self._name}; /help lists the commands, Ctrl-D ends", dim=True)
        if not self._keeps:
            say("follow-ups need a store, and --store none keeps nothing: each question begins a new run")
        while True:
            if question is None:
                try:
                    question = input(prompt).strip()
                except (EOFError, KeyboardInterrupt):
                    print_line("")
                    return
            if question == "/quit":
                return
            # A failed command or question has said why; the conversation goes on.
            with suppress(typer.Exit, KeyboardInterrupt):
                if question.startswith("/"):
                    self._obey(question)
                elif question:
                    self._put(question)
            question = None

    def _put(self, question: str) -> None:
        runner = self._make_runner()
        prepare: Callable[..., Any] = partial(runner.prepare, self._name, question, **self._settings)
        if self._newest is not None and self._keeps:
            prepare = partial(runner.resume, self._newest.run_id, question)
        try:
            self._newest = self._ask(runner, prepare)
            self._questions += 1
        except RunSpecialistError as error:
            say(with_flags(str(error)) + ("; /new begins a new run" if self._newest else ""))

    def _obey(self, command: str) -> None:
        newest = self._newest
        if command == "/help":
            for name, text in COMMANDS.items():
                print_line(f"{name:8} {text}")
        elif command not in COMMANDS:
            say(f"there is no command {command}; there are {', '.join(COMMANDS)}")
        elif newest is None:
            say("nothing was asked yet")
        elif command == "/new":
            self._newest, self._questions = None, 0
        elif command == "/cost":
            cost = "price unknown" if newest.cost_usd is None else dollars(newest.cost_usd)
            print_line(f"{newest.usage.total_tokens:,} tokens, {cost}, {counted(self._questions, 'question')}")
        else:
            report(newest.run_id, store=self._store)
