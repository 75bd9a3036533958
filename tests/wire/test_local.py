"""Models of local servers from Python: shared providers, children, silent servers, and lengths of the context."""

import asyncio
from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import NotTrusted
from run_specialist.loop.evidence import NOTHING_READ
from run_specialist.providers import local_servers
from tests.wire.chat.replies import ChatReply, answers, calls, says, tool_call
from tests.wire.local_api import MODELS, llamacpp, ollama, vllm
from tests.wire.serving import write_specialist


@pytest.fixture
def finder(project):
    """Enter a project with one specialist."""
    write_specialist(project, "finder")
    return project


@pytest.mark.exhaustive
async def test_runs_of_a_runner_ask_the_server_once(finder, local):
    """Concurrent and later runs of one model share its provider, and what is known about the model."""
    with local("ollama", lambda request: answers("yes")) as server:
        async with Runner(model=MODELS["ollama"]) as runner:
            await runner.run("finder", "What?")
            outcomes = await asyncio.gather(*(runner.run("finder", "What?") for _ in range(3)))
        assert {outcome.answer for outcome in outcomes} == {"yes"}
        assert len(server.asked) == 3


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
async def test_a_run_is_resumed_on_the_same_local_model(finder, local):
    """The stored id leads to the same server again; for llama.cpp it has the name that the server reported."""
    with local("llamacpp", [answers("one"), answers("two")]) as server:
        async with Runner(model="llamacpp:", store=str(finder / "runs.db")) as runner:
            first = await runner.run("finder", "What?")
        async with Runner(store=str(finder / "runs.db")) as runner:
            second = await (await runner.resume(first.run_id, "And then?")).outcome()
        assert (first.answer, second.answer, second.model) == ("one", "two", MODELS["llamacpp"])
        assert {request.body["model"] for request in server.requests} == {"qwen.gguf"}


async def test_a_server_that_a_project_names_needs_trust_unless_its_address_is_set(finder, local, monkeypatch):
    """A project must not send its contents to an unknown server on a default port; the message has the address."""
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


@pytest.fixture
def finder_context(finder):
    """Enter the project, with notes that are too long for a small context."""
    write_specialist(finder, "finder", "tool_calls: native", "first_search: off")
    for number in range(40):
        (finder / f"n{number}.md").write_text("".join(f"line {line} of owls and mice\n" for line in range(2_000)))
    return finder


class Reader:
    """A model that reads another file with each call, and takes notes when asked to summarize."""

    def __init__(self, calls_a_turn):
        self.calls_a_turn = calls_a_turn
        self.read = 0

    def __call__(self, request) -> ChatReply:
        """Reply to any request."""
        if "tools" not in request.body:
            return says("- owls eat mice")
        if request.last_line == "0 tool calls remaining" or request.tool_choice != "auto":
            return answers("mice")
        numbers = range(self.read, self.read + self.calls_a_turn)
        self.read += self.calls_a_turn
        return says(None, *(tool_call("read", {"path": f"n{number % 40}.md"}) for number in numbers))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("n_ctx", "calls_a_turn"), [(4096, 1), (8192, 5)])
async def test_everything_fits_into_a_small_context(finder_context, local, n_ctx, calls_a_turn):
    """Prompt, tools, results and reply of every request fit, summaries included, and the run lands as usual."""
    with local("llamacpp", Reader(calls_a_turn), llamacpp(n_ctx)) as server:
        async with Runner(model="llamacpp:") as runner:
            outcome = await runner.run("finder", "What do owls eat?", tool_calls_limit=30)
    assert (outcome.status, outcome.answer) == ("landed", "mice")
    # In the smallest context the calls alone, which a summary keeps, leave no room for more results in the end.
    assert outcome.tool_calls.used == 30 if n_ctx > 4096 else 10 <= outcome.tool_calls.used < 30
    sizes = [len(request.raw) // 4 + request.body["max_completion_tokens"] for request in server.requests]
    assert max(sizes) <= n_ctx
    assert any("tools" not in request.body for request in server.requests)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "routes", "tokens", "reply"),
    [
        ("llamacpp", llamacpp(8192), 8192, 2048),
        ("ollama", ollama(40960, num_ctx=16384), 16384, 4096),
        ("vllm", vllm(262144), 262144, 32000),
    ],
)
async def test_the_length_limits_results_summaries_and_replies(finder_context, local, kind, routes, tokens, reply):
    """The capabilities contain the server's answer; limits that are not set are derived from it."""
    with local(kind, [answers("yes")], routes) as server:
        async with Runner(model=MODELS[kind]) as runner:
            run = await runner.prepare("finder", "What?")
            await run.outcome()
    capabilities, job = run.job.provider.capabilities, run.job
    assert (capabilities.context_tokens, capabilities.max_output_tokens) == (tokens, reply)
    assert job.settings.summarize_at < tokens - reply
    assert job.settings.tool_result_limit <= min(20_000, tokens)
    assert server.requests[0].body["max_completion_tokens"] == min(16_000, reply)


async def _ask_and_close(runner):
    """Ask once and close the connections of this event loop."""
    async with runner:
        return await runner.run("finder", "What?")


@pytest.mark.exhaustive
def test_a_server_started_again_with_another_context_is_believed(finder_context, local):
    """A second event loop asks for the length again; replies are bounded by it, and its warning is reported."""
    with local("ollama", [answers("yes"), answers("yes")], ollama(40960, num_ctx=32768)) as server:
        runner = Runner(model=MODELS["ollama"])
        first = asyncio.run(_ask_and_close(runner))
        server.routes.update(ollama(40960))
        second = asyncio.run(_ask_and_close(runner))
    assert [request.body["max_completion_tokens"] for request in server.requests] == [8192, 1024]
    assert "4,096 of 40,960 tokens" not in " ".join(first.warnings)
    assert "4,096 of 40,960 tokens" in " ".join(second.warnings)


def huge(wire):
    """Send a megabyte of JSON, which begins as the real answer does."""
    wire.send(200, b'{"default_generation_settings": {"n_ctx": 4096}, "x": "' + b"x" * 2**20 + b'"}')


@pytest.mark.exhaustive
@pytest.mark.parametrize("lie", [-4096, 10**18, b"<html>busy</html>", huge, lambda wire: wire.hold(None, 1)])
async def test_a_server_that_lies_about_it_is_ignored(finder_context, local, monkeypatch, lie):
    """The run starts as on any other server: nothing is known about the context, and nothing is cut because of it."""
    monkeypatch.setattr("run_specialist.providers.local_servers.QUERY_PATIENCE", 0.3)
    routes = llamacpp(lie) if isinstance(lie, int | str) else {**llamacpp(), "GET /props": lie}
    with local("llamacpp", [answers("yes")], routes):
        async with Runner(model="llamacpp:qwen.gguf") as runner:
            run = await runner.prepare("finder", "What?")
            outcome = await run.outcome()
    assert (outcome.answer, outcome.warnings) == ("yes", (NOTHING_READ,))
    assert run.job.provider.capabilities.context_tokens is None
    assert (run.job.settings.summarize_at, run.job.settings.tool_result_limit) == (None, 20_000)


@pytest.mark.exhaustive
async def test_explicit_settings_win_with_a_warning(finder_context, local):
    """A result limit of the file stays, also where it cannot fit, and the outcome says so."""
    write_specialist(finder_context, "wide", "tool_result_limit: 50000", "summarize_at: none")
    with local("llamacpp", [answers("yes")]):
        async with Runner(model="llamacpp:") as runner:
            run = await runner.prepare("wide", "What?")
            outcome = await run.outcome()
    assert (run.job.settings.tool_result_limit, run.job.settings.summarize_at) == (50_000, None)
    (warning,) = set(outcome.warnings) - {NOTHING_READ}
    assert "tool_result_limit: a result of 50,000 characters does not fit into the context of 8,192 tokens" in warning


@pytest.mark.exhaustive
@pytest.mark.parametrize(("length", "limit"), [(None, 20_000), (4096, 1_747)])
async def test_a_resumed_run_takes_the_context_of_its_new_model(finder_context, local, length, limit):
    """Limits derived from the first model's context do not bind the second, and archived results can still be read."""
    store = str(finder_context / "runs.db")
    with local("llamacpp", Reader(1), llamacpp(4096)):
        async with Runner(model="llamacpp:", store=store) as runner:
            first = await runner.prepare("finder", "What do owls eat?", tool_calls_limit=9)
            ended = await first.outcome()

    def read_archived(request):
        """Read the first result again, then answer."""
        if "tools" not in request.body:
            return says("- owls eat mice")
        first_id = next(message["tool_call_id"] for message in request.messages if message["role"] == "tool")
        done = request.messages[-1]["role"] == "tool"
        return answers("yes") if done else says(None, tool_call("get_tool_response", {"execution_id": first_id}))

    with local("vllm", read_archived, vllm(length)) as server:
        async with Runner(model=MODELS["vllm"], store=store) as runner:
            second = await runner.resume(ended.run_id, "Who?", tool_calls_limit=20, force=True)
            outcome = await second.outcome()
    assert first.job.settings.tool_result_limit < 2_000
    assert second.job.settings.tool_result_limit == pytest.approx(limit, rel=0.2)
    assert outcome.answer == "yes"
    asked = [request for request in server.requests if "tools" in request.body]
    assert "of owls and mice" in asked[1].results[-1]


@pytest.mark.exhaustive
async def test_results_that_were_cut_for_the_sake_of_others_say_how_to_read_on(finder_context, local):
    """The note of `read` names the line after the returned lines, not after the part that is kept."""
    with local("llamacpp", Reader(5), llamacpp(8192)) as server:
        async with Runner(model="llamacpp:") as runner:
            await runner.run("finder", "What do owls eat?", tool_calls_limit=5)
    results = server.requests[1].results
    assert len(results) == 5
    assert all("; read on by get_tool_response with execution_id=" in result for result in results)
    assert all("offset=" in result and "lines" not in result.splitlines()[-2] for result in results)
