"""The tools `edit` and `write`: what must have been read, what they report, and dry runs."""

import asyncio

import pytest

from run_specialist.errors import ToolError
from run_specialist.safety import safe_files
from run_specialist.tools.edit import RESULT_DIFF
from run_specialist.tools.file_checkpoint import EVENT_DIFF
from tests.unit.tools.edited_files import EditingRun, apply_patch, names_in


@pytest.fixture
def run(root, write):
    """Return a run that may change what is below `docs`."""
    write({"docs/a.md": "one\ntwo\n", "other.md": "one\n"})
    return EditingRun(root, "docs/")


def refused(run, name, **arguments):
    """Return why a call fails, after which nothing is recorded."""
    before = list(run.log.records)
    with pytest.raises(ToolError) as error:
        run.call(name, **arguments)
    assert (run.log.records, run.log.events) == (before, run.log.events)
    return str(error.value)


def test_a_change_is_a_diff_in_the_result_and_in_the_event(run):
    """Both have path and diff; the record, stored before, has the content so far."""
    run.call("read", path="docs/a.md")
    shown = run.call("edit", path="docs/a.md", old="two", new="2")
    diff = "diff --git a/docs/a.md b/docs/a.md\n--- a/docs/a.md\n+++ b/docs/a.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
    assert shown == f"Changed docs/a.md (+1 -1 lines)\n{diff}"
    (event,), (record,) = run.log.events, run.log.records
    assert event.as_json() == {
        "event": "file_changed",
        "call_id": "call_1",
        "path": "docs/a.md",
        "diff": f"{diff}\n",
        "added": 1,
        "removed": 1,
        "is_new": False,
        "dry_run": False,
        "change": "changed",
        "undoable": True,
    }
    assert (record.path, record.content, record.folders) == ("docs/a.md", "one\ntwo\n", 0)
    assert (run.root / "docs/a.md").read_bytes() == b"one\n2\n"


def test_a_file_must_be_read_first_and_again_after_a_change(run, write):
    """Neither an unread file nor one that others have changed since is changed; one's own changes are known."""
    edit = {"path": "docs/a.md", "old": "two", "new": "2"}
    assert "read it first" in refused(run, "edit", **edit)
    assert "read it first" in refused(run, "write", path="docs/a.md", content="x")
    run.call("search", query="two")
    run.call("grep", pattern="two")
    with pytest.raises(ToolError, match="ends before line 9"):
        run.call("read", path="docs/a.md", offset=9)
    assert "read it first" in refused(run, "edit", **edit)
    run.call("read", path="docs/a.md", limit=1)
    write({"docs/a.md": "one\nTWO\n"})
    assert "was changed since you read it; read it again" in refused(run, "edit", **edit)
    run.call("read", path="docs/a.md")
    run.call("edit", path="docs/a.md", old="TWO", new="two")
    run.call("edit", **edit)
    assert "one\n     2\t2" in run.call("read", path="docs/a.md")
    assert [record.content for record in run.log.records] == ["one\nTWO\n", "one\ntwo\n"]


def test_a_new_file_is_written_with_its_folders(run):
    """By `write`, or by `edit` with nothing to replace; an existing one must have been read."""
    assert "Created docs/new/deep/b.md (+1 -0 lines)" in run.call("write", path="docs/new/deep/b.md", content="b\n")
    run.call("edit", path="docs/c.md", old="", new="c\n")
    run.call("write", path="docs/c.md", content="d\n")
    assert [(record.before is None, record.folders) for record in run.log.records] == [(True, 2), (True, 0), (False, 0)]
    assert (run.root / "docs/c.md").read_text() == "d\n"
    assert "no such file" in refused(run, "edit", path="docs/none.md", old="a", new="b")
    assert "has this content already" in refused(run, "write", path="docs/c.md", content="d\n")


def test_several_edits_are_made_all_or_none(run):
    """If one of them fails, the file stays as it is."""
    run.call("read", path="docs/a.md")
    wrong = [{"old": "one", "new": "1"}, {"old": "three", "new": "3"}]
    assert "docs/a.md: edit 2 of 2: `old` is not in the file" in refused(run, "edit", path="docs/a.md", edits=wrong)
    assert "either" in refused(run, "edit", path="docs/a.md", old="a", new="b", edits=wrong)
    assert "are required" in refused(run, "edit", path="docs/a.md", old="a")
    run.call(
        "edit", path="docs/a.md", edits=[{"old": "one", "new": "1"}, {"old": "o", "new": "0", "replace_all": True}]
    )
    assert (run.root / "docs/a.md").read_text() == "1\ntw0\n"


def test_mode_and_line_ends_stay(run, write, tmp_path):
    """The permissions, the byte order mark and CRLF of a file, also below a root that is a link."""
    write({"docs/w.txt": b"\xef\xbb\xbfone\r\ntwo\r\n"})
    (run.root / "docs/w.txt").chmod(0o750)
    (tmp_path / "link").symlink_to(run.root)
    through = EditingRun(tmp_path / "link", "docs/")
    through.call("read", path="docs/w.txt")
    through.call("edit", path="docs/w.txt", old="one\ntwo", new="1\n2\n3")
    assert (run.root / "docs/w.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n3\r\n"
    assert (run.root / "docs/w.txt").stat().st_mode & 0o777 == 0o750
    assert names_in(run.root / "docs") == ["a.md", "w.txt"]


def test_without_a_store_that_works_nothing_is_changed(run):
    """What could not be taken back is not done."""
    run.call("read", path="docs/a.md")
    run.log.works = False
    assert "the store of runs cannot be written" in refused(run, "edit", path="docs/a.md", old="two", new="2")
    assert (run.root / "docs/a.md").read_text() == "one\ntwo\n"


def test_long_diffs_are_shortened(run):
    """In the result and in the event; what is stored to undo them is whole."""
    run.call("write", path="docs/long.md", content="line of text\n" * 9_000)
    shown, (event,) = run.call("read", path="docs/long.md"), run.log.events
    shown = run.call("edit", path="docs/long.md", old="line", new="row", replace_all=True)
    assert RESULT_DIFF < len(shown) < RESULT_DIFF + 200
    assert shown.endswith("more lines of the diff are left out]")
    assert EVENT_DIFF - 50 < len(event.diff) < EVENT_DIFF + 200
    assert (event.added, len(run.log.records[1].content)) == (9_000, 117_000)


def test_a_dry_run_changes_nothing_and_git_applies_its_patch(run):
    """`read` shows the new content; the patch has each file once."""
    dry = EditingRun(run.root, "docs/", dry_run=True)
    dry.call("read", path="docs/a.md")
    assert "in the patch of this dry run only" in dry.call("edit", path="docs/a.md", old="two", new="2")
    dry.call("edit", path="docs/a.md", old="one", new="1")
    dry.call("write", path="docs/b c.md", content="new")
    dry.call("write", path="docs/b c.md", content="newer")
    assert dry.call("read", path="docs/a.md") == "     1\t1\n     2\t2\n[lines 1-2 of 2]"
    assert "newer" in dry.call("read", path="docs/b c.md")
    assert (dry.log.records, {event.dry_run for event in dry.log.events}) == ([], {True})
    assert names_in(run.root / "docs") == ["a.md"]
    assert (run.root / "docs/a.md").read_text() == "one\ntwo\n"
    apply_patch(run.root, dry.patch.text())
    assert [(run.root / "docs" / name).read_text() for name in ("a.md", "b c.md")] == ["1\n2\n", "newer"]


def test_a_search_after_a_change_finds_the_new_text(run):
    """Its index is built again; and no identical call is answered from the record."""
    assert "in no file: walrus" in run.call("search", query="walrus")
    run.call("write", path="docs/w.md", content="A walrus.\n")
    assert "docs/w.md:1: A walrus." in run.call("search", query="walrus")
    assert not any(tool.repeatable for tool in run.tools.values())


@pytest.mark.anyio
async def test_a_cancelled_change_is_made_or_not_but_never_half(run, monkeypatch):
    """Before it is recorded nothing happens; after that the file is replaced and reported, then the call ends."""
    await run.calling("read", path="docs/a.md")
    replace = safe_files.replace_file
    tasks = []

    def replacing(*given, **named):
        tasks[0].get_loop().call_soon_threadsafe(tasks[0].cancel)
        replace(*given, **named)

    monkeypatch.setattr(safe_files, "replace_file", replacing)
    tasks.append(asyncio.ensure_future(run.calling("edit", path="docs/a.md", old="two", new="2")))
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert ((run.root / "docs/a.md").read_text(), len(run.log.events)) == ("one\n2\n", 1)
    tasks[0] = asyncio.ensure_future(run.calling("edit", path="docs/a.md", old="2", new="two"))
    run.log.before_storing = tasks[0].cancel
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    assert ((run.root / "docs/a.md").read_text(), len(run.log.events)) == ("one\n2\n", 1)


@pytest.mark.anyio
async def test_parallel_edits_of_one_file_are_made_in_turn(run):
    """None of them is lost."""
    await run.calling("read", path="docs/a.md")
    await asyncio.gather(
        run.calling("edit", path="docs/a.md", old="one", new="1"),
        run.calling("edit", path="docs/a.md", old="two", new="2"),
        run.calling("write", path="docs/b.md", content="b"),
    )
    assert (run.root / "docs/a.md").read_text() == "1\n2\n"


def test_the_root_may_be_a_link(run, tmp_path):
    """Files below it are read and changed as below its target."""
    (tmp_path / "link").symlink_to(run.root)
    through = EditingRun(tmp_path / "link", "docs/")
    through.call("read", path="docs/a.md")
    assert "Changed docs/a.md" in through.call("edit", path="docs/a.md", old="two", new="2")
    assert (run.root / "docs/a.md").read_text() == "one\n2\n"
