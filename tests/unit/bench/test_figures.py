"""The benchmark's figures: medians, ratios and targets, and no figure without a measurement."""

import json

import pytest

from bench.command import FIGURES, main
from bench.figures.figure import Size
from bench.figures.row import Row, line
from bench.guests import install
from bench.lab import Lab
from bench.process import LapFailed

RATIO = Row("a call", "ms", "calls.ours.30", "calls.other.30", 0.75, of_ratio=True)


def test_the_ratio_is_computed_from_medians():
    """The ratio is computed from medians, so one slow outlier lap does not count."""
    series = {"calls.ours.30": [0.002, 0.003, 0.9], "calls.other.30": [0.004, 0.005, 0.0001]}
    came = line(RATIO, series, {})
    assert (came.ours, came.other, came.ratio, came.met) == (3.0, 4.0, 0.75, True)
    assert came.cells() == ("a call", "3.00 ms", "4.00 ms", "0.75", "<= 0.75 x", "yes")


@pytest.mark.parametrize(
    ("row", "value", "met"),
    [
        (Row("", "s", "it", at_most=3), 3.0, True),
        (Row("", "s", "it", at_most=3), 3.01, False),
        (Row("", "", "it", at_most=30, exactly=True), 29, False),
        (Row("", "s", "it"), 3.0, None),
        (Row("", "s", "it", at_most=3, full=False), 2.0, None),
    ],
)
def test_a_row_with_a_target_is_met_or_missed(row: Row, value: float, met):
    """A row without a target, or without one for this size, reports neither met nor missed."""
    assert line(row, {"it": [value]}, {}).met is met


def test_a_failed_row_shows_no_figure():
    """A failed row shows the reason and no figure for either side, nor does a row without measurements."""
    assert line(RATIO, {}, {}).cells()[1] == "not measured"
    series = {"calls.ours.30": [0.002]}
    failed = line(RATIO, series, {"calls.other": "exit code 1: it broke"})
    assert failed.failed == "exit code 1: it broke"
    assert failed.cells() == ("a call", "failed", "", "", "<= 0.75 x", "failed")
    assert not line(RATIO, series, {"first.other": "something else"}).failed


def test_each_series_name_starts_with_its_figure():
    """Each row's series name starts with its figure's name, because failure reasons are looked up by that prefix."""
    for figure in FIGURES.values():
        for row in figure.rows(Size(full=True, laps=1, crowd_laps=1)):
            assert row.ours.startswith(f"{figure.name}."), row


def test_a_failed_lap_is_recorded_and_the_others_continue():
    """A failed lap is recorded with the reason from its process, and the other laps continue."""
    with Lab() as lab:
        with lab.failing("calls.nobody"):
            lab.lap("nobody", "first", lab.new_run())
        with pytest.raises(LapFailed, match="killed after"):
            lab.lap("bare", "first", lab.new_run(), seconds=0.01)
    assert lab.failures == {"calls.nobody": "exit code 1: ModuleNotFoundError: No module named 'bench.peers.nobody'"}


def test_a_failed_installation_gives_a_reason(tmp_path, monkeypatch):
    """Without uv, installing a peer fails with a reason."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(LapFailed, match="uv not found on PATH"):
        install("langchain", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--laps", "0"], "an integer of at least 1, got 0"),
        (["--only", "everything"], "invalid choice: 'everything'"),
    ],
)
def test_an_invalid_flag_fails_before_any_measurement(arguments: list[str], why: str, capsys):
    """A wrong flag fails before any measurement, with one line naming the expected value."""
    with pytest.raises(SystemExit):
        main(arguments)
    assert why in capsys.readouterr().err


@pytest.mark.exhaustive
def test_a_quick_benchmark_prints_tables_and_writes_json(tmp_path, capsys):
    """A quick benchmark of one figure prints its tables and writes all measurements to a JSON file."""
    assert main(["--quick", "--only", "commands", "--json", str(tmp_path / "all.json")]) == 0
    out = capsys.readouterr().out
    assert "`run-specialist --help`, CPU" in out
    assert "failed" not in out
    assert "Search in notes" not in out
    told = json.loads((tmp_path / "all.json").read_text())
    assert told["series"]["commands.help.heavy"] == [0]
    assert {row["met"] for row in told["rows"]} == {None, True}
