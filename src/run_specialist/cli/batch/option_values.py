"""Parse the durations, amounts and choices in the options of `specialists map`."""

from typing import Any

import typer

from run_specialist.cli.flags import setting


def duration(text: str) -> float:
    """Parse a duration such as `90s`, `10m` or `1h` [s]."""
    from run_specialist.errors import UsageError  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.resolve import checked  # noqa: PLC0415 - fast `--help`

    try:
        seconds = checked({"time_limit": setting(text)}).time_limit
    except UsageError as error:
        raise typer.BadParameter(str(error).removeprefix("time_limit: ")) from None
    return float("inf") if seconds is None else seconds


def choice(*choices: str) -> Any:  # noqa: ANN401 - keyword arguments of `typer.Option`
    """Return the parser and the completion of an option with a fixed set of values."""

    def parse(text: str) -> str:
        if text not in choices:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(choices)}")
        return text

    return {"parser": parse, "autocompletion": lambda: choices}


def amount(text: str) -> float:
    """Parse an amount of dollars; `none` is infinity."""
    if text == "none":
        return float("inf")
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an amount of dollars; expected e.g. 2.50") from None
    if not 0 <= value < float("inf"):
        raise typer.BadParameter(f"{text!r} is not an amount of dollars; expected e.g. 2.50")
    return value
