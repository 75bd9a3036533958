"""Undoing changes: newest first, only in files that have not changed since."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.record.journal import FileChanging
from run_specialist.safety.safe_files import digest_of, temporary_name
from run_specialist.tools.edit import undo


def test_what_others_have_touched_is_left_alone(root, write):
    """A file with another content, a deleted one, and one that became a link."""
    write({"a.md": "mine\n", "c.md": "c\n"})

    def undone():
        (one,) = undo(root, [_record("a.md", "zero\n", "one\n")], dry_run=False)
        return one.result, one.reason

    assert undone() == ("left", "changed since")
    assert (root / "a.md").read_text() == "mine\n"
    (root / "a.md").unlink()
    assert undone() == ("left", "deleted since")
    (root / "a.md").symlink_to("c.md")
    assert undone() == ("left", "changed since")


@pytest.mark.parametrize("made", [0, 1, 2])
def test_a_change_that_was_recorded_but_not_made_is_known(root, write, made):
    """A process was killed in between: the changes before are undone, and its temporary files are deleted."""
    contents = ["zero\n", "one\n", "two\n"]
    write({"a.md": contents[made]})
    records = [_record("a.md", before, after) for before, after in pairwise(contents)]
    write({records[made - 1].temporary: "half"})
    (one,) = undo(root, records, dry_run=False)
    assert one.result == ("restored" if made else "unchanged")
    assert [(path.name, path.read_text()) for path in root.iterdir()] == [("a.md", "zero\n")]


def test_changes_after_those_of_others_are_taken_back_alone(root, write):
    """Others have changed the file between two changes of the run: it gets what they have left."""
    write({"a.md": "three\n"})
    records = [_record("a.md", "zero\n", "one\n"), _record("a.md", "two\n", "three\n")]
    (one,) = undo(root, records, dry_run=False)
    assert (one.result, one.reason) == ("partly", "changed in between, so older changes stay")
    assert (root / "a.md").read_text() == "two\n"


@pytest.mark.parametrize(
    "path", ["../secret.txt", ".git/config", "specialists/a.md", "docs/.env", "/etc/passwd", "a/../b"]
)
def test_paths_of_a_store_are_not_believed(root, write, path):
    """Others may have written to a store: undo changes nothing that a run could not have changed."""
    write({".git/config": "b\n", "specialists/a.md": "b\n", "docs/.env": "b\n", "b": "b\n"})
    (root.parent / "secret.txt").write_text("b\n")
    (one,) = undo(root, [_record(path, "a\n", "b\n")], dry_run=False)
    assert one.result == "left"
    assert "a\n" not in {each.read_text() for each in root.parent.rglob("*") if each.is_file()}


def _record(path, before, after):
    digests = digest_of(before.encode()), digest_of(after.encode())
    return FileChanging(f"{before}{after}", path, *digests, before, temporary_name())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6), st.booleans())
def test_any_sequence_of_contents_leads_back_to_the_first(tmp_path_factory, contents, last_is_made):
    """Also if a content occurs again, and if the last change was not made."""
    root = tmp_path_factory.mktemp("root")
    steps = [one for one, before in zip(contents, [None, *contents], strict=False) if one != before]
    records = [_record("x.md", before, after) for before, after in pairwise(["start", *steps])]
    (root / "x.md").write_text(["start", *steps][-1 if last_is_made else -2])
    (one,) = undo(root, records, dry_run=False)
    assert (one.result in {"restored", "unchanged"}, (root / "x.md").read_text()) == (True, "start")
