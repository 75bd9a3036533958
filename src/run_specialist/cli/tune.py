"""The command `specialists tune`: suggest a limit from past runs, with a histogram."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from run_specialist.budget import counted, dollars
from run_specialist.cli import console
from run_specialist.cli.flags import Dir, Json, ProjectRoot, SpecialistName, StoreUrl, configured_project
from run_specialist.cli.runs import AllProjects, project_filter
from run_specialist.cli.tables import GAP, local, print_rendered, print_table, short_path
from run_specialist.errors import SpecialistNotFound
from run_specialist.store.location import NONE, place, shown

if TYPE_CHECKING:
    from run_specialist.specialist.loader import SpecialistFile
    from run_specialist.views.tune import Bill, Tuning


_VERDICTS = {
    "raise": "Raise the limit of tool calls from {now} to {limit}",
    "lower": "Lower the limit of tool calls from {now} to {limit}",
    "set": "Set a limit of {limit} tool calls",
    "keep": "Keep the limit of {now} tool calls",
    "probe": "Try a limit above {now} tool calls",
    "prompt": "Improve the prompt before changing the limit",
    "other cause": "Fix another cause first",
    "too early": "Too few runs to suggest a limit",
}


def tune(
    name: SpecialistName,
    store: StoreUrl = None,
    last: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Use only the newest N runs.  [default: all]")
    ] = None,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Count the runs of earlier versions of the file, too.")
    ] = False,
    all_projects: AllProjects = False,
    dir_: Dir = None,
    root: ProjectRoot = None,
    json_: Json = False,
) -> None:
    """Suggest a limit of tool calls from past runs.

    Also shows how many tool calls the runs used, which limits they reached, and what they cost. With the suggested
    limit, nine of ten runs end by themselves; a run that was cut short counts as needing more calls than it used.
    Counts only runs of this project, of the current version of the file, whose limits come from the file and not from a
    flag.
    """
    with console.guarded():
        from run_specialist.specialist.settings import resolve  # noqa: PLC0415 - fast `--help`
        from run_specialist.store.reader import Store  # noqa: PLC0415 - fast `--help`
        from run_specialist.views.tune import tune as tuned  # noqa: PLC0415 - fast `--help`

        file = None
        # The stored runs of a file that no longer exists still allow a suggestion.
        with suppress(SpecialistNotFound):
            file = configured_project(console.project_folder(root), dir_, meant=root is not None)[0].find(name)
        specialist = file.name if file else name
        url, project = place(store).url, project_filter(root, all_projects=all_projects)
        if url == NONE:
            console.fail("runs are not stored, so there is nothing to learn from; name a store with --store")
        with Store(url) as opened:
            found = opened.past(specialist, project)
        if not found:
            where_in = f" in {short_path(project)}; use --all-projects for those of other projects" if project else ""
            console.fail(f"{shown(url)} has no ended run of {specialist}{where_in}")
        limit: int | Literal["none"] | None = None
        digest = None
        if file is not None and file.specialist is not None:
            limit = resolve(file, {}).settings.tool_calls_limit
            limit = "none" if limit is None else limit
            digest = file.digest
        tuning = tuned(specialist, found, limit, digest=digest, all_versions=all_versions, last=last)
        if json_:
            console.print_json(tuning.as_json())
        else:
            _print(tuning, file)


def _print(tuning: "Tuning", file: "SpecialistFile | None") -> None:
    from run_specialist.specialist.project import is_packaged  # noqa: PLC0415 - fast `--help`

    suggestion, now = tuning.suggestion, tuning.limit
    limit = suggestion.tool_calls_limit
    text = f"{_VERDICTS[suggestion.verdict].format(now=now, limit=limit)}: {suggestion.reason}."
    console.print_wrapped(text)
    if limit is not None and limit != now and file and is_packaged(file.path):
        copy = f"    specialists new {file.name} --from {file.name} --tool-calls-limit {limit}"
        why = "Its file is included in this package. These lines make a copy in your project, and ask it:"
        console.print_line(f"\n{why}\n\n{copy}\n    run-specialist {file.name} QUERY")
    elif limit is not None and limit != now:
        line = file.lines.get("tool_calls_limit") if file else None
        at = f", line {line}" if line else ""
        where = f"{console.relative(file.path)}{at}" if file else "the front matter of its file"
        console.print_line(f"\nIn {where}:\n\n    tool_calls_limit: {limit}")
    dates = sorted({local(at).split()[0] for at in (tuning.first_at, tuning.last_at) if at is not None})
    when = f", {' to '.join(dates)}" if tuning.runs else ""
    console.print_line(f"\n{tuning.specialist}  {counted(tuning.runs, 'run')}{when}")
    if tuning.runs:
        console.print_line(_by_status(tuning.statuses))
    excluded = []
    if changed := tuning.changed_limits:
        by_flag = f"with limits set by a flag or a parent ({_by_status(changed)})"
        excluded.append(f"{counted(sum(changed.values()), 'run')} {by_flag}")
    if others := sum(one["runs"] for one in tuning.versions if not one["counted"]):
        excluded.append(f"{counted(others, 'run')} of other versions of its file")
    if excluded:
        console.print_wrapped(f"Not counted: {', '.join(excluded)}.")
    _print_calls(tuning)
    if tuning.hits:
        console.print_line("")
        rows = [
            (
                "model's context" if hit["reason"] == "context" else hit["reason"].replace("_", " "),
                *(str(hit[key]) for key in ("runs", "partial", "failed")),
                ", ".join(f"{how} {number}" for how, number in hit["how"].items()),
            )
            for hit in tuning.hits
        ]
        print_table(("LIMIT REACHED", "RUNS", "PARTIAL", "FAILED", "HOW IT LANDED"), rows)
    if tuning.tokens.total:
        console.print_line("")
        _print_bills(tuning)


def _by_status(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {status}" for status, number in statuses.items())


def _print_calls(tuning: "Tuning") -> None:
    """Print the number of calls, and a histogram: runs that ended by themselves, and runs that were cut short."""
    calls = tuning.calls
    run, repeated = calls["run"], calls["repeated"]
    parts = calls | {"run": 0, "repeated": f"{repeated:,} ({_percent(repeated / run)})" if repeated else 0}
    counts = "".join(f", {number} {name}" for name, number in parts.items() if number)
    console.print_line(f"{counted(run, 'tool call')}{counts}")
    if not tuning.bars:
        return
    from rich.bar import Bar  # noqa: PLC0415 - fast `--help`
    from rich.table import Table  # noqa: PLC0415 - fast `--help`

    console.print_line("\nRuns by tool calls used, ended by themselves or cut short:")
    suggested = tuning.suggestion.tool_calls_limit
    labels = {} if tuning.limit is None else {tuning.limit: "limit now"}
    if suggested is not None and suggested != tuning.limit:
        labels[suggested] = "suggested"
    # Padding at the edge, too, so that both columns of bars have one width and one scale.
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="", expand=True)
    table.add_column("CALLS", justify="right")
    table.add_column()
    for head in ("ENDED", "CUT SHORT"):
        table.add_column(head, justify="right")
        table.add_column(ratio=1)
    size = max(max(bar.ended, bar.cut) for bar in tuning.bars)
    for bar in tuning.bars:
        range_ = str(bar.first) if bar.first == bar.last else f"{bar.first}-{bar.last}"
        label = ", ".join(text for number, text in labels.items() if number in bar)
        ended, cut = Bar(size, 0, bar.ended, color="green"), Bar(size, 0, bar.cut, color="yellow")
        table.add_row(range_, label, str(bar.ended or ""), ended, str(bar.cut or ""), cut)
    print_rendered(table)


def _print_bills(tuning: "Tuning") -> None:
    rows: list[tuple[str, Callable[[float], str], Bill, Bill]]
    rows = [("tokens", "{:,.0f}".format, tuning.tokens, tuning.landing_tokens)]
    if tuning.cost_usd.median is not None:
        rows.append(("cost", dollars, tuning.cost_usd, tuning.landing_cost_usd))
    head = ("", "MEDIAN RUN", "ALL RUNS", *(["MEDIAN LANDING", "ALL LANDINGS"] if tuning.landings else []))
    cells = [(name, *_bill(form, runs), *_bill(form, landings)) for name, form, runs, landings in rows]
    print_table(head, [row[: len(head)] for row in cells])
    if unknown := tuning.cost_usd.unknown:
        console.print_line(f"The cost of {counted(unknown, 'run')} is unknown.")


def _bill(form: Callable[[float], str], bill: "Bill") -> tuple[str, str]:
    """Return the median and the total of some costs, with their share of the costs of all runs.

    form: formats an amount.
    """
    if bill.median is None:
        return ("-", "-")
    share = "" if bill.share is None else f", {_percent(bill.share)} of all"
    return (form(bill.median), form(bill.total) + share)


def _percent(share: float) -> str:
    return "under 1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"  # noqa: PLR2004 - rounds to 0 %
