"""Ask the questions of `specialists new`: each has a default, and is repeated after an invalid answer."""

import difflib
import sys
from collections.abc import Callable, Collection
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import typer

from run_specialist.cli.console import is_terminal
from run_specialist.cli.flags import setting, takes

READ_ONLY = ("search", "grep", "glob", "read", "ls")
"""Tools of a specialist whose file names none."""
MODELS = ("sonnet", "opus", "haiku", "fable", "offline", "inherit")
"""Models that are a single word."""
_ALL, _INHERIT = "all", "inherit"
"""Answers that leave the key out of the file."""
_NEAR = 0.6
_GLOB = frozenset("*?[")


def ask_for(name: str, given: Collection[str], project: Path) -> dict[str, object]:
    """Ask on the terminal for the keys that are not given, and return the answers that differ from a default.

    name: Valid name of the specialist.
    given: Keys that flags give.
    Raises typer.Abort after Ctrl-C or at the end of the input; nothing is written.
    """
    questions: dict[str, tuple[str, str | None, Callable[[str], object]]] = {
        "description": ("When should it be used?", None, _checked(name, "description")),
        "tool_calls_limit": ("Maximum tool calls in a run?", "30", _limit),
        "tools": (f"Tools, comma-separated ({', '.join(READ_ONLY)})?", _ALL, _checked(name, "tools")),
        "paths": ("Folders or globs that it can read, comma-separated?", _ALL, _paths(name, project)),
        "model": ("Model: sonnet, opus, haiku, a full id, ...?", _INHERIT, _model(name)),
    }
    # The prompt of the library writes a blank to standard output, which may be read by a program.
    with nullcontext() if is_terminal() else redirect_stdout(sys.stderr):
        answers = {
            key: typer.prompt(question, default, value_proc=check, prompt_suffix=" ", err=True)
            for key, (question, default, check) in questions.items()
            if key not in given
        }
    return {key: answer for key, answer in answers.items() if answer is not None}


def _checked(name: str, key: str) -> Callable[[str], object]:
    """Return a function that accepts the values of a key, and turns the default into None."""

    def check(text: str) -> object:
        from run_specialist.specialist.template import strict_problems  # noqa: PLC0415 - fast `--help`

        if key != "description" and text.strip().lower() in {_ALL, ""}:
            return None
        if problems := strict_problems(name, {key: text}):
            raise typer.BadParameter("; ".join(problem.text for problem in problems))
        return text

    return check


def _limit(text: str) -> object:
    return setting(takes("tool_calls_limit")(text) or text)


def _paths(name: str, project: Path) -> Callable[[str], object]:
    def check(text: str) -> object:
        value = _checked(name, "paths")(text)
        for path in filter(None, map(str.strip, str(value or "").split(","))):
            if _GLOB.isdisjoint(path) and not (project / path).exists():
                names = sorted(entry.name for entry in project.iterdir())
                near = difflib.get_close_matches(path.strip("/"), names, 1, _NEAR)
                hint = f"did you mean {near[0]}?" if near else "use --paths for a folder that you will create"
                raise typer.BadParameter(f"there is no {path} in {project}; {hint}")
        return value

    return check


def _model(name: str) -> Callable[[str], object]:
    def check(text: str) -> object:
        word = text.strip().lower()
        if word == _INHERIT:
            return None
        # A full id has a digit, a hyphen or a colon; only single words can be checked here.
        if word.isalpha() and word not in MODELS:
            near = difflib.get_close_matches(word, MODELS, 1, _NEAR)
            hint = f"did you mean {near[0]}?" if near else f"use {', '.join(MODELS)} or a full id"
            raise typer.BadParameter(f"unknown model {text!r}; {hint}")
        return _checked(name, "model")(text)

    return check
