"""The command `specialists runs`: listing stored runs."""

import json
import os
import re
import time

import pytest

from tests.cli.history.commands import DAY, NOON, keep, listed, on_terminal, run_of
from tests.cli.specialists_command import call

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def test_runs_are_listed_newest_first(three):
    """Each run is a row on stdout; the number of runs and the store are on stderr."""
    result = call("runs")
    rows = [re.split(" {2,}", line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert rows == [
        ["RUN", "SPECIALIST", "STATUS", "MODEL", "CALLS", "COST", "DURATION", "STARTED", "QUESTION"],
        ["run_c", "looker", "interrupted", "scripted", "0", "$0.00", started(NOON), "What is known?"],
        ["run_b", "reader", "partial", "scripted", "1", "$0.25", "1.0 s", started(NOON - DAY), "Why is it?"],
        ["run_a", "looker", "answered", "scripted", "2", "$0.50", "1.0 s", started(NOON - 40 * DAY), "What is known?"],
    ]
    assert re.search(rf": 3 runs · [\d.]+ kB in {three}$", result.stderr.strip())


def started(at):
    """Return a time as the listing shows it in the time zone of Kolkata."""
    form = "%d %b %H:%M" if time.gmtime().tm_year == time.gmtime(at).tm_year else "%d %b %Y"
    return time.strftime(form, time.gmtime(at + 5.5 * 3_600))


def test_runs_as_json(three):
    """The output has every field, with times in UTC."""
    told = json.loads(call("runs", "--json").stdout)
    assert (told["store"], [run["run_id"] for run in told["runs"]]) == (three, ["run_c", "run_b", "run_a"])
    assert told["size_bytes"] > 1_000
    assert told["runs"][1] == {
        "run_id": "run_b",
        "parent_id": None,
        "specialist": "reader",
        "model": "scripted",
        "question": "Why\n is it?",
        "status": "partial",
        "started_at": "2026-11-21T12:00:00.000Z",
        "ended_at": "2026-11-21T12:01:00.000Z",
        "tool_calls": 1,
        "cost_usd": 0.25,
        "project": os.path.realpath("."),
        "duration_s": 1.0,
        "forked_from": None,
        "forked_at": None,
    }
    assert told["runs"][0]["ended_at"] is None


def test_runs_are_filtered_by_id_specialist_status_and_number(three):
    """Runs are selected by id or prefix, `last`, specialist, status, and number."""
    assert listed("run_a", "run_b") == ["run_b", "run_a"]
    assert listed("run") == ["run_c", "run_b", "run_a"]
    assert listed("last") == ["run_c"]
    assert listed("--specialist", "looker") == ["run_c", "run_a"]
    assert listed("--status", "interrupted") == ["run_c"]
    assert listed("--limit", "2") == ["run_c", "run_b"]
    assert listed("--limit", "none", "--status", "partial") == ["run_b"]
    assert listed("run_a", "--specialist", "reader") == []


def test_runs_are_filtered_by_age(store):
    """The age counts from the end of a run, in minutes, hours, days or weeks."""
    now = time.time()
    keep(**{f"d{days}": run_of(f"d{days}", now - days * DAY) for days in (1, 3, 20)})
    assert listed("--older-than", "2d") == listed("--older-than", "48H") == ["d3", "d20"]
    assert listed("--older-than", "2 w") == ["d20"]
    assert listed("--older-than", "0m") == ["d1", "d3", "d20"]
    # The run began long enough ago, but ended a minute later.
    assert listed("--older-than", "1440m") == ["d3", "d20"]


def test_the_table_shows_twenty_runs_by_default(store):
    """A line on stderr reports the limit of 20 runs; JSON output has all runs."""
    keep(**{f"r{number}": run_of(f"r{number}", NOON + number, turns=0) for number in range(22)})
    result = call("runs")
    assert len(result.stdout.splitlines()) == 21
    assert "the newest 20 runs" in result.stderr
    assert len(call("runs", "--limit", "none").stdout.splitlines()) == 23
    for all_of_them in (call("runs", "--all"), call("runs", "--limit", "22")):
        assert len(all_of_them.stdout.splitlines()) == 23
        assert "newest" not in all_of_them.stderr
    assert len(listed()) == 22


def test_a_missing_store_lists_no_runs(store):
    """A missing store is reported on stderr and not created; a run in it is not found."""
    result = call("runs", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (
        0,
        {"runs": [], "store": store, "size_bytes": 0, "project": os.path.realpath(".")},
    )
    assert f"there is no store at {store} yet" in result.stderr
    elsewhere = f"{store}.other"
    assert json.loads(call("runs", "--json", "--store", elsewhere).stdout)["store"] == elsewhere
    result = call("runs", "--all", "--delete", "--json")
    assert (result.exit_code, json.loads(result.stdout)["deleted"]) == (0, [])
    result = call("runs")
    assert (result.exit_code, result.stdout) == (0, "")
    for command in ("transcript", "report"):
        result = call(command, "last")
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"there is no store at {store} yet" in result.stderr
    assert not os.path.lexists(store)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["runs", "nope"], "there is no run nope in {}; the newest is run_c"),
        (["transcript", "run_d"], "there is no run run_d in {}; the newest is run_c"),
        (["transcript", "run_"], "3 run ids start with run_: run_c, run_b, run_a; use more of the id"),
        (["report", "nope"], "there is no run nope in {}; the newest is run_c"),
        (["runs", "--delete"], "--delete needs a selection: RUN..., "),
        (["runs", "--delete", "--all"], "--yes is required without a terminal; nothing was deleted"),
        (["runs", "--delete", "nope", "--yes"], "there is no run nope in {}; the newest is run_c"),
        (["runs", "--store", "none"], "choose a store with --store"),
        (["runs", "--store", "mysql://x"], "mysql://x is not a valid store"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_impossible_request_is_refused_with_one_line(three, arguments, told):
    """An impossible request is refused with one line and exit code 2, and nothing is deleted."""
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told.format(three) in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert len(listed()) == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--older-than", "soon"], "'soon' is not an age; expected e.g. 12h, 30d or 8w"),
        (["--limit", "-1"], "'-1' is not a number of runs; expected a whole number or none"),
        (["--status", "done"], "'done' is not one of running, interrupted, answered"),
    ],
)
def test_an_invalid_flag_value_names_the_flag_and_accepted_values(three, arguments, told):
    """The error for an invalid value names the flag and the accepted values."""
    result = call("runs", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in " ".join(result.stderr.replace("│", " ").split())
    assert f"'{arguments[0]}'" in result.stderr


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_a_listing_fits_the_terminal_width(three, columns):
    """A narrow terminal shows some columns and the question below each run."""
    keep(
        **{
            "20261122-112233-abcdef": run_of(
                "20261122-112233-abcdef", NOON + 1, question="Why? " * 99, specialist="a-specialist-of-a-very-long-name"
            )
        }
    )
    shown, _ = on_terminal("runs", columns=columns)
    lines = ESCAPES.sub("", shown).splitlines()[:-1]
    assert max(map(len, lines)) <= columns
    together = [line for line in lines if line.startswith("20261122-112233-abcdef")]
    assert len(together) == 1
    assert ("Why?" in together[0]) == (columns == 200)
    assert any(line.startswith("  a-specialist-of-a-very-long-name,") for line in lines) == (columns < 120)
    assert any(line.startswith("  ") and "Why? Why?" in line for line in lines) == (columns < 200)
    assert started(NOON + 1) in " ".join(" ".join(lines).split())
