"""Command line of the benchmark."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import guests, report, server_cost
from bench.figures import calls, children, commands, first_request, landing, offline, paced, search
from bench.figures import map as many_items
from bench.figures import size as counts
from bench.figures.figure import Figure, Size
from bench.figures.row import Line, line
from bench.lab import Lab
from bench.process import LapFailed

FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        commands.FIGURE,
        offline.FIGURE,
        first_request.FIGURE,
        calls.FIGURE,
        paced.FIGURE,
        landing.FIGURE,
        search.FIGURE,
        children.CHILDREN,
        children.CROWD,
        many_items.FIGURE,
        counts.FIGURE,
    )
}
METHOD = """Medians of {laps} laps, in which the peers alternate; {crowd} for the largest figure. CPU time is that of \
the process that does the work; wall time is given where waiting matters. The server is a separate process on the same \
machine. Tokens are bytes / 4. Not measured: TLS, a real network, a real model."""


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the tables and return the exit code, which is 1 if a figure failed."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.json and not given.json.parent.is_dir():
        parser.error(f"argument --json: no such folder: {given.json.parent}")
    size = _size(given)
    chosen = [FIGURES[name] for name in given.only or FIGURES]
    print(f"{report.machine()}\n\n{METHOD.format(laps=size.laps, crowd=size.crowd_laps)} {report.busy()}", flush=True)
    with Lab() as lab:
        _welcome(lab, size.guests)
        print(f"{server_cost.measure(lab)}\n", flush=True)
        for warm_up in dict.fromkeys(figure.warm_up for figure in chosen):
            warm_up(lab)
        seconds = _measure(lab, size, chosen)
        lines = {figure.name: [line(row, lab.series, lab.failures) for row in figure.rows(size)] for figure in chosen}
        for figure in chosen:
            print(f"### {figure.title} (`--only {figure.name}`)\n\n{report.table(lines[figure.name])}\n")
        failed = report.failures([each for figure in lines.values() for each in figure])
        if failed:
            print(f"Failed:\n\n{failed}\n")
        spent = ", ".join(f"{name} {took:.0f} s" for name, took in seconds.items())
        print(f"Time spent: {spent}. Load of the machine at the end: {os.getloadavg()[0]:.1f}.")
        if given.json:
            _save(given.json, lab, lines)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/run.py", description="Compare the cost of run-specialist with other agent loops."
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=list(FIGURES),
        metavar="FIGURE",
        help=f"measure only this figure: {', '.join(FIGURES)}; repeatable",
    )
    parser.add_argument("--laps", type=_count, help="laps per figure; default: 5, and 1 for the largest")
    parser.add_argument(
        "--quick", action="store_true", help="one small lap of everything, to check that it works; no targets"
    )
    parser.add_argument(
        "--peer",
        action="append",
        choices=list(guests.PACKAGES),
        default=[],
        help="also measure calls and landing of this peer, installed in a separate environment; repeatable",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all measurements to this file")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text}")
    return int(text)


def _size(given: argparse.Namespace) -> Size:
    peers = tuple(given.peer)
    if given.quick:
        small = {"calls": (10, 30), "children": 20, "crowd": 60, "notes": 500}
        return Size(full=False, laps=1, crowd_laps=1, guests=peers, **small)
    crowd_laps = given.laps if given.laps and given.only == ["crowd"] else 1
    return Size(full=True, laps=given.laps or 5, crowd_laps=crowd_laps, guests=peers)


def _welcome(lab: Lab, names: Sequence[str]) -> None:
    """Create the environments of optional peers and print their package versions."""
    folder = lab.folder()
    for name in names:
        try:
            lab.pythons[name], installed = guests.install(name, folder)
            print(f"{name}: {installed}.", flush=True)
        except LapFailed as failed:
            lab.failures |= {f"{figure}.{name}": str(failed) for figure in FIGURES}


def _measure(lab: Lab, size: Size, chosen: list[Figure]) -> dict[str, float]:
    """Run all laps, alternating the figures; return the duration of each figure [s]."""
    seconds = dict.fromkeys((figure.name for figure in chosen), 0.0)
    for number in range(max(figure.laps(size) for figure in chosen)):
        lab.lap_number = number
        for figure in chosen:
            if number < figure.laps(size):
                begun = time.monotonic()
                figure.lap(lab, size)
                seconds[figure.name] += time.monotonic() - begun
                print(f"lap {number + 1}: {figure.name} {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return seconds


def _save(file: Path, lab: Lab, lines: dict[str, list[Line]]) -> None:
    rows = [
        {"figure": name, "what": each.row.what, "unit": each.row.unit, "ours": each.ours, "other": each.other,
         "ratio": each.ratio, "at_most": each.row.at_most, "of_ratio": each.row.of_ratio, "met": each.met,
         "failed": each.failed}
        for name, group in lines.items() for each in group
    ]  # fmt: skip
    document = {"machine": report.machine(), "rows": rows, "series": lab.series, "failures": lab.failures}
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
