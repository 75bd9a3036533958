"""The command `specialists tune`, on stores with runs in them."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert
from typer.testing import Result

from run_specialist.store.sqlite import open_engine
from run_specialist.store.tables import runs
from tests.cli.specialists_command import call as specialists
from tests.unit.views.past_runs import outcome


@pytest.fixture
def store(notes: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that stores runs of a specialist, one per outcome, in the store of the test."""
    monkeypatch.setenv("SPECIALIST_STORE", str(notes / "runs.db"))
    monkeypatch.setenv("TZ", "UTC")

    def keep(specialist: str, *outcomes: dict[str, Any] | None) -> None:
        file = notes / "specialists" / f"{specialist}.md"
        digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else ""
        of_all = {"specialist": specialist, "digest": digest, "project": os.path.realpath(notes)}
        of_all |= {"model": "m", "question": "q", "owner": "gone", "frozen": "{}", "tool_calls": 0}
        rows = [
            of_all
            | {"run_id": f"{specialist}-{place}", "started_at": 1_790_000_000.0 + 86_400 * place}
            | {"limits_changed": False, "status": told["status"] if told else "running"}
            | {"outcome": told and json.dumps(told)}
            for place, told in enumerate(outcomes)
        ]
        engine = open_engine(f"sqlite:///{notes / 'runs.db'}")
        with engine.begin() as connection:
            connection.execute(insert(runs), rows)
        engine.dispose()

    return keep


def call(*arguments: str, columns: int = 80) -> Result:
    """Run the command on a terminal of so many columns."""
    return specialists("tune", *arguments, env={"COLUMNS": str(columns)})


def cut(**given: Any) -> dict[str, Any]:
    """Return the outcome of a run that landed at its limit of tool calls."""
    return outcome(6, 6, "landed", landed="tool_calls", **given)


def test_s1_8_the_report_has_histogram_limits_costs_and_suggestion(store, write):
    """The report has a histogram with both limits, the limits that were reached, the costs, and the line to write."""
    path = write("finder", "tool_calls_limit: 6")
    kept = [outcome(n, 30) for n in (3, 3, 4, 9, 9, 9, 9, 10)]
    store("finder", *kept, cut(), cut(how="order"), outcome(2, 6, "failed"))
    result = call("finder")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        (
            "Raise the limit of tool calls from 6 to 13: 8 of 10 runs ended "
            "by themselves with 10 tool calls or fewer, and the 2 that were cut may need more."
        ),
        "",
        f"In specialists/finder.md, line {path.read_text().split('tool_calls')[0].count(chr(10)) + 1}:",
        "",
        "    tool_calls_limit: 13",
        "",
        "finder  11 runs, 2026-09-21 to 2026-10-01",
        "8 answered, 2 landed, 1 failed",
        "70 tool calls, 2 skipped",
        "",
        "Runs by tool calls used, ended by themselves or cut short:",
        "CALLS             ENDED                        CUT SHORT",
        "    3                 2  ██████████",
        "    4                 1  █████",
        "    5",
        "    6  limit now                                       2  ██████████",
        "    7",
        "    8",
        "    9                 4  ████████████████████",
        "   10                 1  █████",
        "",
        "LIMIT REACHED  RUNS  PARTIAL  FAILED  HOW IT LANDED",
        "tool calls     2     0        0       force 1, order 1",
        "",
        "        MEDIAN RUN  ALL RUNS  MEDIAN LANDING  ALL LANDINGS",
        "tokens  400         4,400     100             200, 5 % of all",
        "cost    $0.50       $5.50     $0.10           $0.20, 4 % of all",
    ]


def test_a_specialist_of_this_package_is_copied(store):
    """Instead of a line to change in the installed package, two commands are shown."""
    store("error-tracer", *[outcome(3, 30)] * 12)
    lines = call("error-tracer", "--all-versions").stdout.splitlines()
    at = next(at for at, line in enumerate(lines) if "specialists new" in line)
    assert lines[at : at + 2] == [
        "    specialists new error-tracer --from error-tracer --tool-calls-limit 4",
        "    run-specialist error-tracer QUERY",
    ]
    assert not [line for line in lines if line.startswith("In ")]


@pytest.mark.exhaustive
def test_runs_are_reported_without_a_valid_file(store, write):
    """Without a valid file the limit is that of the newest run. A path is accepted in place of the name."""
    path = write("broken", "tool_calls_limit: twelve")
    for name in ("gone", "broken"):
        store(name, outcome(3, 8), *[cut()] * 9)
        told = json.loads(call(name, "--json").stdout)
        assert (told["limit"], told["limit_from"]) == (6, "run")
    assert call("gone").stdout.startswith("Try a limit above 6 tool calls: 9 of 10 runs were cut before they showed ")
    store("lost", *[outcome(8, 30)] * 10)
    assert "In the front matter of its file:\n\n    tool_calls_limit: 10\n" in call("lost").stdout
    assert call(str(path), "--json").stdout == call("broken", "--json").stdout


def test_a_specialist_without_runs_is_one_line(store, write, notes):
    """One line with exit code 2, also without a store, which is not created; a run without outcome does not count."""
    for place, told in ((str(notes / "none.db"), "none.db"), ("none", "runs are not stored")):
        result = call("finder", "--store", place)
        assert (result.exit_code, result.stderr.count("\n"), told in result.stderr) == (2, 1, True)
    assert not (notes / "none.db").exists()
    write("finder")
    store("reader", outcome())
    store("writer", outcome())
    store("finder", None)
    result = call("finder")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{notes / 'runs.db'} has no ended run of finder in {notes}; use --all-projects" in result.stderr


@pytest.mark.exhaustive
def test_bars_fit_the_width(store, write):
    """Bars fill the terminal's width, both kinds with one scale; a single run among many is still counted."""
    write("finder")
    store("finder", *[outcome(3, 30)] * 200, outcome(9, 30), *[cut()] * 100)
    for columns in (60, 80, 120):
        printed = call("finder", columns=columns).stdout.split("\nRuns by tool calls used")[1]
        lines = printed.split("\n\n", maxsplit=1)[0].splitlines()[1:]
        assert max(map(len, lines)) <= columns
        longest, half = lines[1].count("█"), next(line for line in lines if line.startswith("    6")).count("█")
        # Allow for both columns of bars, and for headings, figures and labels.
        assert longest >= (columns - 45) // 2
        assert half == longest // 2
        assert ["9", "1"] in [line.split()[:2] for line in lines]
