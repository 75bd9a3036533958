"""The commands for stored runs mean the runs of this project, unless they get an id or `--all-projects`."""

import json
import re

import pytest

from tests.cli.history.commands import NOON, keep, listed, run_of
from tests.cli.specialists_command import call


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
    """Only runs of the project of the current folder or of `--root` are listed; all with `--all-projects`."""
    assert listed() == ["child", "mine"]
    assert listed("--all-projects") == ["unknown", "theirs", "child", "mine"]
    assert listed("--root", str(two / "docs")) == ["theirs"]
    monkeypatch.chdir(two / "docs")
    assert listed() == ["theirs"]
    refused = call("runs", "--root", "nowhere")
    assert (refused.exit_code, "--root: nowhere is not a folder" in refused.stderr) == (2, True)


def test_an_id_works_from_any_project(two):
    """A run is listed, shown and reported by its id or a prefix from another project."""
    assert listed("theirs", "mi") == ["theirs", "mine"]
    assert call("transcript", "th").stdout.startswith("theirs  looker")
    assert "report-theirs.html" in call("report", "theirs").stdout


@pytest.mark.parametrize("command", ["transcript", "report"])
def test_last_is_the_newest_run_of_the_project(two, command):
    """`last` is the newest run of the project that has no parent, or of all projects."""

    def run_of_last(*flags):
        return json.loads(call(command, "last", "--json", *flags).stdout)["run_id"]

    assert run_of_last() == "mine"
    assert run_of_last("--root", str(two)) == "theirs"
    assert run_of_last("--all-projects") == "unknown"
    assert listed("last") == ["mine"]


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
