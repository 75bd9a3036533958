"""Flags that stand for a key of the specialist's file: they take what the key takes, and complain in its words."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from run_specialist.budget.ladder import Style
from run_specialist.errors import UsageError
from run_specialist.record.journal import OnLost
from run_specialist.specialist.presets import Preset

LONGEST_NUMBER = 18
"""Digits of a limit on the command line."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


def setting(text: str) -> int | float | str:
    """Return what the text of a flag would be as the value of a key."""
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def settings(**given: str | None) -> dict[str, int | float | str]:
    """Return what was given by flags, by the keys that they stand for."""
    return {key: setting(text) for key, text in given.items() if text is not None}


def takes(key: str) -> Callable[[str | None], str | None]:
    """Return a function that lets the text of a flag pass if `key` takes it; None is no text."""

    def check(text: str | None) -> str | None:
        if text is None:
            return None
        from run_specialist.specialist.resolve import checked  # noqa: PLC0415 - fast `--help`

        if len(text) > LONGEST_NUMBER and _NUMBER.fullmatch(text):
            raise typer.BadParameter("that number is too long; `none` takes the limit away")
        try:
            checked({key: setting(text)})
        except UsageError as error:
            raise typer.BadParameter(str(error).removeprefix(f"{key}: ")) from None
        return text

    return check


def _limit(key: str, metavar: str, help_: str) -> Any:  # noqa: ANN401 - typer hides what it makes
    return typer.Option(metavar=metavar, callback=takes(key), help=help_)


def _one_of(key: str, metavar: str, choices: tuple[str, ...], help_: str) -> Any:  # noqa: ANN401 - likewise
    return typer.Option(metavar=metavar, callback=takes(key), autocompletion=lambda: choices, help=help_)


def _on_lost(text: str) -> OnLost:
    # The flag is spelled with hyphens, as all flags are, and Python's argument is not.
    for choice in get_args(OnLost):
        if text.replace("-", "_") == choice:
            return cast("OnLost", choice)
    raise typer.BadParameter(f"{text!r} is neither go-on nor abort")


Dir = Annotated[Path | None, typer.Option("--dir", help="Look for specialist files here before the usual places.")]
FilesRoot = Annotated[
    Path | None, typer.Option("--root", help="What the file tools may see.  [default: the project root]")
]
ProjectRoot = Annotated[
    Path | None, typer.Option("--root", help="The project whose specialists are meant.  [default: the project root]")
]
Model = Annotated[
    str | None, typer.Option("--model", help="sonnet, opus, haiku, fable, a full id, `openai:ID` or `offline`.")
]
ToolCallsLimit = Annotated[str | None, _limit("tool_calls_limit", "N|none", "Tool calls in this run.")]
TurnsLimit = Annotated[str | None, _limit("turns_limit", "N|none", "Replies of the model, the answer included.")]
TotalTokensLimit = Annotated[str | None, _limit("total_tokens_limit", "N|none", "Tokens, of input and output.")]
CostLimit = Annotated[str | None, _limit("cost_limit", "USD|none", "What the model may cost.")]
TimeLimit = Annotated[str | None, _limit("time_limit", "TIME|none", "Seconds, or with a unit: 90s, 10m, 1h.")]
ToolCharsLimit = Annotated[str | None, _limit("tool_chars_limit", "N|none", "Characters of tool results.")]
LandingStyle = Annotated[
    str | None,
    _one_of("landing", "HOW", get_args(Style), "auto, force, order, finalize, none or stop."),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where runs are kept: a file, sqlite:///FILE or postgresql://...  [default: the user's data directory]",
    ),
]
OnLostFlag = Annotated[
    OnLost,
    typer.Option(
        "--on-lost",
        metavar="HOW",
        parser=_on_lost,
        autocompletion=lambda: ("go-on", "abort"),
        show_default=False,
        help="If the store is lost: go-on, unstored, or abort before the next request.  [default: go-on]",
    ),
]
PresetName = Annotated[
    str | None,
    _one_of(
        "preset",
        "NAME",
        get_args(Preset),
        "A bundle: soft-landing, soft-warning, finalize, budget-notice or openai-loop.",
    ),
]
