"""Models of local servers from Python: runs that share a provider, children, and servers that do not answer."""

import asyncio
import time
from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import NotTrusted, UsageError
from run_specialist.providers import local_servers
from tests.wire.chat.replies import answers, calls
from tests.wire.local_api import MODELS, ROUTES
from tests.wire.serving import write_specialist


@pytest.fixture
def finder(tmp_path, monkeypatch):
    """Enter a project with one specialist."""
    for folder in (".git", "specialists"):
        (tmp_path / folder).mkdir()
    write_specialist(tmp_path, "finder")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.anyio
async def test_runs_of_a_runner_ask_the_server_once(finder, local):
    """Concurrent and later runs of one model share its provider, and what is known about the model."""
    with local("ollama", lambda request: answers("yes")) as server:
        async with Runner(model=MODELS["ollama"]) as runner:
            await runner.run("finder", "What?")
            outcomes = await asyncio.gather(*(runner.run("finder", "What?") for _ in range(3)))
        assert {outcome.answer for outcome in outcomes} == {"yes"}
        assert len(server.asked) == 3


@pytest.mark.anyio
async def test_a_child_may_have_a_local_model_of_its_own(finder, local):
    """A child whose file names another server is run there."""
    write_specialist(finder, "child", f"model: {MODELS['vllm']}")
    write_specialist(finder, "parent", f"model: {MODELS['llamacpp']}", "agents: [child]")
    delegation = calls("delegate", {"specialist": "child", "query": "What?"})
    with local("llamacpp", [delegation, answers("done")]) as above, local("vllm", [answers("mice")]) as below:
        async with Runner() as runner:
            outcome = await runner.run("parent", "What?")
        assert (outcome.answer, outcome.model) == ("done", MODELS["llamacpp"])
        assert [child.specialist for child in outcome.children] == ["child"]
        assert (len(above.requests), len(below.requests)) == (2, 1)


@pytest.mark.anyio
async def test_a_run_is_resumed_on_the_same_local_model(finder, local):
    """The stored id leads to the same server again; for llama.cpp it has the name that the server reported."""
    with local("llamacpp", [answers("one"), answers("two")]) as server:
        async with Runner(model="llamacpp:", store=str(finder / "runs.db")) as runner:
            first = await runner.run("finder", "What?")
        async with Runner(store=str(finder / "runs.db")) as runner:
            second = await (await runner.resume(first.run_id, "And then?")).outcome()
        assert (first.answer, second.answer, second.model) == ("one", "two", MODELS["llamacpp"])
        assert {request.body["model"] for request in server.requests} == {"qwen.gguf"}


@pytest.mark.anyio
async def test_two_runs_that_start_together_share_one_provider(finder, local, monkeypatch):
    """Both wait for the server; the provider that was created second is closed again."""
    closed = []
    with local("vllm", lambda request: answers("yes")):
        from run_specialist.providers.openai_chat import ChatProvider

        close = ChatProvider.aclose
        monkeypatch.setattr(ChatProvider, "aclose", lambda self: closed.append(self) or close(self))
        async with Runner(model=MODELS["vllm"]) as runner:
            first, second = await asyncio.gather(*(runner.prepare("finder", "What?") for _ in range(2)))
            assert first.job.provider is second.job.provider
            assert len(closed) == 1
            await asyncio.gather(first.outcome(), second.outcome())
    assert len({id(provider) for provider in closed}) == 2


def hangs(wire):
    """Send nothing until the test ends."""
    wire.hold()


@pytest.mark.anyio
async def test_a_server_that_hangs_holds_up_neither_the_run_nor_the_event_loop(finder, local, monkeypatch):
    """All questions together have one timeout, other tasks go on meanwhile, and the run starts without the facts."""
    monkeypatch.setattr("run_specialist.providers.local_servers.QUERY_PATIENCE", 0.3)
    routes = dict.fromkeys(ROUTES["lmstudio"](), hangs)
    ticks = []

    async def tick():
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.01)

    with local("lmstudio", [answers("yes")], routes):
        async with Runner(model=MODELS["lmstudio"]) as runner:
            await runner._providers.provider("offline")
            ticking = asyncio.create_task(tick())
            run = await runner.prepare("finder", "What?")
            ticking.cancel()
            assert (await run.outcome()).answer == "yes"
    assert len(ticks) > 5
    assert run.job.provider.capabilities.context_tokens is None


@pytest.mark.anyio
async def test_a_usage_error_leaves_no_connection_open(finder, local):
    """The client that was made for the questions is closed when the model is refused."""
    with local("ollama"):
        async with Runner(model="ollama:unknown") as runner:
            with pytest.raises(UsageError, match="ollama pull unknown"):
                await runner.prepare("finder", "What?")
            assert not runner._providers._providers


@pytest.mark.anyio
async def test_a_server_that_a_project_names_needs_trust_unless_its_address_is_set(finder, local, monkeypatch):
    """A project must not send its contents to an unknown server on a default port; the message has the address."""
    monkeypatch.setenv("HOME", str(finder / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    write_specialist(finder, "own", f"model: {MODELS['vllm']}")
    with local("vllm", lambda request: answers("yes")) as server:
        async with Runner() as runner:
            assert (await runner.run("own", "What?")).answer == "yes"
        monkeypatch.delenv("VLLM_BASE_URL")
        port = int(server.url.rpartition(":")[2])
        vllm = replace(local_servers.VLLM, port=port)
        monkeypatch.setitem(local_servers.SERVERS, "vllm:", vllm)
        async with Runner() as runner:
            with pytest.raises(NotTrusted, match=rf"own.md:4:1: model: would send .* to vLLM at {server.url};"):
                await runner.prepare("own", "What?")
        assert len(server.requests) == 1
        for trust in (True, False):
            async with Runner(trust=trust) as runner:
                assert (await runner.run("own", "What?")).answer == "yes"
        async with Runner(model=MODELS["vllm"]) as runner:
            assert (await runner.run("finder", "What?")).answer == "yes"
