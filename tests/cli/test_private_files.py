"""What the commands write is for its user alone, whole or not at all."""

import asyncio
import os
import stat
from contextlib import closing

import pytest
from typer.testing import CliRunner

from run_specialist.cli import manage
from run_specialist.cli.private_file import write_private
from run_specialist.store.location import Location
from run_specialist.store.writer import Writer
from tests.unit.store.records import begun, ended, turn_of, write


def mode(path):
    """Return the rights of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0, 0o022, 0o277])
def umask(request):
    """Set what a process takes away from the rights of its files."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def url(tmp_path, monkeypatch):
    """Keep a run, and enter its folder."""
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/runs.db"
    with closing(Writer(Location(url, named=True))) as writer:
        assert asyncio.run(write(writer.journal("run-1"), *begun("run-1"), *turn_of(1), *ended("run-1"))) is None
    return url


def report(url, *more):
    """Write a report, and return what came of the command."""
    return CliRunner().invoke(manage.app, ["report", "run-1", "--store", url, *more], catch_exceptions=False)


def test_a_report_is_for_its_user_alone(url, tmp_path, umask):
    """All that the run read may stand in it; the umask neither widens that nor makes it unreadable."""
    said = report(url)
    assert (said.exit_code, said.stdout) == (0, "report-run-1.html\n")
    assert mode(tmp_path / "report-run-1.html") == 0o600


def test_a_report_that_replaces_another_is_private_too(url, tmp_path):
    """Whoever had the old one open reads on in the old one."""
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
    """The link stays."""
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    assert report(url, "--out", "link.html").exit_code == 2
    assert report(url, "--out", "link.html", "--force").exit_code == 0
    assert (tmp_path / "link.html").is_symlink()
    assert mode(tmp_path / "page.html") == 0o600


def test_what_is_no_file_is_written_into(tmp_path):
    """A device must not be replaced by a page."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_private(tmp_path / "pipe", b"page", overwrite=True)
    assert os.read(reading, 9) == b"page"
    os.close(reading)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_report_that_cannot_be_written_leaves_nothing_behind(url, tmp_path, monkeypatch):
    """The line names the file that was asked for; one that was there stays whole."""
    said = report(url, "--out", str(tmp_path / "nowhere" / "page.html"))
    assert (said.exit_code, said.stderr.count("\n")) == (2, 1)
    assert f"No such file or directory: {tmp_path}/nowhere/page.html" in said.stderr
    page = tmp_path / "page.html"
    page.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("run_specialist.cli.private_file.Path.chmod", full)
    before = sorted(tmp_path.iterdir())
    said = report(url, "--out", str(page), "--force")
    assert f"No space left on device: {page}" in said.stderr
    assert sorted(tmp_path.iterdir()) == before
    assert page.read_text() == "old"
