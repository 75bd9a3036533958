"""Command-line options that several commands share; an option for a key of a specialist's file accepts its values."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer

from run_specialist.budget.ladder import Style
from run_specialist.cli.console import complete_names
from run_specialist.cli.from_config import personal
from run_specialist.errors import UsageError
from run_specialist.record.journal import OnLost
from run_specialist.record.messages import CallFormat
from run_specialist.record.outcome import EvidencePolicy
from run_specialist.specialist.presets import Preset

LONGEST_NUMBER = 18
"""Maximum length of a number [characters]."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


def setting(text: str) -> int | float | str:
    """Return the text of an option as a YAML value: a number if it is one, otherwise the text."""
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def settings(**given: str | None) -> dict[str, Any]:
    """Return the options that were given, by key."""
    return {key: setting(text) for key, text in given.items() if text is not None}


def takes(key: str) -> Callable[[str | None], str | None]:
    """Return an option callback that accepts None or a valid value of `key`."""

    def check(text: str | None) -> str | None:
        if text is None:
            return None
        from run_specialist.specialist.resolve import checked  # noqa: PLC0415 - fast `--help`

        if len(text) > LONGEST_NUMBER and _NUMBER.fullmatch(text):
            raise typer.BadParameter(f"number too long, at most {LONGEST_NUMBER} characters; `none` removes the limit")
        try:
            checked({key: setting(text)})
        except UsageError as error:
            raise typer.BadParameter(str(error).removeprefix(f"{key}: ")) from None
        return text

    return check


def quiet_option(help_: str) -> Any:  # noqa: ANN401 - as `typer.Option`
    """Return the option `--quiet`, which the user's config file can set."""
    return typer.Option("--quiet/--no-quiet", "-q", show_default=False, callback=personal("quiet"), help=help_)


def one_of(key: str, metavar: str, choices: tuple[str, ...], help_: str) -> Any:  # noqa: ANN401 - as `typer.Option`
    """Return an option that accepts one of `choices`, the values of `key`."""
    return typer.Option(metavar=metavar, callback=takes(key), autocompletion=lambda: choices, help=help_)


def _limit(key: str, metavar: str, help_: str) -> Any:  # noqa: ANN401 - as `typer.Option`
    return typer.Option(metavar=metavar, callback=takes(key), help=help_)


def _on_lost(text: str) -> OnLost:
    # The option uses a hyphen, the Python argument an underscore.
    for choice in get_args(OnLost):
        if text.replace("-", "_") == choice:
            return cast("OnLost", choice)
    raise typer.BadParameter(f"{text!r} is not one of go-on, abort")


SpecialistName = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the specialist, or path of its file.", autocompletion=complete_names),
]
Dir = Annotated[
    Path | None,
    typer.Option("--dir", metavar="FOLDER", help="Folder to search for specialist files before the default folders."),
]
FilesRoot = Annotated[
    Path | None,
    typer.Option("--root", metavar="FOLDER", help="Folder that the file tools can read.  [default: the project root]"),
]
ProjectRoot = Annotated[
    Path | None,
    typer.Option("--root", metavar="FOLDER", help="Project to search for specialists.  [default: the project root]"),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Model: sonnet, opus, haiku, fable, a full id, `openai:ID`, `offline`, or a local one: `ollama:NAME`, "
        "`lmstudio:NAME`, `llamacpp:`, `vllm:NAME` or `local:FILE`; several with commas.",
    ),
]
RequireModel = Annotated[
    bool,
    typer.Option(
        "--require-model",
        callback=personal("require_model"),
        help="Refuse to answer offline, without a language model.  [env var: SPECIALIST_REQUIRE_MODEL]",
    ),
]
ToolCallsLimit = Annotated[str | None, _limit("tool_calls_limit", "N|none", "Maximum number of tool calls.")]
TurnsLimit = Annotated[
    str | None, _limit("turns_limit", "N|none", "Maximum number of model replies, including the answer.")
]
TotalTokensLimit = Annotated[
    str | None, _limit("total_tokens_limit", "N|none", "Maximum number of tokens, input and output.")
]
CostLimit = Annotated[str | None, _limit("cost_limit", "USD|none", "Maximum cost of the model requests.")]
TimeLimit = Annotated[
    str | None, _limit("time_limit", "TIME|none", "Maximum time in seconds, or with a unit: 90s, 10m, 1h.")
]
PatienceTime = Annotated[
    str | None,
    _limit("patience", "TIME|none", "How long a request is retried while the API is busy or unreachable; 0 = never."),
]
ToolCharsLimit = Annotated[
    str | None, _limit("tool_chars_limit", "N|none", "Maximum number of characters in tool results.")
]
LandingStyle = Annotated[
    str | None,
    one_of(
        "landing", "HOW", get_args(Style), "Landing at the limit: auto, force, order, schema, finalize, none or stop."
    ),
]
ToolCallFormat = Annotated[
    str | None,
    one_of(
        "tool_calls",
        "HOW",
        get_args(CallFormat),
        "Tool calls of the model: native, or json constrained by the endpoint.",
    ),
]
EvidenceFlag = Annotated[
    str | None,
    one_of("evidence", "HOW", get_args(EvidencePolicy), "Quotes of the answer: off, check or require."),
]
ServerTools = Annotated[
    bool,
    typer.Option("--server-tools", help="Let the API run the web tools named in the file; it bills searches."),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        callback=personal("store"),
        help="Store of runs: a file, sqlite:///FILE, postgresql://... or none.  [default: a file in the user's data "
        "directory]",
    ),
]
OnLostFlag = Annotated[
    OnLost,
    typer.Option(
        "--on-lost",
        metavar="HOW",
        parser=_on_lost,
        callback=personal("on_lost"),
        autocompletion=lambda: ("go-on", "abort"),
        show_default=False,
        help="If the store fails: go-on without storing, or abort before the next request.  [default: go-on]",
    ),
]
RequestsAtOnce = Annotated[
    int | None,
    typer.Option(
        "--requests-at-once",
        metavar="N",
        min=1,
        callback=personal("requests_at_once"),
        help="Maximum number of concurrent requests to an API.  [env var: SPECIALIST_REQUESTS_AT_ONCE]",
    ),
]
PresetName = Annotated[
    str | None,
    one_of(
        "preset",
        "NAME",
        get_args(Preset),
        "Predefined settings: soft-landing, soft-warning, finalize, budget-notice or openai-loop.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Change no file; print the changes as a patch, or write it to --output."),
]
Strict = Annotated[
    bool | None, typer.Option("--strict/--no-strict", show_default=False, help="Treat warnings as errors.")
]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
