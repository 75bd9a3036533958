"""Agents that delegate to specialists, forked runs, and spans of requests, over the wire with the real SDKs."""

import asyncio
import inspect
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from opentelemetry.trace import SpanKind

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner
from run_specialist.providers import anthropic
from run_specialist.tools.base import Tool
from tests.journals import load
from tests.loop_jobs import job, outcome_of
from tests.spans import recorded
from tests.wire import parent
from tests.wire.chat import replies as chat
from tests.wire.connected import CHAT, MESSAGES, asked, connected
from tests.wire.json_mode import written
from tests.wire.resumed_requests import LOOKER, Endpoint, check_continued, look, message_bytes
from tests.wire.simulator import Gate, faults, replies
from tests.wire.simulator.replies import answers, calls, says, tool_use
from tests.wire.specialists import looks

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
    async with (
        connected(api) as provider,
        Runner(root=files, dir=files, provider=provider, store=f"{files}/runs.db") as runner,
    ):
        yield provider.client, delegate_tool(["toads", "owls"], runner=runner, **options)


def conversation(first, last="Only toads do."):
    """Return a policy: the agent says its first blocks and then answers, the specialists read a note and answer."""

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
            both = [chat.tool_call("delegate", OWLS), chat.tool_call("delegate", TOADS)]
            return chat.says("Only toads do.") if request.results else chat.says(None, *both)
        return chat.answers("it stands in the notes")

    api = chat_api(policy)
    async with connected(api) as provider, Runner(root=files, dir=files, provider=provider, store="none") as runner:
        delegate = delegate_tool(["owls", "toads"], runner=runner)
        assert await parent.ask_chat(provider.client, delegate, QUESTION) == "Only toads do."
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
            call = tool_use("delegate", {"specialist": "thoughts-analyzer", "query": "Why a soft landing?"})
            return says("So that nothing is lost.") if request.results else says(call)
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


@pytest.mark.exhaustive
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


@pytest.fixture
def endpoint(messages_api, chat_api, tmp_path):
    """Return a function that starts an endpoint on either API."""

    def start(kind, script, **options):
        api = (messages_api if kind == MESSAGES else chat_api)(script)
        return Endpoint(kind, api, tmp_path, stream=False, **options)

    return start


async def forked(one, at, question=None, source="last", **options):
    """Fork a run at the endpoint."""
    return await one.work(lambda runner, watch: runner.fork(source, question, at=at, watch=watch, **options))


@pytest.mark.parametrize("kind", [MESSAGES, CHAT])
async def test_f_1_with_the_same_model_the_prefix_is_sent_byte_for_byte(endpoint, kind):
    """A fork at turn 2 repeats the request after turn 2 byte for byte, so that the prompt cache can be read."""
    say = replies if kind == MESSAGES else chat
    script = [*(look(say, q) for q in "abc"), say.answers("some"), look(say, "d"), say.answers("more")]
    one = endpoint(kind, script)
    source, first = await one.ask()
    run, outcome = await forked(one, 2, source=source.run_id)
    assert one.requests[4].raw == one.requests[2].raw
    check_continued(one, one.requests[4], one.requests[5])
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "more", 3)
    assert run.run_id != first.run_id
    assert load(f"sqlite:///{one.folder}/runs.db", source.run_id).outcome["answer"] == "some"


THINKS = [
    replies.says(replies.thinking(f"hm {q}"), "I look.", replies.tool_use("look", {"query": q})) for q in ("a", "b")
]
REASONS = [
    chat.says("<think>hm</think>I look.", chat.tool_call("look", {"query": q}, f"functions.look:{n}"))
    for n, q in enumerate("ab")
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "script"), [(MESSAGES, THINKS), (CHAT, REASONS)])
async def test_f_2_another_model_gets_no_thinking_of_the_first(endpoint, kind, script):
    """A run of one API continues on the other: without thinking, with ids that it accepts, with a note about it."""
    other = CHAT if kind == MESSAGES else MESSAGES
    say = replies if other == MESSAGES else chat
    one = endpoint(kind, [*script, (replies if kind == MESSAGES else chat).answers("some")])
    source, _ = await one.ask()
    two = endpoint(other, [look(say, "c"), say.answers("more")])
    _, outcome = await forked(two, 2, source=source.run_id)
    assert outcome.answer == "more"
    sent = two.requests[0]
    assert b"hm" not in message_bytes(sent)
    assert b"I look." in message_bytes(sent)
    assert "did the work above; its thinking was left out" in message_bytes(sent).decode()
    assert any("thoughts" in warning and "left out" in warning for warning in outcome.warnings)
    assert not getattr(sent, "oddities", [])


@pytest.mark.parametrize("kind", [MESSAGES, pytest.param(CHAT, marks=pytest.mark.exhaustive)])
async def test_f_2_calls_as_json_go_on_at_the_other_api(endpoint, kind):
    """A run whose calls are JSON is forked with another model of the other API, whose calls are JSON too."""
    other = CHAT if kind == MESSAGES else MESSAGES
    texts = [written("look", query="a", part=None), written("respond", answer="some", evidence=None, gaps=None)]
    say = {MESSAGES: replies.says, CHAT: chat.says}
    one = endpoint(kind, [say[kind](text) for text in texts])
    source, _ = await one.ask(LOOKER.model_copy(update={"tool_calls": "json"}))
    two = endpoint(other, [say[other](texts[1])])
    _, outcome = await forked(two, 1, source=source.run_id)
    assert (outcome.answer, outcome.tool_calls.used) == ("some", 1)
    assert "tools" not in two.requests[0].body
    assert "note on 'a', part 0" in str(two.requests[0].messages)


async def test_f_9_a_fork_in_the_middle_of_a_landing_raises_its_limit(endpoint):
    """After a landing rung that the model ignored, a fork with a higher limit gets its tools back."""
    script = [
        look(replies, "a"),
        look(replies, "b"),
        replies.answers("some"),
        look(replies, "c"),
        replies.answers("more"),
    ]
    one = endpoint(MESSAGES, script)
    source, _ = await one.ask(tool_calls_limit=1, landing="order")
    _, outcome = await forked(one, 2, source=source.run_id, tool_calls_limit=4)
    assert (outcome.status, outcome.answer) == ("answered", "more")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (2, 1)
    check_continued(one, one.requests[1], one.requests[3], entered=False)
    assert "you now have 4 tool calls in all, of which 1 is used" in str(one.requests[3].messages[-1])


LONG = Tool("look", "Looks.", lambda query: f"note on {query} {'x' * 19_000}")
"""A tool whose results of nearly 5,000 tokens are large enough to be cached and soon summarized."""


@pytest.fixture
def spans():
    """Record the spans of the test."""
    with recorded() as spans:
        yield spans


def billed(requests):
    """Return the billed tokens of all requests: input in total, output, read from the cache, written to it."""
    usages = [request.usage for request in requests if request.status == 200]
    read, written = ([usage[f"cache_{key}_input_tokens"] for usage in usages] for key in ("read", "creation"))
    plain = [usage["input_tokens"] for usage in usages]
    return [
        sum(plain) + sum(read) + sum(written),
        sum(usage["output_tokens"] for usage in usages),
        sum(read),
        sum(written),
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_each_messages_api_request_has_one_span(spans, messages_api, stream):
    """Each Messages API request has one span with the billed tokens, cached ones included; the SDK adds none."""
    api = messages_api([looks("a"), looks("b"), looks("c"), answers("mice")])
    outcome = await asked(api, 3, tools=[LONG], watch=(lambda delta: None) if stream else None)
    requests = spans.named("chat")
    assert spans.names == [
        *["chat claude-haiku-5-5", "execute_tool look"] * 3,
        "chat claude-haiku-5-5",
        "invoke_agent looker",
    ]
    assert {spans.parent(span) for span in requests} == {"invoke_agent looker"}
    assert {span.kind for span in requests} == {SpanKind.CLIENT}
    run = spans.one("invoke_agent").attributes
    for attributes in (run, *(span.attributes for span in requests)):
        assert attributes["gen_ai.provider.name"] == "anthropic"
        assert attributes["gen_ai.request.model"] == attributes["gen_ai.response.model"] == "claude-haiku-5-5"
    assert [span.attributes["gen_ai.response.finish_reasons"] for span in requests] == [("tool_use",)] * 4
    assert [span.attributes["gen_ai.request.max_tokens"] for span in requests] == [
        request.body["max_tokens"] for request in api.requests
    ]
    assert spans.usage("chat") == spans.usage("invoke_agent") == billed(api.requests)
    assert sum(spans.usage("chat")[:2]) == outcome.usage.total_tokens
    assert spans.usage("chat")[2] > 0
    assert not [name for request in api.requests for name in request.headers if name.lower() == "traceparent"]


async def test_a_retried_request_has_one_span(spans, messages_api):
    """A request that the SDK retries has one span over all attempts, and no error."""
    api = messages_api([faults.overloaded(retry_after=0), answers("mice")])
    outcome = await asked(api, 3, retries=1)
    assert (outcome.status, len(api.requests)) == ("answered", 2)
    assert "error.type" not in spans.one("chat").attributes


async def test_s0_10_a_refused_request_has_an_error_span_without_usage(spans, messages_api):
    """A request refused for forcing has an error span without usage; the order after it has a span of its own."""
    refusal = faults.invalid("tool_choice: forcing a tool is not supported")
    api = messages_api([looks("a"), refusal, answers("mice")])
    outcome = await asked(api, 1)
    assert outcome.status == "landed"
    assert [span.attributes.get("error.type") for span in spans.named("chat")] == [None, "ForcingRefused", None]
    assert spans.usage("chat") == spans.usage("invoke_agent") == billed(api.requests)


async def test_s0_7_concurrent_runs_have_separate_span_trees(spans, messages_api):
    """Eight concurrent runs over one client have eight span trees, each with its own requests and tokens."""
    api = messages_api(lambda request: answers("mice") if request.results else looks("a"))
    async with connected(api) as provider:
        await asyncio.gather(*(outcome_of(job(provider, 5, question=f"No. {number}?")) for number in range(8)))
    runs = {span.context.span_id: span.attributes["gen_ai.usage.input_tokens"] for span in spans.named("invoke_agent")}
    below = dict.fromkeys(runs, 0)
    for span in spans.named("chat"):
        below[span.parent.span_id] += span.attributes["gen_ai.usage.input_tokens"]
    assert len(runs) == 8
    assert below == runs
    assert len({span.context.trace_id for span in spans.all}) == 8
