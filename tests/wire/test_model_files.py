"""`--model local:FILE`: how the server is started, shared and ended, with a stand-in for xllamacpp."""

import asyncio
import io
import json
import os
import re
import shutil
import sys
import threading
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from run_specialist.api.runner import Runner
from run_specialist.cli import ask
from run_specialist.cli.ask import app
from run_specialist.cli.live import LiveView
from run_specialist.errors import NotTrusted, UsageError
from run_specialist.installation import adding
from run_specialist.providers import local
from tests.wire import fake_xllamacpp
from tests.wire.serving import write_specialist

GGUF = b"GGUF and more"
"""Enough of a file for the stand-in."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Enter a project with one specialist and a model, and with a stand-in for the package."""
    package = tmp_path / "package"
    package.mkdir()
    shutil.copy(fake_xllamacpp.__file__, package / "xllamacpp.py")
    monkeypatch.syspath_prepend(package)
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    root = tmp_path / "project"
    for name in (".git", "specialists"):
        (root / name).mkdir(parents=True)
    write_specialist(root, "finder")
    (root / "m.gguf").write_bytes(GGUF)
    monkeypatch.chdir(root)
    return root


def servers() -> list[psutil.Process]:
    """Return the servers that this process has started."""
    return [one for one in psutil.Process().children() if "llama_process.py" in " ".join(one.cmdline())]


async def told(runner, name="finder") -> dict:
    """Run a specialist and return the arguments of the server."""
    outcome = await runner.run(name, "What?")
    assert outcome.status == "answered", outcome.error
    return json.loads(outcome.answer)


@pytest.mark.anyio
async def test_a_file_is_served_and_the_server_ends_with_the_runner(folder):
    """The context that the server reports is known, the request has the key, and nothing is left afterwards."""
    lines = []
    async with Runner(model="local:m.gguf") as runner:
        runner.loading = lines.append
        run = await runner.prepare("finder", "What?")
        outcome = await run.outcome()
        (process,) = servers()
    seen = json.loads(outcome.answer)
    assert (outcome.model, seen["model"], seen["alias"]) == ("local:m.gguf", "m.gguf", ["m.gguf"])
    # The server chooses the context, and reports it.
    assert (seen["n_ctx"], seen["max"], seen["pid"]) == (0, 2048, process.pid)
    assert run.job.provider.capabilities.context_tokens == 8192
    assert lines == ["loading m.gguf (0 MB)"]
    assert not process.is_running()


@pytest.mark.anyio
async def test_runs_and_children_share_one_server(folder):
    """Concurrent runs, another name of the same file, and a child use the same process."""
    (folder / "link.gguf").symlink_to("m.gguf")
    async with Runner(model="local:m.gguf") as runner:
        seen = await asyncio.gather(*(told(runner) for _ in range(4)))
        other = await runner.run("finder", "What?", model="local:~/../project/link.gguf")
        pids = {one["pid"] for one in seen} | {json.loads(other.answer)["pid"]}
        assert len(pids) == len(servers()) == 1


def test_two_event_loops_share_one_server(folder):
    """A Runner that is used in two threads starts one process; closing it in a third loop ends it."""
    runner, urls = Runner(model="local:m.gguf"), []

    def use():
        run = asyncio.run(runner.prepare("finder", "What?"))
        urls.append(str(run.job.provider.client.base_url))

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(urls), len(set(urls)), len(servers())) == (2, 1, 1)
    asyncio.run(runner.aclose())
    assert servers() == []


@pytest.mark.anyio
async def test_a_server_that_dies_fails_the_run_with_the_reason_and_is_started_again(folder):
    """Exit code 3 with what happened to the process, and the next run gets a new one."""
    (folder / "dies.gguf").write_bytes(GGUF)
    async with Runner(model="local:dies.gguf") as runner:
        outcome = await runner.run("finder", "What?")
        assert (outcome.status, outcome.exit_code) == ("failed", 3)
        assert "llama.cpp ended while it served local:dies.gguf: the system killed it" in outcome.error
        assert (await told(runner))["alias"] == ["dies.gguf"]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent.gguf", None, "there is no file"),
        ("folder", "", "is a folder; name the GGUF file in it"),
        ("notes.md", b"# notes", "it is not a GGUF file; name a file with the ending .gguf"),
        ("corrupt.gguf", GGUF, "tensor 'x' is missing"),
        ("killed.gguf", GGUF, "the system killed it, probably because the memory was full"),
        ("crash.gguf", GGUF, "llama.cpp ended with code -6 (ggml.c:12: GGML_ASSERT(ok) failed)"),
    ],
)
@pytest.mark.anyio
async def test_a_file_that_cannot_be_served_is_a_usage_error(folder, name, content, words, capfd):
    """One line that names the model, nothing on the terminal, and no process left."""
    if content == "":
        (folder / name).mkdir()
    elif content is not None:
        (folder / name).write_bytes(content)
    async with Runner(model=f"local:{name}") as runner:
        with pytest.raises(UsageError) as raised:
            await runner.prepare("finder", "What?")
    line = str(raised.value)
    assert line.startswith(f"`model=local:{name}`: ")
    assert words in line
    assert "\n" not in line
    assert capfd.readouterr() == ("", "")
    assert servers() == []


@pytest.mark.anyio
async def test_the_variable_sets_the_context(folder, monkeypatch):
    """SPECIALIST_LOCAL_CONTEXT overrides what llama.cpp chooses."""
    monkeypatch.setenv("SPECIALIST_LOCAL_CONTEXT", " 4096 ")
    async with Runner(model="local:m.gguf") as runner:
        assert (await told(runner))["n_ctx"] == 4096


@pytest.mark.parametrize("value", ["many", "12"])
@pytest.mark.anyio
async def test_an_invalid_context_is_refused(folder, monkeypatch, value):
    """The line names the variable."""
    monkeypatch.setenv("SPECIALIST_LOCAL_CONTEXT", value)
    async with Runner(model="local:m.gguf") as runner:
        with pytest.raises(UsageError, match="SPECIALIST_LOCAL_CONTEXT: must be a number of tokens"):
            await runner.prepare("finder", "What?")


@pytest.mark.parametrize(("missing", "module"), [("xllamacpp", "xllamacpp"), ("openai", "openai")])
@pytest.mark.anyio
async def test_without_the_extra_the_line_says_how_to_install_it(folder, monkeypatch, missing, module):
    """Both packages of the extra are needed; nothing is started without them."""
    monkeypatch.setitem(sys.modules, module, None)
    async with Runner(model="local:m.gguf") as runner:
        said = f"(no module named '{missing}'); {adding('local')}"
        with pytest.raises(UsageError, match=re.escape(said)):
            await runner.prepare("finder", "What?")
    assert servers() == []


@pytest.mark.anyio
async def test_a_run_that_is_cancelled_while_it_loads_leaves_no_process(folder):
    """Loading can take minutes; Ctrl-C and a timeout end it immediately."""
    (folder / "slow.gguf").write_bytes(GGUF)
    async with Runner(model="local:slow.gguf") as runner:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()
        runner.loading = lambda _: loop.call_soon_threadsafe(started.set)
        task = asyncio.create_task(runner.prepare("finder", "What?"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert servers() == []


@pytest.mark.anyio
async def test_weights_that_a_project_names_need_trust(folder):
    """Native code parses them: they are refused until allowed, and again after they have changed."""
    write_specialist(folder, "own", "model: local:m.gguf")
    async with Runner() as runner:
        with pytest.raises(NotTrusted, match=rf"own.md:4:1: model: would load {folder}/m.gguf; this is not allowed"):
            await runner.prepare("own", "What?")
    assert servers() == []
    async with Runner(trust=True) as runner:
        await told(runner, "own")
    async with Runner() as runner:
        await told(runner, "own")
    (folder / "m.gguf").write_bytes(GGUF + b"changed")
    async with Runner() as runner:
        with pytest.raises(NotTrusted):
            await runner.prepare("own", "What?")
    async with Runner(model="local:m.gguf") as runner:
        await told(runner, "own")


@pytest.mark.anyio
async def test_a_child_cannot_load_weights_without_trust(folder):
    """A child's file is checked like that of its parent."""
    from tests.scripted_provider import ScriptedProvider, calls

    write_specialist(folder, "child", "model: local:m.gguf")
    write_specialist(folder, "parent", "agents: [child]")
    async with Runner() as runner:
        file = runner.registry.find("child")
        with pytest.raises(NotTrusted):
            await runner.environments.models.provider_for_child(file, file.specialist, ScriptedProvider([calls()]))
    assert servers() == []


@pytest.mark.anyio
async def test_an_own_file_needs_trust_for_weights_of_the_project_only(folder, monkeypatch):
    """A relative path leads to a file that the project has put there."""
    mine = Path(os.environ["HOME"]) / ".config/run-specialist/specialists"
    elsewhere = folder.parent / "models" / "m.gguf"
    for place in (mine, elsewhere.parent):
        place.mkdir(parents=True)
    elsewhere.write_bytes(GGUF)
    for name, path in (("near", "m.gguf"), ("far", elsewhere)):
        lines = ["---", f"name: {name}", "description: d", f"model: local:{path}", "---", "You look.", ""]
        (mine / f"{name}.md").write_text("\n".join(lines))
    async with Runner() as runner:
        await told(runner, "far")
        with pytest.raises(NotTrusted):
            await runner.prepare("near", "What?")


@pytest.mark.anyio
async def test_nothing_is_started_after_closing(folder):
    """A thread that is late does not leave a process behind."""
    files = local.ModelFiles()
    await files.aclose()
    with pytest.raises(UsageError, match="the Runner was closed meanwhile"):
        await files.provider("local:m.gguf")
    assert servers() == []


def test_the_live_view_shows_that_a_model_is_loading(folder, monkeypatch):
    """On a terminal only; without one, nothing is printed about it."""
    shown = []

    class View(LiveView):
        def prepare(self, what):
            super().prepare(what)
            shown.append(f"{what} | {self._doing}")

    flags = ["finder", "What?", "--model", "local:m.gguf", "--store", "none"]
    plain = CliRunner().invoke(app, flags)
    assert (plain.exit_code, "loading" in plain.stderr) == (0, False)
    monkeypatch.setattr(ask, "_view", lambda output: View(Console(file=io.StringIO(), force_terminal=True)))
    assert CliRunner().invoke(app, flags).exit_code == 0
    assert shown == ["loading m.gguf (0 MB) | loading m.gguf (0 MB)"]
