"""The context length of a local model: requested from the server, respected in every request, and not trusted."""

import asyncio

import pytest

from run_specialist.api.runner import Runner
from run_specialist.loop.evidence import NOTHING_READ
from tests.wire.chat.replies import ChatReply, answers, says, tool_call
from tests.wire.local_api import MODELS, llamacpp, lmstudio, ollama, vllm
from tests.wire.serving import write_specialist


@pytest.fixture
def finder(tmp_path, monkeypatch):
    """Enter a project with one specialist and notes that are too long for a small context."""
    for folder in (".git", "specialists"):
        (tmp_path / folder).mkdir()
    write_specialist(tmp_path, "finder")
    for number in range(40):
        (tmp_path / f"n{number}.md").write_text("".join(f"line {line} of owls and mice\n" for line in range(2_000)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("n_ctx", "calls_a_turn"), [(4096, 1), (8192, 1), (8192, 5), (32768, 1), (32768, 5)])
@pytest.mark.anyio
async def test_everything_fits_into_a_small_context(finder, local, n_ctx, calls_a_turn):
    """Prompt, tools, results and reply of every request fit, summaries included, and the run lands as usual."""
    with local("llamacpp", Reader(calls_a_turn), llamacpp(n_ctx)) as server:
        async with Runner(model="llamacpp:") as runner:
            outcome = await runner.run("finder", "What do owls eat?", tool_calls_limit=30)
    assert (outcome.status, outcome.answer) == ("landed", "mice")
    # In the smallest context the calls alone, which a summary keeps, leave no room for more results in the end.
    assert outcome.tool_calls.used == 30 if n_ctx > 4096 else 10 <= outcome.tool_calls.used < 30
    sizes = [len(request.raw) // 4 + request.body["max_completion_tokens"] for request in server.requests]
    assert max(sizes) <= n_ctx
    assert any("tools" not in request.body for request in server.requests) or n_ctx > 8192


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("kind", "routes", "tokens", "reply"),
    [
        ("llamacpp", llamacpp(8192), 8192, 2048),
        ("ollama", ollama(40960, num_ctx=16384), 16384, 4096),
        ("ollama", ollama(40960), 4096, 1024),
        ("lmstudio", lmstudio(32768, 12288), 12288, 3072),
        ("vllm", vllm(262144), 262144, 32000),
    ],
)
@pytest.mark.anyio
async def test_the_length_limits_results_summaries_and_replies(finder, local, kind, routes, tokens, reply):
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


def test_a_server_started_again_with_another_context_is_believed(finder, local):
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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    "lie",
    [-4096, 0, 10**18, "4096", b"<html>busy</html>", huge, lambda wire: wire.reset(), lambda wire: wire.hold(None, 1)],
)
@pytest.mark.anyio
async def test_a_server_that_lies_about_it_is_ignored(finder, local, monkeypatch, lie):
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


@pytest.mark.anyio
async def test_explicit_settings_win_with_a_warning(finder, local):
    """A result limit of the file stays, also where it cannot fit, and the outcome says so."""
    write_specialist(finder, "wide", "tool_result_limit: 50000", "summarize_at: none")
    with local("llamacpp", [answers("yes")]):
        async with Runner(model="llamacpp:") as runner:
            run = await runner.prepare("wide", "What?")
            outcome = await run.outcome()
    assert (run.job.settings.tool_result_limit, run.job.settings.summarize_at) == (50_000, None)
    (warning,) = set(outcome.warnings) - {NOTHING_READ}
    assert "tool_result_limit: a result of 50,000 characters does not fit into the context of 8,192 tokens" in warning


@pytest.mark.parametrize(("length", "limit"), [(131072, 20_000), (None, 20_000), (4096, 1_747)])
@pytest.mark.anyio
async def test_a_resumed_run_takes_the_context_of_its_new_model(finder, local, length, limit):
    """Limits derived from the first model's context do not bind the second, and archived results can still be read."""
    store = str(finder / "runs.db")
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


@pytest.mark.anyio
async def test_a_resumed_run_is_warned_about_the_context_of_its_new_model(finder, local):
    """An explicit limit that fitted the first model need not fit the second."""
    write_specialist(finder, "wide", "tool_result_limit: 50000")
    store = str(finder / "runs.db")
    with local("vllm", [answers("one")], vllm(131072)):
        async with Runner(model=MODELS["vllm"], store=store) as runner:
            first = await runner.run("wide", "What?")
    with local("llamacpp", [answers("two")], llamacpp(8192)):
        async with Runner(model="llamacpp:", store=store) as runner:
            second = await (await runner.resume(first.run_id, "And?", force=True)).outcome()
    assert first.warnings == (NOTHING_READ,)
    (warning,) = set(second.warnings) - {NOTHING_READ}
    assert "tool_result_limit: a result of 50,000" in warning


@pytest.mark.anyio
async def test_results_that_were_cut_for_the_sake_of_others_say_how_to_read_on(finder, local):
    """The note of `read` names the line after the returned lines, not after the part that is kept."""
    with local("llamacpp", Reader(5), llamacpp(8192)) as server:
        async with Runner(model="llamacpp:") as runner:
            await runner.run("finder", "What do owls eat?", tool_calls_limit=5)
    results = server.requests[1].results
    assert len(results) == 5
    assert all("; read on by get_tool_response with execution_id=" in result for result in results)
    assert all("offset=" in result and "lines" not in result.splitlines()[-2] for result in results)
