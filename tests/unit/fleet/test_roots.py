"""The folders of a host by the names that batches have for them."""

import os
import subprocess

import pytest

from run_specialist.errors import UsageError
from run_specialist.fleet.batches import find_root, root_ids, roots_of


def test_without_roots_the_project_has_its_own_name(tmp_path):
    """The root of the project is found from a folder below it."""
    project = tmp_path / "notes"
    (project / ".git").mkdir(parents=True)
    (project / "deep").mkdir()
    (found,) = roots_of([], project / "deep").items()
    assert (found[0], found[1].path, found[1].is_named) == ("notes", project, False)


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


def repository(folder, text):
    """Make a repository with one commit."""
    folder.mkdir(parents=True)
    (folder / "notes.md").write_text(text)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", text]):
        git(folder, *words)
    return folder


def git(folder, *words):
    """Call git as a fixed author."""
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(folder), *author, *words]
    subprocess.run(command, check=True, capture_output=True)


def found(folder, batch_root, *, named):
    """Return the folder that a worker uses for a batch with this root, or why it has none."""
    given = [f"notes={folder}"] if named else []
    try:
        return find_root(roots_of(given, folder), "notes", root_ids(batch_root), "b1")
    except UsageError as error:
        return str(error)


def test_the_project_of_a_folder_is_not_that_of_another_batch(tmp_path):
    """A folder of the same name is refused, with the option that says that it is the same; the same folder is used."""
    one, other = tmp_path / "one" / "notes", tmp_path / "other" / "notes"
    for project in (one, other):
        (project / ".git").mkdir(parents=True)
    assert found(one, one, named=False) == one
    assert "is not known to be the same project" in found(other, one, named=False)
    assert found(other, one, named=True) == other, "the operator says so"


def test_a_clone_is_the_same_project_and_another_repository_never_is(tmp_path):
    """The first commits decide, whatever the folders and remotes are."""
    one, other = repository(tmp_path / "one" / "notes", "one"), repository(tmp_path / "other" / "notes", "other")
    clone = tmp_path / "clone" / "notes"
    git(tmp_path, "clone", "-q", str(one), str(clone))
    (clone / "more.md").write_text("more")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "more")
    assert [found(clone, one, named=named) for named in (False, True)] == [clone, clone]
    assert "is not known to be the same project" in found(other, one, named=False)
    assert "is another repository" in found(other, one, named=True)


def test_a_shallow_clone_is_named_by_the_operator(tmp_path):
    """Its oldest commit is not that of the repository, so it has no id of its own."""
    one = repository(tmp_path / "one" / "notes", "one")
    (one / "more.md").write_text("more")
    git(one, "add", ".")
    git(one, "commit", "-q", "-m", "more")
    shallow = tmp_path / "shallow" / "notes"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{one}", str(shallow))
    assert found(shallow, one, named=True) == shallow
    assert "is not known to be the same project" in found(shallow, one, named=False)


def test_the_configuration_of_a_repository_starts_nothing(tmp_path):
    """No program that .git/config names is run while the id of a folder is computed."""
    one = repository(tmp_path / "notes", "one")
    sign = tmp_path / "started"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {sign}\n")
    program.chmod(0o755)
    git(one, "config", "core.fsmonitor", str(program))
    git(one, "config", "core.hooksPath", str(tmp_path))
    git(one, "config", "core.sshCommand", str(program))
    git(one, "config", "remote.origin.url", f"ext::{program}")
    git(one, "config", "protocol.ext.allow", "always")
    git(one, "config", "remote.origin.promisor", "true")
    git(one, "config", "extensions.partialClone", "origin")
    for blob in (one / ".git" / "objects").glob("??/*"):
        blob.unlink()
    assert len(root_ids(one)) == 1, "without its commits a repository has no id"
    assert not sign.exists()


def test_p3_a_git_of_the_project_is_never_run(tmp_path, monkeypatch):
    """A relative folder of PATH, such as `.`, is not searched while the id of a folder is computed."""
    one, sign = repository(tmp_path / "notes", "one"), tmp_path / "started"
    (one / "git").write_text(f"#!/bin/sh\ntouch {sign}\n")
    (one / "git").chmod(0o755)
    monkeypatch.chdir(one)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    assert len(root_ids(one)) == 2
    assert not sign.exists()


def test_roots_have_names(tmp_path):
    """Each root is given with a name; the project is not added to them."""
    for name in ("a", "b=c"):
        (tmp_path / name).mkdir()
    given = [f"one={tmp_path / 'a'}", f"two={tmp_path / 'b=c'}"]
    roots = roots_of(given, tmp_path)
    assert {name: root.path for name, root in roots.items()} == {"one": tmp_path / "a", "two": tmp_path / "b=c"}
    assert all(root.is_named for root in roots.values())
