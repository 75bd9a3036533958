"""`specialists batches`, how `runs` and `report` treat the runs of batches, and `report --index` and `--open`."""

import json
import re
import shlex
import stat
import sys
import webbrowser
from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist.record.outcome import Evidence
from run_specialist.store.location import place
from tests.cli.history.conftest import DAY, NOON, here, keep, listed, on_terminal, run_of
from tests.cli.specialists_command import call
from tests.unit.store.finished_batches import EVERY_STATE, keep_batch

pytestmark = pytest.mark.exhaustive


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


def test_batches_are_listed_and_shown(batch):
    """A row or JSON with counts, cost and question; one with the reasons of failures; `runs` leaves out their runs."""
    head, row = (line.split() for line in call("batches").stdout.splitlines())
    assert head[:4] == ["BATCH", "SPECIALIST", "STATE", "ITEMS"]
    counts = "ANSWERED LANDED PARTIAL FAILED ABORTED DEAD INTERRUPTED NOT RUN COST STARTED QUESTION"
    assert " ".join(head[4:]) == counts
    assert row[:4] == ["b1f00d", "looker", "open", "9"]
    assert row[4:13] == ["1", "1", "1", "2", "1", "1", "1", "1", "$1.25"]
    assert " ".join(row).endswith("What does {path} say about leaks?")
    assert "1 batch in " in call("batches").stderr
    printed = json.loads(call("batches", "--json").stdout)
    assert [*printed] == ["batches", "store", "project"]
    (one,) = printed["batches"]
    assert (one["batch_id"], one["items"], one["runs"], one["cost_limit"]) == ("b1f00d", 9, 6, 5.0)
    assert one["counts"]["failed"] == 2
    assert (one["created_at"], one["started_at"]) == ("2026-11-22T12:00:00.000Z",) * 2
    assert "frozen" not in one
    shown = json.loads(call("batches", "b1", "--json").stdout)
    assert shown.keys() - one.keys() == {"failures"}
    example = "the model refused the request"
    assert shown["failures"][0] == {"reason": "invalid request", "count": 1, "numbers": [4], "example": example}
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
    result = call("runs")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["RUN", "alone"]
    assert "6 runs of batches are not listed; `specialists batches` lists the batches" in result.stderr
    assert "1 run of a batch is not listed" in call("runs", "--status", "answered").stderr
    assert "not listed" not in call("runs", "--specialist", "reader").stderr


def test_only_batches_of_the_project_are_listed(batch, tmp_path, monkeypatch):
    """Those of other projects are on request, with a column, and by name; none, or no store, is a line."""
    batch_here({"a": "not run"}, "b2", "/elsewhere")
    assert "b2" not in call("batches").stdout
    everything = call("batches", "--all-projects").stdout
    assert "PROJECT" in everything
    assert "/elsewhere" in everything
    assert call("batches", "b2").stdout.startswith("b2, looker, open")
    assert call("batches", "last").stdout.startswith("b1f00d, ")
    assert "no batches of " in call("batches", "--root", str(tmp_path)).stderr
    for command, told in ((("batches", "b9"), "there is no batch b9"), (("runs", "--batch", "b9"), "no batch b9")):
        missing = call(*command)
        assert (missing.exit_code, missing.stdout, missing.stderr.count("\n")) == (2, "", 1)
        assert told in missing.stderr
    refused = call("runs", "--batch", "b1", "--follow")
    assert (refused.exit_code, "--follow and --batch exclude each other" in refused.stderr) == (2, True)
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "none.db"))
    assert "there is no store" in call("batches").stderr
    assert json.loads(call("batches", "--json").stdout)["batches"] == []


@pytest.mark.parametrize(("limit", "rows"), [("1", 1), ("none", 2)])
def test_a_listing_of_batches_is_limited(batch, limit, rows):
    """`--limit` lists the newest batches, and the line below says that there are more."""
    batch_here({"a": "not run"}, "b2", created_at=NOON + 9)
    result = call("batches", "--limit", limit)
    assert result.stdout.splitlines()[1].startswith("b2")
    assert len(result.stdout.splitlines()) == rows + 1
    assert ("the newest 1 batch in" in result.stderr) is (limit == "1")


@pytest.mark.parametrize("columns", [40, 200])
def test_lines_fit_the_terminal(batch, columns):
    """On a terminal no line of the listing is longer than the terminal is wide."""
    text, code = on_terminal("batches", columns=columns, NO_COLOR="1")
    assert code == 0
    # A path is one word.
    assert max(len(line) for line in text.splitlines() if "/" not in line) <= columns
    assert "b1f00d" in text


def test_a_batch_is_deleted(batch):
    """With its items, their runs and the runs below them; other runs stay; `runs --delete --all` deletes both."""
    assert "--yes is required" in call("batches", "b1f00d", "--delete").stderr
    assert len(listed()) == 9
    assert "needs the id of a batch" in call("batches", "--delete", "--yes").stderr
    result = call("batches", "b1f00d", "--delete", "--yes")
    assert "b1f00d with 9 items and 6 runs deleted" in result.stderr
    assert listed() == ["alone"]
    assert "no batches" in call("batches").stderr
    batch_here({"a": "answered"}, "b2")
    call("runs", "--delete", "--all", "--yes")
    assert listed() == []


def test_the_page_of_a_batch_and_on_request_its_reports_are_written(batch, tmp_path):
    """By its id or a prefix; the page is private and replaced; `--with-reports` fills a folder that the page links."""
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


INDEX = Path("report-index.html")


@pytest.fixture
def browser(tmp_path, monkeypatch):
    """Set a browser that writes the address that it is given to a file, and return that file."""
    seen = tmp_path / "seen"
    program = tmp_path / "browser.py"
    program.write_text(f"import sys; open({str(seen)!r}, 'w').write(sys.argv[1])")
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # found once in a process
    monkeypatch.setenv("BROWSER", f"{shlex.join([sys.executable, str(program)])} %s")
    return seen


def index(*flags):
    """Write the index into the working directory."""
    return call("report", "--index", "--out", str(INDEX), *flags)


def with_evidence(run_id, *verified, **changed):
    """Return the records of a run with quotes; `verified` says of each whether it was found."""
    *rest, last, told = run_of(run_id, **changed)
    quotes = tuple(Evidence("a.md:1", "q", found) for found in verified)
    return [*rest, replace(last, outcome=replace(last.outcome, evidence=quotes, duration_s=75.0)), told]


def rows(page):
    """Return the texts of the cells of each row."""
    found = re.findall(r"<tr><td.*?</tr>", page, re.DOTALL)
    return [
        [" ".join(re.sub("<[^>]+>", " ", cell).split()) for cell in re.split(r"<t[dh][ >]", row)[1:]] for row in found
    ]


def test_the_index_lists_all_runs_newest_first(three):
    """Each run of the project is a row with its figures; the page is private, and replaced only with `--force`."""
    result = index()
    assert (result.exit_code, result.stdout) == (0, f"{INDEX}\n")
    assert stat.S_IMODE(INDEX.stat().st_mode) == 0o600
    page = INDEX.read_text()
    told = rows(page)
    assert [row[2].rpartition(" ")[2] for row in told] == ["run_c", "run_b", "run_a"]
    assert [row[3].rpartition(">")[2] for row in told] == ["interrupted", "partial", "answered"]
    assert "3 runs of 2 specialists, $0.75" in page
    assert f"of the project <code>{Path.cwd()}</code>" in page
    assert "href=" not in page.split("<main>")[1]
    keep(run_d=with_evidence("run_d", True, False, None, True, at=NOON + DAY, turns=2, model="sonnet"))
    keep(run_e=run_of("run_e", NOON, frozen={"system": "Look.", "project": "/elsewhere", "root": "/elsewhere"}))
    refused = index("--with-reports")
    assert (refused.exit_code, "already exists" in refused.stderr) == (2, True)
    assert not Path("report-run_a.html").exists()
    assert index("--force").exit_code == 0
    assert set(re.findall(r"run_[a-e]", INDEX.read_text())) == {"run_a", "run_b", "run_c", "run_d"}
    figures = ["2", "$0.50", "1 min 15 s", "2 of 4", "sonnet"]
    assert [cell.rpartition(">")[2].strip() for cell in rows(INDEX.read_text())[0][4:]] == figures
    row, *_ = json.loads(call("report", "--index", "--json").stdout)["runs"]
    assert (row["verified"], row["quotes"], row["seconds"], row["tool_calls"]) == (2, 4, 75.0, 2)
    index("--all-projects", "--force")
    assert {"run_e", "run_a"} <= set(re.findall(r"run_[a-e]", INDEX.read_text()))


def test_missing_reports_are_written_on_request(three):
    """`--with-reports` writes the reports that do not exist, and with `--force` all of them."""
    mine = Path("report-run_b.html")
    mine.write_text("my own file")
    result = index("--with-reports")
    assert "writing 2 reports" in result.stderr
    assert mine.read_text() == "my own file"
    assert "<!doctype html>" in Path("report-run_a.html").read_text()
    assert len(re.findall(r'<a href="report-', INDEX.read_text())) == 3
    assert "writing 3 reports" in index("--with-reports", "--force").stderr
    assert "<!doctype html>" in mine.read_text()


def test_ids_that_are_no_file_names_are_not_linked(store):
    """An id with a slash is neither looked up nor written as a file, and text of a run cannot become markup."""
    keep(**{"../up": run_of("../up", question="<img src=x> \u202e")})
    assert index("--with-reports").exit_code == 0
    page = INDEX.read_text()
    assert not list(Path("..").glob("*up.html"))
    assert "<img" not in page
    assert "&lt;img src=x&gt; ⟨U+202E⟩" in page


def test_a_run_that_cannot_be_read_is_passed_over(three, monkeypatch):
    """A run whose data is damaged has one line on stderr; the others get their reports."""
    from run_specialist.errors import StoreUnusable
    from run_specialist.store.reader import Store

    load = Store.load

    def broken(self, run_id):
        if run_id == "run_b":
            raise StoreUnusable("the data of run_b cannot be read")
        return load(self, run_id)

    monkeypatch.setattr(Store, "load", broken)
    result = index("--with-reports")
    assert (result.exit_code, result.stdout) == (0, f"{INDEX}\n")
    assert "no report of run_b: the data of run_b cannot be read" in result.stderr
    assert sorted(path.name for path in Path().glob("report-run_*")) == ["report-run_a.html", "report-run_c.html"]


def test_open_gives_the_browser_the_address_of_the_page(three, browser, tmp_path, monkeypatch):
    """The page is beside the store, its path printed, and its address opened; without a browser, that is named."""
    folder = tmp_path / "a b&c$(d)"
    folder.mkdir()
    (tmp_path / "runs.db").rename(folder / "runs.db")
    monkeypatch.setenv("SPECIALIST_STORE", str(folder / "runs.db"))
    for _ in range(2):
        result = call("report", "run_a", "--open")
        assert (result.exit_code, result.stdout, result.stderr) == (0, f"{folder / 'report-run_a.html'}\n", "")
        assert browser.read_text() == (folder / "report-run_a.html").as_uri()
        assert " " not in browser.read_text()
        browser.unlink()
    assert call("report", "--index", "--open").stdout == f"{folder / INDEX}\n"
    assert browser.read_text() == (folder / INDEX).as_uri()
    assert 'href="report-run_a.html"' in (folder / INDEX).read_text()
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setenv("BROWSER", "/nowhere/browser %s")
    monkeypatch.setenv("PATH", "/nowhere")
    result = call("report", "run_a", "--open")
    assert (result.exit_code, result.stdout) == (0, f"{folder / 'report-run_a.html'}\n")
    assert result.stderr.count("\n") == 1
    assert f"no browser could be started; open {(folder / 'report-run_a.html').as_uri()}" in result.stderr
