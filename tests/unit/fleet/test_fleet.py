"""What a worker checks on its own host before it takes the items of a batch, and what becomes of its jobs."""

import os
import subprocess
from typing import get_args

import pytest

from run_specialist.api.runner import Runner
from run_specialist.batch.item import LimitReached, NotAffordable
from run_specialist.errors import AtWork, StoreUnusable, UsageError
from run_specialist.fleet.batches import BatchHere, FrozenBatch, Root, find_root, freeze, put, root_ids, roots_of
from run_specialist.fleet.worker import (
    AT_WORK_DELAY,
    MAX_SERVER_ERRORS,
    SHARE_DELAY,
    STORE_DELAY,
    JobFinished,
    JobRequeued,
    judge,
    unbegun,
)
from run_specialist.record.outcome import ErrorKind
from run_specialist.spawning.spawner import PriceUnknown
from run_specialist.specialist.loader import load
from run_specialist.specialist.registry import Registry
from tests.unit.record.outcomes import outcome as make_outcome

HEAD = "name: finder\ndescription: Finds.\nmodel: claude-haiku-4-5\n"
SKILL = "---\nname: owls\ndescription: About owls.\n---\nOwls eat mice.\n"
NEEDS = {
    "output_schema: shape.json": ("specialists/shape.json", '{"type": "object"}', "shape.json: cannot be read"),
    "skills: [owls]": (".agents/skills/owls/SKILL.md", SKILL, "no skill named owls"),
    "paths: ['vault/**']": ("vault/owls.md", "Owls.\n", "no file under"),
    "python_tools: ['birds:owls']": ("birds.py", "def owls() -> str: ...\n", "no module birds"),
}
"""What a file may name, what that needs on the host, and the reason without it."""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a function that makes the project of a host, which has the specialist and other files."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")

    def make(host, key, *others):
        root = tmp_path / host / "notes"
        for name, text in (("specialists/finder.md", f"---\n{HEAD}{key}\n---\nFind.\n"), *others):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return make


async def checked(frozen, root, *, trust=False):
    """Check a batch on the host with this root."""
    here = BatchHere("b1", frozen.model_dump(), {"notes": Root(root)}, "postgresql://nobody@127.0.0.1:1/x", trust=trust)
    try:
        await here.check()
    finally:
        await here.aclose()


@pytest.mark.parametrize("key", NEEDS)
async def test_a_host_that_lacks_what_the_specialist_names_is_found_out(project, key):
    """The host with the file passes; one that lacks it, or the permission, is refused with the reason."""
    name, text, reason = NEEDS[key]
    root = project("one", key, (name, text))
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    await checked(frozen, root, trust=True)
    with pytest.raises(UsageError, match=reason):
        await checked(frozen, project("two", key))


async def test_a_host_that_does_not_trust_the_batch_is_found_out(project):
    """A function needs a permission on each host, which `--trust` gives."""
    key = "python_tools: ['birds:owls']"
    root = project("one", key, NEEDS[key][:2])
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    with pytest.raises(UsageError, match="must be allowed once with --trust"):
        await checked(frozen, root)
    await checked(frozen, root, trust=True)


@pytest.mark.parametrize("place", ["specialists/finder.md", "elsewhere.md"])
@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"mcp_servers": {"evil": {"command": "sh", "args": ["-c", "harm"]}}}, "mcp_servers: data, such as"),
        ({"python_tools": ["subprocess:getoutput"]}, "python_tools: data, such as"),
        ({"tools": ["bash"], "writable": ["."]}, "tools: data, such as"),
        ({"paths": [".env"]}, "paths: data, such as"),
        ({"tool_calls_limit": 99}, "tool_calls_limit: can only lower the limit, which is 30"),
    ],
)
async def test_p1_settings_of_the_queue_have_no_powers(project, settings, reason, place, trust):
    """Whoever writes to the queue cannot make a worker do more than its specialist's file, also with `--trust`."""
    root = project("one", "tools: [grep]")
    frozen = freeze(load(root / "specialists" / "finder.md"), root, settings)
    frozen = frozen.model_copy(update={"place": place})
    with pytest.raises(UsageError, match=f"its settings: {reason}"):
        await checked(frozen, root, trust=trust)


async def test_p1_a_file_that_only_the_queue_has_gets_no_powers(project):
    """`--trust` is for files that are on this host."""
    key = "python_tools: ['birds:owls']"
    root = project("one", key, NEEDS[key][:2])
    frozen = freeze(load(root / "specialists" / "finder.md"), root, {})
    other = project("two", "tools: [grep]", NEEDS[key][:2])
    with pytest.raises(UsageError, match=r"would import birds .*; data, such as a stored run"):
        await checked(frozen, other, trust=True)
    (other / "specialists" / "finder.md").write_bytes((root / "specialists" / "finder.md").read_bytes())
    await checked(frozen, other, trust=True)


async def test_p1_a_batch_names_no_model_of_another_server(project, tmp_path):
    """Weights of any path, and servers that this host does not use, are the decision of its user."""
    root = project("one", "tools: [grep]")
    file = load(root / "specialists" / "finder.md")
    for model in (f"local:{tmp_path}/evil.gguf", "ollama:qwen3", "sonnet,openai:gpt"):
        with pytest.raises(UsageError, match="is not allowed here"):
            await checked(freeze(file, root, {}, model), root, trust=True)
    await checked(freeze(file, root, {}, "sonnet"), root)


async def test_p1_a_batch_loads_no_weights_that_its_file_names_without_trust(project, tmp_path):
    """The model of the batch is that of the file, which is of a project, and needs trust as it does without a queue."""
    root = project("one", "tools: [grep]")
    path = root / "specialists" / "finder.md"
    path.write_text(path.read_text().replace("claude-haiku-4-5", f"local:{tmp_path}/evil.gguf"))
    for model in (None, f"local:{tmp_path}/evil.gguf"):
        with pytest.raises(UsageError, match="must be allowed once with --trust"):
            await checked(freeze(load(path), root, {}, model), root)


async def test_p1_a_batch_that_workers_would_refuse_is_not_put_into_the_queue(project, monkeypatch):
    """The submitter learns it at once, before the queue is opened."""
    root = project("one", "tools: [grep]")
    monkeypatch.chdir(root)
    async with Runner(root=root, store="none") as runner:
        with pytest.raises(UsageError, match="--queue: tool_calls_limit: can only lower the limit, which is 30"):
            await put(
                runner,
                "postgresql://nobody@127.0.0.1:1/x",
                "finder",
                ["a"],
                batch_id="b1",
                settings={"tool_calls_limit": 60},
            )


FILE = "---\nname: finder\ndescription: Finds.\n---\nFind notes about Eulen.\n"


@pytest.fixture
def project_batch(tmp_path):
    """A project with a specialist."""
    path = tmp_path / "notes" / "specialists" / "finder.md"
    path.parent.mkdir(parents=True)
    path.write_text(FILE)
    return tmp_path / "notes"


def frozen_in(project_batch):
    """Freeze the specialist of the project."""
    return freeze(load(project_batch / "specialists" / "finder.md"), project_batch, {"tool_calls_limit": 6}, "sonnet")


@pytest.mark.parametrize("here", [None, "---\nname: finder\n---\nAnother one.\n"])
def test_another_or_no_file_is_replaced_by_a_copy(project_batch, tmp_path, here):
    """A host works with the file that the batch was made with, whatever it has itself."""
    frozen, other = frozen_in(project_batch), tmp_path / "elsewhere"
    (other / "specialists").mkdir(parents=True)
    if here is not None:
        (other / "specialists" / "finder.md").write_text(here)
    copy = frozen.file_on_this_host(Registry([]), other, tmp_path / "copies")
    assert (copy.path.parent, copy.origin) == (tmp_path / "copies", "data")
    assert copy.digest == frozen.digest


@pytest.mark.parametrize("place", ["{outside}/finder.md", "../outside/finder.md", "a/../../outside/finder.md"])
def test_a_place_outside_of_the_root_is_refused(project_batch, tmp_path, place):
    """Whoever writes to the queue cannot have a file from elsewhere used, even one with the right content."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "finder.md").write_text(FILE)
    frozen = frozen_in(project_batch).model_copy(
        update={"place": place.replace("{outside}", str(tmp_path / "outside"))}
    )
    with pytest.raises(UsageError, match="is not below the root"):
        frozen.file_on_this_host(Registry([]), project_batch, tmp_path / "copies")


def test_a_link_out_of_the_root_is_not_followed(project_batch, tmp_path):
    """The copy is used instead, which gets no power."""
    frozen = frozen_in(project_batch)
    inside = project_batch / "specialists" / "finder.md"
    inside.rename(tmp_path / "elsewhere.md")
    inside.symlink_to(tmp_path / "elsewhere.md")
    assert frozen.file_on_this_host(Registry([]), project_batch, tmp_path / "copies").origin == "data"


def test_the_same_file_of_this_host_is_used(project_batch, tmp_path):
    """A file outside of the root, such as one of the package, is found by its name, and only with the same content."""
    elsewhere, other = tmp_path / "mine", tmp_path / "other"
    (elsewhere / "finder.md").parent.mkdir()
    (elsewhere / "finder.md").write_text(FILE)
    other.mkdir()
    frozen, registry = frozen_in(project_batch), Registry([elsewhere])
    assert frozen.file_on_this_host(registry, other, tmp_path / "copies").path == elsewhere / "finder.md"
    (elsewhere / "finder.md").write_text(FILE + "More.\n")
    registry.reread()
    assert frozen.file_on_this_host(registry, other, tmp_path / "copies").origin == "data"
    with pytest.raises(UsageError, match="does not have its digest"):
        FrozenBatch.from_json({**frozen.model_dump(), "content": FILE + "Other.\n"}, "b1")


def test_a_file_that_is_no_text_is_refused(project_batch):
    """One line names the file."""
    path = project_batch / "specialists" / "finder.md"
    path.write_bytes(FILE.encode() + b"\xff\n")
    with pytest.raises(UsageError, match=r"finder\.md: is not UTF-8 text"):
        freeze(load(path), project_batch, {})


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


HELD_UP = {"rate_limited", "overloaded", "quota", "connection"}
STOPS = {"credentials": "stop the worker", "model_missing": "pause the batch"}


def outcome(status="failed", kind=None, error=None, retry_after=None):
    """Return an outcome with what matters here."""
    return make_outcome(status=status, error=error, error_kind=kind, retry_after=retry_after)


@pytest.mark.parametrize("kind", [None, *get_args(ErrorKind)])
def test_every_kind_of_failure_has_one_consequence(kind):
    """A failure of the endpoint or the store goes back to the queue; one of the item ends it."""
    verdict = judge(outcome(kind=kind, error="why", retry_after=7.0), attempts=0)
    if kind == "store_lost":
        assert verdict == JobRequeued(STORE_DELAY)
    elif kind in HELD_UP:
        assert verdict == JobRequeued(also="close the gate", wait=7.0, reason="why")
    elif kind in STOPS:
        assert verdict == JobRequeued(also=STOPS[kind], reason="why")
    elif kind == "server_error":
        assert verdict == JobRequeued(30.0, counts=True, reason="why")
    else:
        assert verdict == JobFinished()


def test_a_server_error_that_stays_is_a_failure():
    """A question that breaks the server does not come back for ever; each wait is twice as long."""
    broken = outcome(kind="server_error", error="500")
    delays = [judge(broken, attempts).delay for attempts in range(MAX_SERVER_ERRORS - 1)]
    assert delays == [30.0, 60.0]
    assert judge(broken, MAX_SERVER_ERRORS - 1) == JobFinished()


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (AtWork("busy"), JobRequeued(AT_WORK_DELAY, waits=False)),
        (StoreUnusable("away"), JobRequeued(STORE_DELAY)),
        (NotAffordable("b1"), JobRequeued(SHARE_DELAY)),
        (LimitReached("b1"), JobFinished(state=None)),
        (PriceUnknown("no price"), JobRequeued(also="pause the batch", reason="no price")),
        (UsageError("wrong"), JobFinished(error="wrong")),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_prevents_a_run_decides_about_its_job(error, verdict):
    """Only an error of the item ends it; without money it waits, or stays as it is once the batch has ended."""
    assert unbegun(error) == verdict
