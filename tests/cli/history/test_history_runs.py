"""The command `specialists runs`: list, delete and search stored runs, with parents and children, by project."""

import json
import os
import re
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist.record.journal import Ended
from run_specialist.store.location import place
from run_specialist.store.writer import Writer
from tests.cli.history.conftest import DAY, NOON, here, keep, listed, on_terminal, run_of
from tests.cli.specialists_command import call
from tests.unit.store.finished_runs import write
from tests.unit.store.records import begun, opened

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def test_runs_are_listed_newest_first(three):
    """Each run is a row; count and store are on stderr; id, prefix, `last`, specialist, status and number select."""
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
    assert listed("run_a", "run_b") == ["run_b", "run_a"]
    assert listed("run") == ["run_c", "run_b", "run_a"]
    assert listed("last") == ["run_c"]
    assert listed("--specialist", "looker") == ["run_c", "run_a"]
    assert listed("--status", "interrupted") == ["run_c"]
    assert listed("--limit", "2") == ["run_c", "run_b"]
    assert listed("--limit", "none", "--status", "partial") == ["run_b"]
    assert listed("run_a", "--specialist", "reader") == []


def started(at):
    """Return a time as the listing shows it in the time zone of Kolkata."""
    form = "%d %b %H:%M" if time.gmtime().tm_year == time.gmtime(at).tm_year else "%d %b %Y"
    return time.strftime(form, time.gmtime(at + 5.5 * 3_600))


def test_runs_are_filtered_by_age_and_never_by_no_words(store):
    """The age counts from the end of a run; empty words are refused instead of matching everything."""
    now = time.time()
    keep(**{f"d{days}": run_of(f"d{days}", now - days * DAY) for days in (1, 3, 20)})
    assert listed("--older-than", "2d") == listed("--older-than", "48H") == ["d3", "d20"]
    assert listed("--older-than", "2 w") == ["d20"]
    assert listed("--older-than", "0m") == ["d1", "d3", "d20"]
    # The run began long enough ago, but ended a minute later.
    assert listed("--older-than", "1440m") == ["d3", "d20"]
    keep(a=run_of("a"))
    refused = call("runs", "--search", "  ")
    assert (refused.exit_code, "no words to search for" in refused.stderr) == (2, True)
    assert "no matching runs of" in call("runs", "--search", "zebra").stderr
    selected = call("runs", "--delete", "--search", "zebra", "--yes")
    assert (selected.exit_code, "0 runs deleted" in selected.stderr) == (0, True)


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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
        (["transcript", "run_"], "3 run ids start with run_: run_c, run_b, run_a; use more of the id"),
        (["report", "nope"], "there is no run nope in {}; the newest is run_c"),
        (["runs", "--delete"], "--delete needs a selection: RUN..., "),
        (["runs", "--delete", "--all"], "--yes is required without a terminal; nothing was deleted"),
        (["runs", "--delete", "run", "--yes"], "3 run ids start with run: "),
        (["runs", "--store", "none"], "choose a store with --store"),
        (["runs", "--older-than", "soon"], "'--older-than': 'soon' is not an age; expected e.g. 12h, 30d or 8w"),
        (["runs", "--limit", "-1"], "'--limit': '-1' is not a number of runs; expected a whole number or none"),
        (["runs", "--status", "done"], "'--status': 'done' is not one of running, interrupted, answered"),
        (["runs", "--follow", "--delete", "--all"], "--follow and --delete exclude each other"),
        (["runs", "--follow", "last"], "--follow needs the id"),
        (["runs", "--delete", "--yes", ""], "the run id is empty"),
        *(([command, "  "], "the run id is empty") for command in ("resume", "transcript", "report")),
        (["report"], "RUN is missing; use an id, `last`, or --index"),
        (["report", "run_a", "--index"], "--index lists all runs"),
        (["report", "run_a", "--with-reports"], "--with-reports needs --index"),
        (["report", "run_a", "--open", "--json"], "--open needs a file; it cannot be combined with --json"),
        (["report", "run_a", "--open", "--out", "-"], "--open needs a file; it cannot be combined with --out -"),
        (["report", "--index", "--with-reports", "--out", "-"], "--with-reports needs a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_impossible_request_is_refused_with_one_line(three, arguments, told):
    """It is refused with one line and exit code 2, and nothing is deleted or written.

    An empty id would match every run: an unset variable in a shell script must not delete all.
    """
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told.format(three) in " ".join(result.stderr.replace("│", " ").split())
    assert "Usage: " in result.stderr or len(result.stderr.splitlines()) == 1
    assert (len(listed()), list(Path().iterdir())) == (3, [])


@pytest.mark.exhaustive
@pytest.mark.parametrize("columns", [40, 120, 200])
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


def test_delete_removes_the_selected_runs(three):
    """`--json` prints the deleted runs, which are no longer listed."""
    told = json.loads(call("runs", "--specialist", "looker", "--delete", "--yes", "--json").stdout)
    assert (told["deleted"], [run["run_id"] for run in told["runs"]]) == (["run_c", "run_a"], ["run_c", "run_a"])
    assert listed() == ["run_b"]
    result = call("runs", "last", "--delete", "-y")
    assert result.stdout.splitlines()[1].startswith("run_b  reader")
    assert "1 run deleted" in result.stderr
    assert listed() == []
    result = call("runs", "--all", "--delete", "-y")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "0 runs deleted" in result.stderr


@pytest.mark.exhaustive
def test_delete_asks_for_confirmation_on_a_terminal(three):
    """Any answer other than yes deletes nothing."""
    for typed in ("n\n", "\n"):
        shown, code = on_terminal("runs", "--delete", "run_a", typed=typed)
        assert (code, "Delete 1 run permanently? [y/N]" in shown, "nothing was deleted" in shown) == (0, True, True)
    assert len(listed()) == 3
    shown, code = on_terminal("runs", "--delete", "run_a", typed="y\n")
    assert (code, "1 run deleted" in shown) == (0, True)
    assert listed() == ["run_c", "run_b"]


def test_delete_keeps_running_runs(three):
    """A running run is skipped in a selection; given by its id, it is refused and nothing is deleted."""
    with closing(Writer(place(None))) as writer:
        _, *rest = begun("alive")
        write(writer, alive=[opened("alive", frozen=here()), *rest])
        refused = call("runs", "--delete", "-y", "run_a", "alive")
        assert refused.exit_code == 2
        assert "alive is still running" in refused.stderr
        assert len(listed()) == 4
        result = call("runs", "--delete", "-y", "--all")
        assert "1 run still running: not deleted" in result.stderr
        assert listed() == ["alive"]


LONG = "Where do owls nest? " * 200


def answered(run_id, question, answer, at, **frozen):
    """Return the records of a run with an answer."""
    records = run_of(run_id, at, question=question, frozen={**here(), **frozen})
    return [
        replace(one, outcome=replace(one.outcome, answer=answer)) if isinstance(one, Ended) else one for one in records
    ]


@pytest.fixture
def found(store, store_url):
    """Store runs, and return a function that searches them."""
    with closing(Writer(place(store_url))) as writer:
        write(
            writer,
            a=answered("a", "Why do OWLS hunt?", "At night, 100 % of Straße mice.", 1.0),
            b=answered("b", "Who eats mice_and_rats?", "Die Bären \\ und \0 \udcff Füchse.", 2.0),
            c=answered("c", LONG + "Under the roof?", "Nowhere. " * 400 + "Finally", 3.0),
            d=answered("d", "First?", "No.", 4.0, questions=["And the BADGERS?"]),
        )

    def search(words, *flags):
        told = json.loads(call("runs", "--search", words, "--json", "--store", store_url, *flags).stdout)
        return [run["run_id"] for run in told["runs"]]

    return search


def test_all_words_are_found_in_questions_and_answers(found):
    """Each word is in question or answer, in any case or order, also far behind; no character is special."""
    assert found("owls") == ["c", "a"]
    assert found("MICE hunt night") == ["a"]
    assert found("roof finally") == ["c"]
    assert found("badgers no") == ["d"]
    assert found("owls badgers") == []
    assert found("owls", "--limit", "1") == ["c"]
    assert found("owls", "--status", "failed") == []
    assert found("%") == ["a"]
    assert found("o%ls") == []
    assert found("mice_") == found("_") == found("\\") == found("\0") == found("\udcff") == ["b"]
    assert found("'") == found('"; drop') == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("columns", [80, 200])
def test_matches_are_highlighted_on_a_terminal(store, columns):
    """The matches are highlighted in the question, in a column or below; nothing is with NO_COLOR."""
    keep(a=run_of("a", question="Why do owls hunt?"))
    shown, _ = on_terminal("runs", "--search", "OWLS why", columns=columns)
    assert shown.count("\x1b[1;33m") + shown.count("\x1b[33m\x1b[1m") == 2
    assert "\x1b" not in on_terminal("runs", "--search", "owls", columns=columns, NO_COLOR="1")[0].split("owls")[0]


@pytest.fixture
def tree(store):
    """Store a run with two children, one of which has a child, and a newer run without any."""
    keep(
        top=run_of("top", NOON),
        first=run_of("first", NOON + 1, parent_id="top", specialist="owls", question="Why?"),
        deep=run_of("deep", NOON + 2, parent_id="first", specialist="mice", question="Who?"),
        second=run_of("second", NOON + 3, parent_id="top", specialist="owls", question="When?"),
        alone=run_of("alone", NOON + 9),
    )
    return store


def ids(*arguments):
    """Return the first column of a listing, with its indentation."""
    return [line.split("  owls")[0].split("  mice")[0].split("  looker")[0].rstrip() for line in listing(*arguments)]


def listing(*arguments):
    """Return the lines of a listing without the header."""
    return call("runs", *arguments).stdout.splitlines()[1:]


def test_child_runs_are_indented_below_their_parent(tree):
    """The newest run comes first, children below their parent; one listed alone and a transcript name the parent."""
    assert ids() == ["alone", "top", "  first", "    deep", "  second"]
    assert "(of " not in call("runs").stdout
    assert ids("--specialist", "owls") == ["second", "first"]
    assert [line.split("  ")[-1] for line in listing("--specialist", "owls")] == ["(of top) When?", "(of top) Why?"]
    assert ids("top", "deep") == ["deep", "top"]
    assert call("transcript", "first").stdout.splitlines()[1:3] == ["asked by top", "asked deep  looker  answered"]
    told = json.loads(call("transcript", "top", "--json").stdout)
    assert (told["parent_id"], [one["run_id"] for one in told["children"]]) == (None, ["first", "second"])
    assert told["children"][0] == {"run_id": "first", "specialist": "looker", "status": "answered"}
    assert "asked" not in call("transcript", "alone").stdout


@pytest.fixture
def two(store, tmp_path, monkeypatch):
    """Store runs of this project and newer ones of another; one of this has a child, and one no known project."""
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    (other / "docs").mkdir()
    keep(
        mine=run_of("mine", NOON),
        child=run_of("child", NOON + 1, parent_id="mine", specialist="owls"),
        theirs=run_of("theirs", NOON + 2, project=str(other)),
        unknown=run_of("unknown", NOON + 3, frozen={"system": "Look.", "root": "/gone"}),
    )
    return other


def test_a_listing_is_that_of_the_project(two, monkeypatch):
    """The project is that of the folder or of `--root`; `last` is its newest run without a parent; an id is any run."""
    assert listed() == ["child", "mine"]
    assert listed("--all-projects") == ["unknown", "theirs", "child", "mine"]
    assert listed("--root", str(two / "docs")) == ["theirs"]
    assert listed("theirs", "mi") == ["theirs", "mine"]
    assert listed("last") == ["mine"]
    for command in ("transcript", "report"):
        for flags, newest in (((), "mine"), (("--root", str(two)), "theirs"), (("--all-projects",), "unknown")):
            assert json.loads(call(command, "last", "--json", *flags).stdout)["run_id"] == newest
    assert call("transcript", "th").stdout.startswith("theirs  looker")
    assert "report-theirs.html" in call("report", "theirs").stdout
    monkeypatch.chdir(two / "docs")
    assert listed() == ["theirs"]
    refused = call("runs", "--root", "nowhere")
    assert (refused.exit_code, "--root: nowhere is not a folder" in refused.stderr) == (2, True)


@pytest.mark.exhaustive
def test_an_empty_listing_is_one_line_that_counts_other_projects(two, tmp_path, monkeypatch):
    """Without runs here, one line says how many other projects have; so does the error for `last`."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    result = call("runs")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.count("\n") == 1
    assert f"no runs of {empty}; other projects have 4 runs, listed by --all-projects" in result.stderr
    for command in ("transcript", "report", "resume"):
        refused = call(command, "last")
        assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert f"contains no runs of {empty} yet; other projects have 4 runs" in refused.stderr
    monkeypatch.chdir(two)
    assert "no matching runs of " in call("runs", "--status", "failed").stderr


def test_a_deletion_is_limited_to_the_project(two):
    """`--delete --all` deletes the runs of the project with their children; others need an id or `--all-projects`."""
    told = json.loads(call("runs", "--delete", "--specialist", "looker", "--yes", "--json").stdout)
    assert told["deleted"] == ["child", "mine"]
    assert "0 runs deleted" in call("runs", "--delete", "--all", "--yes").stderr
    assert listed("--all-projects") == ["unknown", "theirs"]
    assert json.loads(call("runs", "--delete", "theirs", "--yes", "--json").stdout)["deleted"] == ["theirs"]
    assert "1 run deleted" in call("runs", "--delete", "--all", "--all-projects", "--yes").stderr
    assert listed("--all-projects") == []


@pytest.mark.exhaustive
def test_children_follow_their_parent_under_a_limit(two):
    """`--limit` counts only runs without a listed parent; the children of each follow it."""
    keep(older=run_of("older", NOON - 1), grandchild=run_of("grandchild", NOON + 5, parent_id="child"))
    lines = call("runs", "--limit", "1").stdout.splitlines()[1:]
    assert [re.split("(?<=\\S)  ", line)[0] for line in lines] == [
        "mine", "  child", "    grandchild",
    ]  # fmt: skip
    assert listed("--limit", "1") == ["grandchild", "child", "mine"]
    assert listed("--limit", "2") == ["grandchild", "child", "mine", "older"]
    assert "the newest 3 runs" in call("runs", "--limit", "1").stderr
    assert "newest" not in call("runs", "--limit", "2").stderr
