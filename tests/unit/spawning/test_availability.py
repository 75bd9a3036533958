"""What cannot work in a folder, and which specialists are named instead."""

from pathlib import Path

import pytest

from run_specialist.spawning.availability import obstacles, sentences
from run_specialist.specialist.loader import load_text
from tests.slow_folders import EndlessWalk


def named(name: str, *lines: str, description: str = "Finds."):
    """Return a file with a name and lines of front matter."""
    head = ["---", f"name: {name}", f"description: {description}", *lines, "---"]
    return load_text("\n".join([*head, "You find.", ""]), Path(f"specialists/{name}.md"))


def no_obstacle(_: object) -> str:
    """Return that no model prevents a run."""
    return ""


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        ("notes/", "matches notes/"),
        ("[]", "matches an empty list"),
        ("notes/, plans/", "matches notes/, plans/"),
        ("top.md", ""),
        ("'*.md'", ""),
        (".", ""),
    ],
)
def test_paths_without_a_file_are_an_obstacle(tmp_path, paths, why):
    """Without any file that matches, the reason names folder and paths; one file suffices."""
    (tmp_path / "top.md").write_text("Here.\n")
    file = named("reader", f"paths: {paths}")
    reasons = obstacles([file], tmp_path, no_obstacle)
    assert reasons == ({file.path: f"no file under {tmp_path} {why}"} if why else {})


def test_a_folder_that_cannot_be_read_is_an_obstacle(tmp_path):
    """A root that does not exist is reported; specialists without `paths` do not look at it."""
    reader, any_ = named("reader", "paths: ['*.md']"), named("finder")
    reasons = obstacles([reader, any_], tmp_path / "gone", no_obstacle)
    assert [*reasons] == [reader.path]


def test_a_search_that_takes_long_counts_as_success(tmp_path, monkeypatch):
    """In a folder without end the search is given up after its time, for all files together."""
    walk = EndlessWalk(monkeypatch)
    try:
        files = [named(f"reader{number}", "paths: ['*.md']") for number in range(20)]
        assert obstacles(files, tmp_path, no_obstacle, seconds=0.05) == {}
        assert walk.entered.is_set()
        assert walk.ended.wait(60)
    finally:
        walk.stop()


def test_the_same_reason_is_said_once():
    """Specialists with the same reason share a line; control characters of names are escaped."""
    files = [named(name) for name in ("a", "b", "c")]
    reasons = {files[0].path: "no file", files[1].path: "no\x1b[2J model", files[2].path: "no file"}
    assert sentences(files, reasons) == ["a, c cannot work here: no file", r"b cannot work here: no\x1b[2J model"]
