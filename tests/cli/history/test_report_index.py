"""`specialists report --index` and `--open`: a page over all runs, and pages in the browser."""

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
from tests.cli.history.commands import DAY, NOON, keep, run_of
from tests.cli.specialists_command import call

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
    """Each run is a row; the page is private, and its path is printed."""
    result = index()
    assert (result.exit_code, result.stdout) == (0, f"{INDEX}\n")
    assert stat.S_IMODE(INDEX.stat().st_mode) == 0o600
    page = INDEX.read_text()
    told = rows(page)
    assert [row[2].rpartition(" ")[2] for row in told] == ["run_c", "run_b", "run_a"]
    assert [row[3].rpartition(">")[2] for row in told] == ["interrupted", "partial", "answered"]
    assert "3 runs of 2 specialists, $0.75" in page
    assert "href=" not in page.split("<main>")[1]


def test_a_row_has_calls_cost_time_and_verified_quotes(store):
    """The figures are those of the outcome; a quote that was not found is not counted as verified."""
    keep(run_a=with_evidence("run_a", True, False, None, True, turns=2, model="sonnet"))
    (row,) = json.loads(call("report", "--index", "--json").stdout)["runs"]
    assert (row["verified"], row["quotes"], row["seconds"], row["tool_calls"]) == (2, 4, 75.0, 2)
    index()
    assert [cell.rpartition(">")[2].strip() for cell in rows(INDEX.read_text())[0][4:]] == [
        "2",
        "$0.50",
        "1 min 15 s",
        "2 of 4",
        "sonnet",
    ]


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


def test_other_files_are_kept(three):
    """A file that exists needs `--force`; without it, no report is written either."""
    assert index().exit_code == 0
    keep(run_d=run_of("run_d", NOON + DAY))
    refused = index("--with-reports")
    assert (refused.exit_code, "already exists" in refused.stderr) == (2, True)
    assert not Path("report-run_a.html").exists()
    assert index("--force").exit_code == 0
    assert "run_d" in INDEX.read_text()


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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "RUN is missing; use an id, `last`, or --index"),
        (("run_a", "--index"), "--index lists all runs"),
        (("run_a", "--with-reports"), "--with-reports needs --index"),
        (("run_a", "--open", "--json"), "--open needs a file; it cannot be combined with --json"),
        (("run_a", "--open", "--out", "-"), "--open needs a file; it cannot be combined with --out -"),
        (("--index", "--with-reports", "--out", "-"), "--with-reports needs a file"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(three, flags, said):
    """A wrong combination is one line and exit code 2, and nothing is written."""
    result = call("report", *flags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert not list(Path().iterdir())


def test_open_gives_the_browser_the_address_of_the_page(three, browser, tmp_path, monkeypatch):
    """The page is written beside the store, its path printed, and its encoded address opened."""
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


def test_open_without_a_browser_prints_the_address(three, tmp_path, monkeypatch):
    """If no browser can be started, one line names the address; the page is written, and the exit code is 0."""
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setenv("BROWSER", "/nowhere/browser %s")
    monkeypatch.setenv("PATH", "/nowhere")
    result = call("report", "run_a", "--open")
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / 'report-run_a.html'}\n")
    assert result.stderr.count("\n") == 1
    assert f"no browser could be started; open {(tmp_path / 'report-run_a.html').as_uri()}" in result.stderr


def test_the_index_lists_the_runs_of_this_project(three):
    """Runs of other projects are listed with `--all-projects` only; the page names the project."""
    keep(run_e=run_of("run_e", NOON, frozen={"system": "Look.", "project": "/elsewhere", "root": "/elsewhere"}))
    index()
    assert "run_e" not in INDEX.read_text()
    assert f"of the project <code>{Path.cwd()}</code>" in INDEX.read_text()
    index("--all-projects", "--force")
    assert {"run_e", "run_a"} <= set(re.findall(r"run_[a-e]", INDEX.read_text()))
