"""Arguments and options of the commands that read stored runs."""

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import printable
from run_specialist.cli.show_runs import one_line

if TYPE_CHECKING:
    from run_specialist.store.reader import Store

DEFAULT_LIMIT = 20
"""Runs listed without `--limit`."""
COMPLETIONS = 50
"""Runs offered by shell completion."""
ALL = sys.maxsize
"""Value of `--limit none`."""
STATUSES = ("running", "interrupted", "answered", "landed", "partial", "failed", "aborted")

_AGE = re.compile(r"([0-9]{1,6})\s*([mhdw])", re.ASCII)
_SECONDS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def open_store(store: str | None) -> "Store":
    """Open the store named by `--store`, or the default store; raises StoreUnusable."""
    from run_specialist.store.location import place  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - fast `--help`

    return Store(place(store).url)


def complete_runs(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return the ids and questions of matching runs for shell completion."""
    try:
        with open_store(context.params.get("store")) as opened:
            found = opened.runs(ids=[incomplete] if incomplete else (), limit=COMPLETIONS)
    except Exception:  # noqa: BLE001 - shell completion must not print errors
        return []
    return [(one.run_id, printable(one_line(one.question))) for one in found]


def _age(text: str) -> float:
    found = _AGE.fullmatch(text.strip().lower())
    if not found:
        raise typer.BadParameter(f"{text!r} is not an age; expected e.g. 12h, 30d or 8w")
    return int(found[1]) * _SECONDS[found[2]]


def _count(text: str) -> int:
    if text.strip().lower() == "none":
        return ALL
    if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
        raise typer.BadParameter(f"{text!r} is not a number of runs; expected a whole number or none")
    return int(text)


def _status(text: str) -> str:
    if text not in STATUSES:
        raise typer.BadParameter(f"{text!r} is not a status; expected one of {', '.join(STATUSES)}")
    return text


RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Id of the run, an unambiguous prefix, or `last`.", autocompletion=complete_runs
    ),
]
ReportedRun = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN", help="Id of the run, an unambiguous prefix, or `last`.", autocompletion=complete_runs
    ),
]
RunIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Run ids, prefixes of ids, or `last`.", autocompletion=complete_runs),
]
SpecialistFilter = Annotated[str | None, typer.Option("--specialist", metavar="NAME", help="Runs of this specialist.")]
StatusFilter = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        parser=_status,
        autocompletion=lambda: STATUSES,
        help=f"Runs with this status: {', '.join(STATUSES)}.",
    ),
]
OlderThan = Annotated[
    float | None,
    typer.Option("--older-than", metavar="AGE", parser=_age, help="Runs that ended longer ago, e.g. 12h, 30d or 8w."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N|none",
        parser=_count,
        help=f"Only the newest N runs.  [default: {DEFAULT_LIMIT}; with --json or --delete, none]",
    ),
]
