"""The command `specialists tune`: how a specialist fared with its limits, and which one to write into its file."""

import shutil
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.console import complete_names, fail, guarded, is_terminal, print_json, print_line, printable
from run_specialist.cli.flags import Dir, Json, ProjectRoot, StoreUrl
from run_specialist.cli.show_runs import counted, local
from run_specialist.cli.table import print_table

if TYPE_CHECKING:
    from run_specialist.specialist.loader import SpecialistFile
    from run_specialist.store.stored import PastRun
    from run_specialist.views.advice import Suggestion
    from run_specialist.views.tune import Bill, Hit, Tuning

_VERDICTS = {
    "raise": "Raise the limit of tool calls from {now} to {limit}",
    "lower": "Lower the limit of tool calls from {now} to {limit}",
    "set": "Set a limit of {limit} tool calls",
    "keep": "Keep the limit of {now} tool calls",
    "probe": "Try a limit of {limit} tool calls instead of {now}",
    "prompt": "Mend the prompt before the limit",
    "other cause": "Another cause comes first",
    "too early": "Too early for a limit",
}


def tune(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name, or the path of its file.", autocompletion=complete_names)
    ],
    store: StoreUrl = None,
    last: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Judge by the newest N runs.  [default: all]")
    ] = None,
    dir_: Dir = None,
    root: ProjectRoot = None,
    json_: Json = False,
) -> None:
    """Suggest a limit of tool calls from past runs.

    Shows how many tool calls its runs used, how often they hit which limit, and what that cost. With the limit that is
    suggested nine runs of ten end by themselves; what was cut short is reckoned as needing more.
    """
    if root is not None and not root.is_dir():
        fail(f"--root {root} is not a folder")
    with guarded():
        from run_specialist.views.tune import tune as tuned  # noqa: PLC0415 - fast `--help`

        file = _file(name, root, dir_)
        told = file.name if file else name
        tuning = tuned(told, _past(told, store)[:last], _limit(file))
        if json_:
            print_json(tuning.as_json())
        else:
            _print(tuning, file)


def _file(name: str, root: Path | None, dir_: Path | None) -> "SpecialistFile | None":
    """Return the specialist's file; None where there is none any more, for its runs tell something all the same."""
    from run_specialist.errors import SpecialistNotFound  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.registry import Registry, places, project_root  # noqa: PLC0415 - likewise

    try:
        return Registry(places(root or project_root(Path.cwd()), dir_, meant=root is not None)).find(name)
    except SpecialistNotFound:
        return None


def _limit(file: "SpecialistFile | None") -> int | Literal["none"] | None:
    from run_specialist.specialist.resolve import resolve  # noqa: PLC0415 - fast `--help`

    if file is None or file.specialist is None:
        return None
    limit = resolve(file, {}).settings.tool_calls_limit
    return "none" if limit is None else limit


def _past(name: str, given: str | None) -> "Sequence[PastRun]":
    """Return the runs that are over, the newest first."""
    from run_specialist.store.location import NONE, place, shown  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - likewise

    where = place(given)
    if where.url == NONE:
        fail("runs are kept nowhere, so there is nothing to judge by; name a store with --store")
    with Store(where.url) as store:
        runs = store.past(name)
        if not runs:
            known = sorted({printable(one.specialist) for one in store.runs()} - {name})
            others = f"; there are runs of {', '.join(known)}" if known else ""
            fail(f"no run of {name} that is over is kept in {shown(where.url)}{others}")
        return runs


def _print(tuning: "Tuning", file: "SpecialistFile | None") -> None:
    days = sorted({local(at).split()[0] for at in (tuning.first_at, tuning.last_at) if at is not None})
    statuses = ", ".join(f"{number} {status}" for status, number in tuning.statuses.items())
    print_line(f"{tuning.specialist}  {counted(tuning.runs)}, {' to '.join(days)}\n{statuses}")
    _print_bars(tuning)
    if tuning.hits:
        print_line("")
        head = ("LIMIT REACHED", "RUNS", "PARTIAL", "FAILED", "HOW IT LANDED")
        print_table(head, [_hit(hit) for hit in tuning.hits])
    if tuning.tokens.total:
        print_line("")
        _print_bills(tuning)
    _print_suggestion(tuning.suggestion, tuning.limit, file)


def _print_bars(tuning: "Tuning") -> None:
    from run_specialist.cli.histogram import Signs, print_histogram  # noqa: PLC0415 - fast `--help`

    signs, calls = Signs.of_stdout(), tuning.calls
    share = f"{calls.repeated:,} ({_percent(calls.repeated / calls.run)})" if calls.repeated else ""
    parts = {"repeated": share, "failed": calls.failed, "skipped": calls.skipped}
    odd = "".join(f", {number} {what}" for what, number in parts.items() if number)
    print_line(f"{calls.run:,} tool call{'' if calls.run == 1 else 's'}{odd}")
    if not tuning.bars:
        return
    ended, cut = (f"{tuning.ended} ended by itself {signs.ended}", tuning.judged - tuning.ended)
    if tuning.ended != 1:
        ended = ended.replace("itself", "themselves")
    print_line(f"\nTool calls a run: {ended}{f', {cut} cut short {signs.cut}' if cut else ''}")
    suggested = tuning.suggestion.tool_calls_limit
    marks = [] if tuning.limit is None else [(tuning.limit, "limit now")]
    if suggested is not None and suggested != tuning.limit:
        marks.append((suggested, "suggested"))
    print_histogram(tuning.bars, marks)


def _hit(hit: "Hit") -> tuple[str, ...]:
    kind = "model's context" if hit.reason == "context" else hit.reason.replace("_", " ")
    how = ", ".join(f"{how} {number}" for how, number in hit.how.items())
    return (kind, str(hit.runs), str(hit.partial), str(hit.failed), how)


def _print_bills(tuning: "Tuning") -> None:
    rows: list[tuple[str, Callable[[float], str], Bill, Bill]]
    rows = [("tokens", _tokens, tuning.tokens, tuning.landing_tokens)]
    if tuning.cost_usd.median is not None:
        rows.append(("cost", dollars, tuning.cost_usd, tuning.landing_cost_usd))
    head = ("", "MEDIAN RUN", "ALL RUNS", *(["MEDIAN LANDING", "ALL LANDINGS"] if tuning.landings else []))
    print_table(
        head,
        [(what, *_bill(words, runs), *_bill(words, landings))[: len(head)] for what, words, runs, landings in rows],
    )
    if unknown := tuning.cost_usd.unknown:
        print_line(f"The price of {counted(unknown)} is not known.")


def _bill(words: Callable[[float], str], bill: "Bill") -> tuple[str, str]:
    """Return the median and the whole; of a part also its share."""
    if bill.median is None:
        return ("-", "-")
    share = "" if bill.share is None else f", {_percent(bill.share)} of all"
    return (words(bill.median), words(bill.total) + share)


def _tokens(number: float) -> str:
    return f"{number:,.0f}"


def _print_suggestion(suggestion: "Suggestion", now: int | None, file: "SpecialistFile | None") -> None:
    limit = suggestion.tool_calls_limit
    verdict = _VERDICTS[suggestion.verdict].format(now=now, limit=limit)
    text = f"{verdict}: {suggestion.reason}."
    print_line("\n" + (textwrap.fill(text, shutil.get_terminal_size().columns) if is_terminal() else text))
    if limit is not None and limit != now:
        line = file.lines.get("tool_calls_limit") if file else None
        where = f"{_near(file.path)}{f', line {line}' if line else ''}" if file else "the front matter of its file"
        print_line(f"\nIn {where}:\n\n    tool_calls_limit: {limit}")


def _near(path: Path) -> Path:
    """Return the path from here, where that is shorter to read."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _percent(share: float) -> str:
    return "under 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"  # noqa: PLR2004 - what rounds to nothing
