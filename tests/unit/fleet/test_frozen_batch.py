"""What a batch freezes, and the specialist's file on another host."""

import json

import pytest

from run_specialist.errors import UsageError
from run_specialist.fleet.frozen_batch import FrozenBatch, freeze
from run_specialist.specialist.loader import load

FILE = "---\nname: finder\ndescription: Finds.\n---\nFind notes about Eulen.\n"


@pytest.fixture
def project(tmp_path):
    """A project with a specialist."""
    path = tmp_path / "notes" / "specialists" / "finder.md"
    path.parent.mkdir(parents=True)
    path.write_text(FILE)
    return tmp_path / "notes"


def frozen_in(project):
    """Freeze the specialist of the project."""
    return freeze(load(project / "specialists" / "finder.md"), project, {"tool_calls_limit": 6}, "sonnet", 4)


def test_what_is_frozen_survives_the_store(project):
    """The root has only a name, because each host has it at a path of its own."""
    frozen = frozen_in(project)
    assert (frozen.root, frozen.place, frozen.content) == ("notes", "specialists/finder.md", FILE)
    assert FrozenBatch.from_json(json.loads(json.dumps(frozen.as_json()))) == frozen


def test_the_same_file_below_the_root_is_used_in_its_place(project, tmp_path):
    """Paths that the file names are relative to it."""
    assert frozen_in(project).file_on_this_host(project, tmp_path / "copies") == project / "specialists" / "finder.md"


@pytest.mark.parametrize("here", [None, "---\nname: finder\n---\nAnother one.\n"])
def test_another_or_no_file_is_replaced_by_a_copy(project, tmp_path, here):
    """A host works with the file that the batch was made with, whatever it has itself."""
    frozen, other = frozen_in(project), tmp_path / "elsewhere"
    (other / "specialists").mkdir(parents=True)
    if here is not None:
        (other / "specialists" / "finder.md").write_text(here)
    copy = frozen.file_on_this_host(other, tmp_path / "copies")
    assert copy.parent == tmp_path / "copies"
    assert load(copy).digest == frozen.digest


def test_a_file_that_changes_meanwhile_is_refused(project):
    """The digest names the content that is frozen."""
    path = project / "specialists" / "finder.md"
    loaded = load(path)
    path.write_text(FILE + "More.\n")
    with pytest.raises(UsageError, match="changed while it was read"):
        freeze(loaded, project, {})


def test_a_file_that_is_no_text_is_refused(project):
    """One line names the file."""
    path = project / "specialists" / "finder.md"
    path.write_bytes(FILE.encode() + b"\xff\n")
    with pytest.raises(UsageError, match=r"finder\.md: is not UTF-8 text"):
        freeze(load(path), project, {})
