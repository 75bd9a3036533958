"""What a batch freezes, and the specialist's file on another host."""

import json

import pytest

from run_specialist.errors import UsageError
from run_specialist.fleet.batches import FrozenBatch, freeze
from run_specialist.specialist.loader import load
from run_specialist.specialist.registry import Registry

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
    return freeze(load(project / "specialists" / "finder.md"), project, {"tool_calls_limit": 6}, "sonnet")


def test_what_is_frozen_survives_the_store(project):
    """The root has only a name, because each host has it at a path of its own."""
    frozen = frozen_in(project)
    assert (frozen.root, frozen.place, frozen.content) == ("notes", "specialists/finder.md", FILE)
    assert FrozenBatch.from_json(json.loads(json.dumps(frozen.model_dump())), "b1") == frozen


@pytest.mark.parametrize("here", [None, "---\nname: finder\n---\nAnother one.\n"])
def test_another_or_no_file_is_replaced_by_a_copy(project, tmp_path, here):
    """A host works with the file that the batch was made with, whatever it has itself."""
    frozen, other = frozen_in(project), tmp_path / "elsewhere"
    (other / "specialists").mkdir(parents=True)
    if here is not None:
        (other / "specialists" / "finder.md").write_text(here)
    copy = frozen.file_on_this_host(Registry([]), other, tmp_path / "copies")
    assert (copy.path.parent, copy.origin) == (tmp_path / "copies", "data")
    assert copy.digest == frozen.digest


@pytest.mark.parametrize("place", ["{outside}/finder.md", "../outside/finder.md", "a/../../outside/finder.md"])
def test_a_place_outside_of_the_root_is_refused(project, tmp_path, place):
    """Whoever writes to the queue cannot have a file from elsewhere used, even one with the right content."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "finder.md").write_text(FILE)
    frozen = frozen_in(project).model_copy(update={"place": place.replace("{outside}", str(tmp_path / "outside"))})
    with pytest.raises(UsageError, match="is not below the root"):
        frozen.file_on_this_host(Registry([]), project, tmp_path / "copies")


def test_a_link_out_of_the_root_is_not_followed(project, tmp_path):
    """The copy is used instead, which gets no power."""
    frozen = frozen_in(project)
    inside = project / "specialists" / "finder.md"
    inside.rename(tmp_path / "elsewhere.md")
    inside.symlink_to(tmp_path / "elsewhere.md")
    assert frozen.file_on_this_host(Registry([]), project, tmp_path / "copies").origin == "data"


def test_the_same_file_of_this_host_is_used(project, tmp_path):
    """A file outside of the root, such as one of the package, is found by its name, and only with the same content."""
    elsewhere, other = tmp_path / "mine", tmp_path / "other"
    (elsewhere / "finder.md").parent.mkdir()
    (elsewhere / "finder.md").write_text(FILE)
    other.mkdir()
    frozen, registry = frozen_in(project), Registry([elsewhere])
    assert frozen.file_on_this_host(registry, other, tmp_path / "copies").path == elsewhere / "finder.md"
    (elsewhere / "finder.md").write_text(FILE + "More.\n")
    registry.reread()
    assert frozen.file_on_this_host(registry, other, tmp_path / "copies").origin == "data"
    with pytest.raises(UsageError, match="does not have its digest"):
        FrozenBatch.from_json({**frozen.model_dump(), "content": FILE + "Other.\n"}, "b1")


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


def test_the_same_file_below_the_root_is_used_in_its_place(project, tmp_path):
    """Paths that the file names are relative to it."""
    found = frozen_in(project).file_on_this_host(Registry([]), project, tmp_path / "copies")
    assert (found.path, found.origin) == (project / "specialists" / "finder.md", "project")
