"""`specialists batches`, and how `specialists runs` and `report` treat the runs of batches."""

import json
import stat
from pathlib import Path

import pytest

from run_specialist.store.location import place
from tests.cli.history.commands import NOON, here, keep, listed, on_terminal, run_of
from tests.cli.specialists_command import call
from tests.unit.store.finished_batches import EVERY_STATE, keep_batch


@pytest.fixture
def batch(store):
    """Store a batch of this project with an item in every state, a child of one of them, and an ordinary run."""
    made = batch_here(EVERY_STATE, "b1f00d", cost_limit=5.0)
    keep(child=run_of("child", NOON, parent_id="b1f00d-a"), grandchild=run_of("grandchild", NOON, parent_id="child"))
    keep(alone=run_of("alone", NOON))
    return made


def batch_here(states, batch_id, project=None, **values):
    """Store a batch of this project, or of another one."""
    frozen = here() | ({"project": project} if project else {})
    location = place(None)
    project = frozen["project"]
    return keep_batch(location.url, states, batch_id, location, frozen, project=project, **values)


def test_batches_are_listed(batch):
    """Each batch is a row with its counts by status, its cost, its start and its question."""
    head, row = (line.split() for line in call("batches").stdout.splitlines())
    assert head[:4] == ["BATCH", "SPECIALIST", "STATE", "ITEMS"]
    counts = "ANSWERED LANDED PARTIAL FAILED ABORTED DEAD INTERRUPTED NOT RUN COST STARTED QUESTION"
    assert " ".join(head[4:]) == counts
    assert row[:4] == ["b1f00d", "looker", "open", "9"]
    assert row[4:13] == ["1", "1", "1", "2", "1", "1", "1", "1", "$1.25"]
    assert " ".join(row).endswith("What does {path} say about leaks?")
    assert "1 batch in " in call("batches").stderr


def test_batches_are_printed_as_json(batch):
    """`--json` prints the batches with their counts, without the content of their files."""
    printed = json.loads(call("batches", "--json").stdout)
    assert [*printed] == ["batches", "store", "project"]
    (one,) = printed["batches"]
    assert (one["batch_id"], one["items"], one["runs"], one["cost_limit"]) == ("b1f00d", 9, 6, 5.0)
    assert one["counts"]["failed"] == 2
    assert (one["created_at"], one["started_at"]) == ("2026-11-22T12:00:00.000Z",) * 2
    assert "frozen" not in one
    shown = json.loads(call("batches", "b1", "--json").stdout)
    assert shown.keys() - one.keys() == {"failures"}
    assert shown["failures"][0] == {
        "reason": "invalid request",
        "count": 1,
        "numbers": [4],
        "example": "the model refused the request",
    }


def test_only_batches_of_the_project_are_listed(batch, tmp_path):
    """Batches of other projects are listed on request, with a column; one that is named may be of any project."""
    batch_here({"a": "not run"}, "b2", "/elsewhere")
    assert "b2" not in call("batches").stdout
    everything = call("batches", "--all-projects").stdout
    assert "PROJECT" in everything
    assert "/elsewhere" in everything
    assert call("batches", "b2").stdout.startswith("b2, looker, open")
    assert call("batches", "last").stdout.startswith("b1f00d, ")
    assert "no batches of " in call("batches", "--root", str(tmp_path)).stderr


@pytest.mark.parametrize(("limit", "rows"), [("1", 1), ("none", 2)])
def test_a_listing_of_batches_is_limited(batch, limit, rows):
    """`--limit` lists the newest batches, and the line below says that there are more."""
    batch_here({"a": "not run"}, "b2", created_at=NOON + 9)
    result = call("batches", "--limit", limit)
    assert result.stdout.splitlines()[1].startswith("b2")
    assert len(result.stdout.splitlines()) == rows + 1
    assert ("the newest 1 batch in" in result.stderr) is (limit == "1")


def test_a_batch_is_shown(batch):
    """A batch is shown with its counts, cost, time, the reasons of failures, and the first failed items."""
    lines = call("batches", "b1f").stdout.splitlines()
    text = "\n".join(lines)
    assert lines[0] == "b1f00d, looker, open, 2026-11-22 17:30"
    assert "items     9: 1 answered, 1 landed, 1 partial, 2 failed, 1 aborted, 1 dead, 1 interrupted, 1 not run" in text
    assert "cost      $1.25, limit $5.00" in text
    assert "time      1m 04s; all runs together 5m 00s" in text
    assert "  1  invalid request, e.g. the model refused the request" in text
    assert "  1  {path} is not a column" in text
    failed = [line.split()[:3] for line in lines if line.startswith("b1f00d-")]
    assert failed == [
        ["b1f00d-f", "4", "failed"],
        ["b1f00d-x", "5", "aborted"],
        ["b1f00d-e", "8", "failed"],
        ["b1f00d-d", "9", "dead"],
    ]


@pytest.mark.parametrize("columns", [40, 200])
def test_lines_fit_the_terminal(batch, columns):
    """On a terminal no line of the listing is longer than the terminal is wide."""
    text, code = on_terminal("batches", columns=columns, NO_COLOR="1")
    assert code == 0
    # A path is one word.
    assert max(len(line) for line in text.splitlines() if "/" not in line) <= columns
    assert "b1f00d" in text


def test_without_batches_a_line_says_so(store):
    """Without a store, or without batches, there is one line and no error; a named batch is not found."""
    assert "there is no store" in call("batches").stderr
    assert json.loads(call("batches", "--json").stdout)["batches"] == []
    keep(alone=run_of("alone", NOON))
    assert "no batches of " in call("batches").stderr
    missing = call("batches", "b9")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "there is no batch b9" in missing.stderr
    assert len(missing.stderr.splitlines()) == 1


def test_runs_of_batches_are_left_out(batch):
    """`runs` leaves out the runs of batches with all runs below them, and says how many there are."""
    result = call("runs")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["RUN", "alone"]
    assert "6 runs of batches are not listed; `specialists batches` lists the batches" in result.stderr
    assert "1 run of a batch is not listed" in call("runs", "--status", "answered").stderr
    assert "not listed" not in call("runs", "--specialist", "reader").stderr


def test_a_batch_that_does_not_exist_has_no_runs(batch):
    """An unknown batch is an error, and `--batch` excludes `--follow`."""
    assert "there is no batch b9" in call("runs", "--batch", "b9").stderr
    refused = call("runs", "--batch", "b1", "--follow")
    assert (refused.exit_code, "--follow and --batch exclude each other" in refused.stderr) == (2, True)


def test_a_batch_is_deleted(batch):
    """A batch is deleted with its items, their runs and the runs below them; other runs stay."""
    assert "--yes is required" in call("batches", "b1f00d", "--delete").stderr
    assert len(listed()) == 9
    assert "needs the id of a batch" in call("batches", "--delete", "--yes").stderr
    result = call("batches", "b1f00d", "--delete", "--yes")
    assert "b1f00d with 9 items and 6 runs deleted" in result.stderr
    assert listed() == ["alone"]
    assert "no batches" in call("batches").stderr


def test_deleting_all_runs_deletes_those_of_batches(batch):
    """`runs --delete --all` also deletes the runs that a listing leaves out."""
    call("runs", "--delete", "--all", "--yes")
    assert listed() == []


def test_the_page_of_a_batch_is_written(batch):
    """`report` takes the id of a batch, or a prefix of it; the page is private, and replaced the next time."""
    result = call("report", "b1f00d")
    path = Path(result.stdout.strip())
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == ("report-b1f00d.html", 0o600)
    page = path.read_text(encoding="utf-8")
    assert 'href="report-' not in page
    assert "a.md says that it leaks." in page
    assert call("report", "b1f0").stdout == result.stdout
    assert call("report", "b1f00d", "--out", "-").stdout.count("<tr id=") == 9
    named = call("report", "b1f00d", "--out", str(path))
    assert (named.exit_code, "already exists" in named.stderr) == (2, True)


def test_the_data_of_the_page_is_printed(batch):
    """`report --json` prints the batch with all items."""
    printed = json.loads(call("report", "b1f00d", "--json").stdout)
    assert [item["status"] for item in printed["items"]] == [
        "answered", "landed", "partial", "failed", "aborted", "interrupted", "not run", "failed", "dead",
    ]  # fmt: skip
    assert printed["items"][0]["verified"] == 1


def test_the_reports_of_the_runs_are_written_on_request(batch, tmp_path):
    """`--with-reports` writes the reports of the items' runs into a folder beside the page, which links them."""
    page = tmp_path / "out" / "page.html"
    page.parent.mkdir()
    keep(**{"b1f00d-n": run_of("b1f00d-n", NOON)})
    result = call("report", "b1f00d", "--out", str(page), "--with-reports")
    assert "writing 7 reports" in result.stderr
    assert "no report of" not in result.stderr
    folder = page.parent / "report-b1f00d"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(file.name for file in folder.iterdir()) == [f"report-b1f00d-{name}.html" for name in "afilnpx"]
    text = page.read_text(encoding="utf-8")
    assert text.count('href="report-b1f00d/report-b1f00d-') == 7
    assert 'href="report-b1f00d/report-b1f00d-a.html"' in text
