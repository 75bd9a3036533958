"""A run continues on another host, in another folder, if the same specialist is found there by its name."""

import shutil
from dataclasses import replace

import pytest

from run_specialist.errors import NotResumable, ProviderError, UsageError
from run_specialist.spawning.resuming import begun_with
from run_specialist.spawning.spawner import digest
from run_specialist.specialist import project
from tests.loop.stored_replies import ANSWER
from tests.scripted_provider import ScriptedProvider, calls
from tests.scripted_specialists import write
from tests.taken_up import ID, Office, taken

pytestmark = pytest.mark.anyio
READS = calls(("read", {"path": "note.md"}), first_id=1)
LINES = ("tool_calls_limit: 5",)


@pytest.fixture
def hosts(tmp_path, store_url, monkeypatch):
    """Create two hosts with the same specialist in different places, and different notes, and one store."""
    monkeypatch.setattr(project, "packaged", lambda: tmp_path / "none")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    made = []
    for name in ("one", "other"):
        folder = tmp_path / name
        (folder / ".git").mkdir(parents=True)
        write(folder, "finder", *LINES).write_text(
            "---\nname: finder\ndescription: Finds.\ntool_calls_limit: 5\n---\nYou are finder.\n"
        )
        (folder / "note.md").write_text(f"The note of {name}.")
        made.append(Office(folder, store_url))
    return made


def process(office, monkeypatch, *script, **options):
    """Open a runner on a host."""
    monkeypatch.chdir(office.folder)
    return office.process(*script, tools=(), **options)


async def begun(office, monkeypatch):
    """Begin the run on a host, where it fails."""
    async with process(office, monkeypatch, READS, ProviderError("the host has lost its network")) as runner:
        outcome = await (await taken(runner, specialist="finder")).outcome()
    assert outcome.status == "failed"


def reads_again(seen):
    """Make a script that reads the note again and answers."""

    def see(request):
        seen.extend(request.messages)
        return ANSWER

    return [calls(("read", {"path": "note.md", "offset": 1}), first_id=2), see]


async def test_a_run_is_taken_up_in_the_root_of_the_other_host(hosts, monkeypatch):
    """The run continues in the root of the other host, with the stored system prompt, and says so in a warning."""
    one, other = hosts
    await begun(one, monkeypatch)
    seen = []
    async with process(other, monkeypatch, *reads_again(seen)) as runner:
        run = await taken(runner, specialist="finder", retry="failed")
        outcome = await run.outcome()
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 2)
    assert outcome.warnings[0] == f"the run began in {one.folder} and continues in {other.folder}"
    texts = [block["content"] for message in seen for block in message.content if block["type"] == "tool_result"]
    assert ["The note of one." in texts[0], "The note of other." in texts[1]] == [True, True]
    async with process(one, monkeypatch) as runner:
        assert (await taken(runner, specialist="finder")).ended == outcome


async def test_resume_continues_here_only_if_its_folder_does_not_exist(hosts, monkeypatch):
    """`resume` continues where the run began, and in the folder of the other host only if that does not exist."""
    one, other = hosts
    await begun(one, monkeypatch)
    async with process(
        other, monkeypatch, root=one.folder, provider=ScriptedProvider([ProviderError("again")])
    ) as runner:
        outcome = await (await runner.resume(ID)).outcome()
    assert not [text for text in outcome.warnings if "continues in" in text]
    shutil.rmtree(one.folder)
    seen = []
    async with process(other, monkeypatch, *reads_again(seen)) as runner:
        outcome = await (await runner.resume(ID)).outcome()
    assert outcome.status == "answered"
    assert f"the run began in {one.folder} and continues in {other.folder}" in outcome.warnings


async def test_another_specialist_on_the_other_host_is_refused_with_both_digests(hosts, monkeypatch):
    """A specialist of that name with another content is refused, by `resume` and `take_up`, with both digests."""
    one, other = hosts
    await begun(one, monkeypatch)
    shutil.rmtree(one.folder)
    path = other.folder / "specialists" / "finder.md"
    path.write_text(f"{path.read_text()}You guess.\n")
    digests = r"its digest was \w{12} and is \w{12}"
    async with process(other, monkeypatch, ProviderError("once"), ANSWER) as runner:
        gone = f"{ID}: its working folder {one.folder} no longer exists, and {path} is another specialist: {digests}$"
        with pytest.raises(NotResumable, match=gone):
            await runner.resume(ID)
        with pytest.raises(UsageError, match=f"{path} has another content, {digests}; use another id"):
            await taken(runner, specialist="finder", retry="failed")
        assert (await (await runner.resume(ID, force=True)).outcome()).status == "failed"
        forced = await taken(runner, specialist="finder", retry="failed", force=True)
        assert (await forced.outcome()).status == "answered"


async def test_the_file_is_confined_to_the_project_it_is_found_in(hosts, monkeypatch, tmp_path):
    """Secrets that the store has masked are read from the file only if it lies in the project that the run is in."""
    one, _ = hosts
    await begun(one, monkeypatch)
    async with process(one, monkeypatch) as runner:
        run = await runner.environments.store.load(ID, "")
    server = "mcp_servers: {web: {url: 'https://localhost:1/mcp', headers: {Authorization: Bearer canary-4711}}}"
    outside = write(tmp_path / "other", "outside", server)
    folder = tmp_path / "plain"
    (folder / "specialists").mkdir(parents=True)
    link, copy = folder / "specialists" / "link.md", folder / "specialists" / "copy.md"
    link.symlink_to(outside)
    shutil.copy(outside, copy)
    settings = run.frozen["settings"] | {"mcp_servers": {"web": {"type": "http", "url": "https://localhost:1/mcp"}}}
    frozen = {**run.frozen, "settings": settings, "digest": digest(outside), "root": "/gone"}
    found = [begun_with(replace(run, frozen=frozen), file, folder)[1] for file in (link, copy)]
    assert ["canary-4711" in repr(settings.mcp_servers) for settings in found] == [False, True]
