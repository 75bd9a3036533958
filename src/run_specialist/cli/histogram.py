"""A histogram of the tool calls of past runs."""

from collections.abc import Mapping, Sequence

from run_specialist.cli.table import GAP, print_rendered
from run_specialist.views.needs import NeedBar


def print_histogram(bars: Sequence[NeedBar], labels: Mapping[int, str]) -> None:
    """Print a row for each bar, as wide as the terminal: runs that ended by themselves, and runs that were cut short.

    labels: texts by number of calls; a number outside all bars gets a row.
    """
    from rich.bar import Bar  # noqa: PLC0415 - fast `--help`
    from rich.table import Table  # noqa: PLC0415 - fast `--help`

    # Padding at the edge, too, so that both columns of bars have one width and one scale.
    table = Table(box=None, padding=(0, GAP, 0, 0), header_style="", expand=True)
    table.add_column("CALLS", justify="right")
    table.add_column()
    for head in ("ENDED", "CUT SHORT"):
        table.add_column(head, justify="right")
        table.add_column(ratio=1)
    size = max(max(bar.ended, bar.cut) for bar in bars)
    outside = [NeedBar(number, number, 0, 0) for number in labels if not any(_has(bar, number) for bar in bars)]
    for bar in sorted((*bars, *outside), key=lambda bar: bar.first):
        calls = str(bar.first) if bar.first == bar.last else f"{bar.first}-{bar.last}"
        label = ", ".join(text for number, text in labels.items() if _has(bar, number))
        ended, cut = Bar(size, 0, bar.ended, color="green"), Bar(size, 0, bar.cut, color="yellow")
        table.add_row(calls, label, str(bar.ended or ""), ended, str(bar.cut or ""), cut)
    print_rendered(table)


def _has(bar: NeedBar, calls: int) -> bool:
    return bar.first <= calls <= bar.last
