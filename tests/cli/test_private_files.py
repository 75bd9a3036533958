"""Reports are readable by their owner only, and are written completely or not at all."""

import asyncio
import os
import stat
from contextlib import closing

import pytest

from run_specialist.cli.console import write_private
from run_specialist.store.location import Location
from run_specialist.store.writer import Writer
from tests.cli.specialists_command import call
from tests.unit.store.records import begun, ended, turn_of, write


def mode(path):
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0, 0o022, 0o277])
def umask(request):
    """Set the umask of the process."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def url(tmp_path, monkeypatch):
    """Store a run, and change into the folder of its store."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/runs.db"
    with closing(Writer(Location(url, named=True))) as writer:
        assert asyncio.run(write(writer.journal("run-1"), *begun("run-1"), *turn_of(1), *ended("run-1"))) is None
    return url


def report(url, *more):
    """Write a report, and return the result of the command."""
    return call("report", "run-1", "--store", url, *more)


def test_a_report_is_readable_only_by_its_owner(url, tmp_path, umask):
    """A report may contain everything the run read; its mode is 0600 with any umask."""
    said = report(url)
    assert (said.exit_code, said.stdout) == (0, f"{tmp_path}/report-run-1.html\n")
    assert mode(tmp_path / "report-run-1.html") == 0o600


def test_a_report_that_replaces_another_is_private_too(url, tmp_path):
    """The new report has mode 0600; a process that has the old file open still reads the old content."""
    page = tmp_path / "page.html"
    page.write_text("old")
    page.chmod(0o644)
    assert "already exists" in report(url, "--out", str(page)).stderr
    assert (page.read_text(), mode(page)) == ("old", 0o644)
    with page.open() as reading:
        assert report(url, "--out", str(page), "--force").exit_code == 0
        assert reading.read() == "old"
    assert page.read_text().startswith("<!doctype html>")
    assert mode(page) == 0o600


def test_a_report_is_written_through_a_link(url, tmp_path):
    """The target of a symlink is written, and the symlink is kept."""
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    assert report(url, "--out", "link.html").exit_code == 2
    assert report(url, "--out", "link.html", "--force").exit_code == 0
    assert (tmp_path / "link.html").is_symlink()
    assert mode(tmp_path / "page.html") == 0o600


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    """A pipe or device is written to instead of being replaced by a file."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_private(tmp_path / "pipe", b"page", overwrite=True)
    assert os.read(reading, 9) == b"page"
    os.close(reading)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_an_unwritable_report_leaves_no_temporary_file(url, tmp_path, monkeypatch):
    """The error names the requested file; an existing file keeps its content and no temporary file is left."""
    said = report(url, "--out", str(tmp_path / "nowhere" / "page.html"))
    assert (said.exit_code, said.stderr.count("\n")) == (2, 1)
    assert f"No such file or directory: {tmp_path}/nowhere/page.html" in said.stderr
    page = tmp_path / "page.html"
    page.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("run_specialist.cli.console.Path.chmod", full)
    before = sorted(tmp_path.iterdir())
    said = report(url, "--out", str(page), "--force")
    assert f"No space left on device: {page}" in said.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert page.read_text() == "old"
