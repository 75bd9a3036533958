"""An agent that delegates to specialists, over the wire: the real SDKs of both loops against one simulated API."""

import asyncio
import inspect
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner
from run_specialist.providers import anthropic, openai_chat
from tests.wire import parent
from tests.wire.chat import replies as chat
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import answers, calls, says, tool_use

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
QUESTION = "Do owls and toads sleep in winter?"
OWLS = {"specialist": "owls", "query": "Do owls sleep in winter?"}
TOADS = {"specialist": "toads", "query": "Do toads sleep in winter?"}


@pytest.fixture
def files(tmp_path):
    """Create a folder with two specialists and their notes."""
    (tmp_path / "notes").mkdir()
    for name, habit in (("owls", "Owls hunt in winter."), ("toads", "Toads sleep in winter.")):
        (tmp_path / "notes" / f"{name}.md").write_text(f"# {name}\n\n{habit}\n")
        head = f"---\nname: {name}\ndescription: Knows {name}.\ntools: read\ntool_calls_limit: 2\n---\n"
        (tmp_path / f"{name}.md").write_text(f"{head}You know {name}.\n")
    return tmp_path


@asynccontextmanager
async def of_messages(api, files, **options):
    """Yield an SDK client for an agent on the Messages API, and the tool `delegate`."""
    async with anthropic.make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = anthropic.AnthropicProvider("haiku", client)
        async with Runner(root=files, dir=files, provider=provider, store=f"{files}/runs.db") as runner:
            yield client, delegate_tool(["toads", "owls"], runner=runner, **options)


def conversation(first, last="Only toads do."):
    """Return a policy in which the agent delegates and then answers, and the specialists read a note and then answer.

    first: Blocks of the agent's first reply.
    """

    def policy(request):
        if request.tool_names == ["delegate"]:
            return says(last) if request.results else says(*first)
        name = "owls" if "owls" in request.messages[0]["content"][0]["text"] else "toads"
        if not request.results:
            return calls("read", {"path": f"notes/{name}.md"})
        quote = "Owls hunt in winter." if name == "owls" else "Toads sleep in winter."
        evidence = [{"source": f"notes/{name}.md:3", "quote": quote}]
        return answers(f"{name}: it stands in the notes", evidence=evidence, gaps=["Other seasons."])

    return policy


def of_parent(api):
    """Return the requests of the agent, without those of the specialists."""
    return [one for one in api.requests if one.tool_names == ["delegate"]]


async def test_an_agent_delegates_to_two_specialists_in_one_turn(messages_api, files):
    """Two calls in one turn give two runs and two complete results in call order; then the agent answers."""
    api = messages_api(conversation([tool_use("delegate", OWLS), tool_use("delegate", TOADS)]))
    async with of_messages(api, files) as (client, delegate):
        assert await parent.ask_messages(client, delegate, QUESTION) == "Only toads do."
    first, second = of_parent(api)
    assert first.body["tools"] == second.body["tools"] == [delegate.definition]
    owls, toads = second.results.values()
    lines = owls.split("\n\n")
    assert lines[:4] == [
        "[owls: answered after 1 of 2 tool calls]",
        "owls: it stands in the notes",
        "Evidence:\n- notes/owls.md:3: Owls hunt in winter. (verified)",
        "Gaps:\n- Other seasons.",
    ]
    assert 'call delegate with run_id "' in lines[4]
    assert toads.startswith("[toads: answered after 1 of 2 tool calls]\n\ntoads: it stands")
    assert [block.get("is_error") for block in second.messages[-1]["content"]] == [False, False]
    assert len(api.requests) == 2 + 2 * 2


async def test_an_agent_on_chat_completions_delegates_too(chat_api, files):
    """On chat completions, the results are `tool` messages in call order, and the definition has that API's form."""

    def policy(request):
        if [tool["function"]["name"] for tool in request.body["tools"]] == ["delegate"]:
            asked = [chat.tool_call("delegate", OWLS), chat.tool_call("delegate", TOADS)]
            return chat.says("Only toads do.") if request.results else chat.says(None, *asked)
        return chat.answers("it stands in the notes")

    api = chat_api(policy)
    async with openai_chat.make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = openai_chat.ChatProvider("some-model", client)
        async with Runner(root=files, dir=files, provider=provider, store="none") as runner:
            delegate = delegate_tool(["owls", "toads"], runner=runner)
            assert await parent.ask_chat(client, delegate, QUESTION) == "Only toads do."
    last = api.requests[-1]
    assert last.body["tools"] == [delegate.function]
    assert [text.splitlines()[0] for text in last.results] == [
        "[owls: answered after 0 of 2 tool calls]",
        "[toads: answered after 0 of 2 tool calls]",
    ]
    assert "run_id" not in "".join(last.results)


async def test_cancelling_the_agent_aborts_its_specialist(messages_api, files):
    """Cancelling the agent propagates: the specialist's run ends first, and its store records it as aborted."""
    gate = Gate()
    play = conversation([tool_use("delegate", TOADS)])

    def policy(request):
        late = request.tool_names != ["delegate"] and request.results
        return says("too late", gate=gate) if late else play(request)

    api = messages_api(policy)
    async with of_messages(api, files) as (client, delegate):
        work = asyncio.create_task(parent.ask_messages(client, delegate, QUESTION))
        await asyncio.to_thread(gate.wait_for_request, 60)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        (run,) = (await asyncio.to_thread(listed, f"{files}/runs.db"))[:1]
        assert (run.specialist, run.status, run.tool_calls) == ("toads", "aborted", 1)
    gate.open()


async def test_the_example_of_the_docs_answers(messages_api, monkeypatch):
    """With the tool's own runner, the example uses this repository's specialists and the environment's endpoint."""
    monkeypatch.chdir(ROOT)

    def policy(request):
        if request.tool_names == ["delegate"]:
            asked = {"specialist": "thoughts-analyzer", "query": "Why a soft landing?"}
            return says("So that nothing is lost.") if request.results else says(tool_use("delegate", asked))
        return answers("Nothing is lost.", gaps=["costs"]) if request.calls_so_far else calls("ls", {})

    api = messages_api(policy)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
    async with anthropic.make_client(api_key="test", max_retries=0) as client:
        assert await parent.answer(client, "Why?") == "So that nothing is lost."
    (result,) = api.requests[-1].results.values()
    assert result.startswith("[thoughts-analyzer: answered after 1 of 12 tool calls]")


def test_the_documented_examples_equal_the_tested_code():
    """Every example of docs/agents.md is identical to code in tests/wire/parent.py, except for docstrings."""
    source = inspect.getsource(parent)
    told = (ROOT / "docs/agents.md").read_text(encoding="utf-8").split("```python\n")[1:]
    examples = [block.split("```")[0] for block in told]
    assert len(examples) == 4
    without_words = "".join(part for number, part in enumerate(source.split('"""')) if number % 2 == 0)
    bare = "\n".join(line for line in without_words.splitlines() if line.strip())
    assert [one for one in examples if "\n".join(line for line in one.splitlines() if line) not in bare] == []


def listed(path):
    """Return the runs of a store."""
    from run_specialist.store.reader import Store

    with Store(f"sqlite:///{path}") as store:
        return store.runs()


async def test_a_run_id_continues_the_run_with_a_refreshed_budget(messages_api, files):
    """A returned run_id continues the transcript; the new limit is the used calls plus the file's limit."""
    script = [
        calls("read", {"path": "notes/toads.md"}),
        calls("read", {"path": "notes/owls.md"}),
        answers("Toads do."),
        calls("read", {"path": "notes/toads.md", "offset": 2}),
        answers("Since ever."),
    ]
    api = messages_api(script)
    async with of_messages(api, files) as (_, delegate):
        first = await delegate(TOADS)
        run_id = first.outcome.run_id
        assert first.text.startswith("[toads: landed after 2 of 2 tool calls]")
        assert f'run_id "{run_id}"' in first.text
        again = await delegate(json.dumps({**TOADS, "query": "Since when?", "run_id": run_id}))
    assert (again.outcome.run_id, again.outcome.answer) == (run_id, "Since ever.")
    assert again.text.startswith("[toads: answered after 3 of 4 tool calls]")
    note = str(api.requests[3].messages[-1]["content"])
    assert "you now have 4 tool calls in all, of which 2 are used" in note
    assert "The user now asks: Since when?" in note
    assert api.requests[3].body["system"] == api.requests[0].body["system"]
