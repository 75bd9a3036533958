"""The folders of a host by the names that batches have for them."""

import pytest

from run_specialist.errors import UsageError
from run_specialist.fleet.roots import roots_of


def test_without_roots_the_project_has_its_own_name(tmp_path):
    """The root of the project is found from a folder below it."""
    project = tmp_path / "notes"
    (project / ".git").mkdir(parents=True)
    (project / "deep").mkdir()
    (found,) = roots_of([], project / "deep").items()
    assert (found[0], found[1].path, found[1].is_named) == ("notes", project, False)


def test_roots_have_names(tmp_path):
    """Each root is given with a name; the project is not added to them."""
    for name in ("a", "b=c"):
        (tmp_path / name).mkdir()
    given = [f"one={tmp_path / 'a'}", f"two={tmp_path / 'b=c'}"]
    roots = roots_of(given, tmp_path)
    assert {name: root.path for name, root in roots.items()} == {"one": tmp_path / "a", "two": tmp_path / "b=c"}
    assert all(root.is_named for root in roots.values())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["notes"], "--root: got 'notes'; use NAME=PATH"),
        (["=/tmp"], "--root: got '=/tmp'; use NAME=PATH"),
        (["notes="], "--root: got 'notes='; use NAME=PATH"),
        (["notes=/nowhere/at/all"], "--root: notes=/nowhere/at/all is not a folder"),
        (["notes=/", "notes=/"], "--root: notes is given twice"),
    ],
)
def test_a_wrong_root_is_named(given, said, tmp_path):
    """The line says which root is wrong, and the form it should have."""
    with pytest.raises(UsageError) as caught:
        roots_of(given, tmp_path)
    assert str(caught.value) == said
