"""Tool calls as JSON that a server constrains: cut, with MCP tools and children, and resumed."""

import json
from dataclasses import replace

import pytest

from run_specialist.api.runner import Runner
from run_specialist.loop.run import Run
from run_specialist.providers import errors
from run_specialist.providers.local_servers import LLAMACPP
from run_specialist.providers.openai_chat import ChatProvider, make_client
from run_specialist.record.journal import Received
from run_specialist.specialist.fields import Specialist
from tests.journals import Notebook, keep
from tests.loop_jobs import LOOK, job, outcome_of
from tests.wire.chat.faults import invalid
from tests.wire.chat.replies import answers, calls, says, tool_call
from tests.wire.connected import CHAT, MESSAGES, connected, runner_on
from tests.wire.json_mode import JSON_MODE, looks, offered, responds, written
from tests.wire.mcp_servers.running_servers import script
from tests.wire.resumed_requests import LOOKER, Endpoint, message_bytes, prefix
from tests.wire.serving import write_specialist


async def test_g8_a_call_and_an_answer_in_json(ask_chat):
    """No tools are sent, but listed in the system prompt; calls and results are plain messages."""
    outcome, api = await ask_chat(
        [looks("a"), responds("yes", evidence=[{"source": "x:1", "quote": "note on 'a'"}])], **JSON_MODE
    )
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "yes", 1)
    assert [quote.verified for quote in outcome.evidence] == [True]
    assert all("tools" not in sent.body and "tool_choice" not in sent.body for sent in api.requests)
    assert [offered(sent) for sent in api.requests] == [["look", "respond"]] * 2
    assert api.requests[0].body["response_format"]["json_schema"]["name"] == "call"
    *_, called, result = api.requests[1].messages
    assert called == {"role": "assistant", "content": written("look", query="a")}
    assert result == {"role": "user", "content": "Result of look:\nnote on 'a', part 0"}
    system = api.requests[0].messages[0]["content"]
    assert system.startswith("You look things up.")
    assert "- look: Look something up." in system
    assert "query (string | null)" in system
    assert "- respond: " in system


async def test_g8_the_landing_offers_respond_alone(ask_chat):
    """At the limit the union shrinks to `respond`; the countdown is the last line of the result."""
    outcome, api = await ask_chat([looks("a"), looks("b"), responds("so far")], 2, **JSON_MODE)
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "so far", "schema")
    assert [offered(sent) for sent in api.requests] == [["look", "respond"]] * 2 + [["respond"]]
    assert api.requests[1].last_line == "1 tool call remaining"
    assert api.requests[2].last_line == "0 tool calls remaining"


async def test_g8_a_landing_that_is_ignored_asks_for_text(ask_chat):
    """A server that ignores the schema at the limit is asked for text, without a schema."""
    outcome, api = await ask_chat([looks("a"), looks("b"), says("In words.")], 1, **JSON_MODE)
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "In words.", "none")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (1, 1)
    assert "response_format" not in api.requests[2].body
    assert api.requests[2].last_line == "Answer now, as plain text and not as JSON."


async def test_g8_text_that_is_no_call_is_the_answer(ask_chat):
    """A server that ignores the schema answers in text: it is the answer, with a warning."""
    outcome, _ = await ask_chat([says("Plain words.")], **JSON_MODE)
    assert (outcome.status, outcome.answer) == ("answered", "Plain words.")
    assert any("ignored the JSON Schema" in warning for warning in outcome.warnings)


SHORTER = "Your last reply was cut off because it was too long. Repeat it, much shorter."


def cut(text: str):
    """Build a reply that ends at the length limit."""
    return says(text, finish_reason="length")


def rooms(api) -> list[int]:
    """Return the room of each request [tokens]."""
    return [sent.body["max_completion_tokens"] for sent in api.requests]


async def test_g8_a_cut_call_is_asked_for_again_shorter(ask_chat):
    """A cut call is not run; the repeated request says so to the model, and the cut turn is not part of the history."""
    script = [looks("a"), cut('{"call": {"tool": "look", "arguments": {"query": "bbbbb'), looks("b"), responds("yes")]
    outcome, api = await ask_chat(script, **JSON_MODE)
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 2)
    assert rooms(api) == [2_048, 2_048, 4_096, 4_096]
    again, before = api.requests[2].messages, api.requests[1].messages
    assert again[:-1] == before[:-1]
    assert again[-1]["content"] == f"{before[-1]['content']}\n{SHORTER}"
    # What the model has read stays in the history.
    assert api.requests[3].messages[: len(again)] == again


async def test_x_6_an_answer_in_json_that_is_cut_twice_is_kept(ask_chat):
    """Of an answer that is cut twice, the part that arrived is the answer."""
    half = cut('{"call": {"tool": "respond", "arguments": {"answer": "so far so g')
    outcome, _ = await ask_chat([half, half], **JSON_MODE)
    assert (outcome.status, outcome.answer) == ("partial", "so far so g\n[truncated]")


async def test_x_6_a_call_in_json_that_is_cut_twice_is_not_run(ask_chat):
    """A call that is cut twice is answered, lands, and leaves nothing of its arguments in the history."""
    half = cut('{"call": {"tool": "look", "arguments": {"query": "bbbbb')
    outcome, api = await ask_chat([half, half, responds("what I know")], **JSON_MODE)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("landed", "what I know", 0)
    *_, called, result = api.requests[2].messages
    assert called["content"] == written("look")
    assert "your reply was cut off" in result["content"]
    assert offered(api.requests[2]) == ["respond"]


async def test_x_6_json_that_is_cut_before_it_names_a_tool_is_no_answer(ask_chat):
    """A fragment of JSON is not returned as the answer."""
    outcome, _ = await ask_chat([cut('{"ca'), cut('{"ca')], **JSON_MODE)
    assert outcome.status == "failed"
    assert "{" not in outcome.answer


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("settings", "limit", "expected"),
    [
        ({"evidence": "require"}, 9, [["look"], ["look", "respond"]]),
        ({"evidence": "check"}, 0, [["respond"]]),
        ({"evidence": "require", "tools": ()}, 9, [["respond"]] * 2),
    ],
)
async def test_g8_evidence_that_is_required_needs_a_call_first(ask_chat, settings, limit, expected):
    """With `evidence: require` the first reply is no answer; where nothing can be read, the answer goes back once."""
    answer = responds("yes", evidence=[{"source": "x:1", "quote": "note on 'a'"}])
    script = [looks("a") if "look" in offers else answer for offers in expected[:-1]]
    outcome, api = await ask_chat([*script, answer], limit, **settings, **JSON_MODE)
    was_returned = expected == [["respond"]] * 2
    assert (outcome.answer, outcome.status == "partial") == ("yes", was_returned)
    assert [offered(sent) for sent in api.requests] == expected


async def test_g8_a_fenced_call_is_a_call(ask_chat):
    """A server that ignores the schema, with a model that follows the prompt, may put its JSON into a fence."""
    fenced = says(f"```json\n{written('look', query='a', part=None)}\n```")
    outcome, _ = await ask_chat([fenced, responds("yes")], **JSON_MODE)
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.failed) == ("yes", 1, 0)


async def test_g8_reasoning_goes_back_beside_the_call(ask_chat):
    """Reasoning that came with a call is sent back with it, and the model is given room to think from then on."""
    thought = says(written("look", query="a", part=None), reasoning_content="secret thought")
    outcome, api = await ask_chat([thought, responds("yes")], **JSON_MODE)
    assert api.requests[1].messages[2] == {
        "role": "assistant",
        "content": written("look", query="a"),
        "reasoning_content": "secret thought",
    }
    assert rooms(api) == [2_048, 16_000]
    assert "secret" not in repr(outcome)


async def test_g8_native_calls_that_nobody_asked_for_are_run_too(ask_chat):
    """A server that sends native calls all the same, with one id for all of them, is understood."""
    same = says(None, tool_call("look", {"query": "a"}, "call_1"))
    outcome, api = await ask_chat([same, same, responds("yes")], **JSON_MODE)
    assert (outcome.answer, outcome.tool_calls.used) == ("yes", 2)
    assert [message["role"] for message in api.requests[2].messages[2:]] == ["assistant", "user"] * 2


async def test_g8_an_endpoint_that_has_refused_the_schema_is_not_asked_again(chat_api):
    """The next run on the same provider fails immediately with the same error."""
    refusal = invalid("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.")
    api = chat_api([refusal])
    async with connected(api) as provider:
        outcomes = [await outcome_of(job(provider, **JSON_MODE)) for _ in range(2)]
    assert [(outcome.status, outcome.exit_code) for outcome in outcomes] == [("failed", 3)] * 2
    assert outcomes[0].error.startswith(outcomes[1].error)
    assert "use native" in outcomes[1].error
    assert "not supported with this model" in outcomes[0].error
    assert len(api.requests) == 1


@pytest.mark.exhaustive
async def test_g8_mcp_tools_are_called_in_json(chat_api, project, tmp_path, monkeypatch):
    """MCP tools are in the union in strict form; their calls count, fail, and land like those of the API itself."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    server = json.dumps({"good": {"command": list(script("good", str(tmp_path)))}})
    keys = ("tools: ['mcp__good__*']", f"mcp_servers: {server}", "tool_calls: json", "tool_calls_limit: 3")
    write_specialist(project, "finder", *keys)
    replies = [
        says(written("mcp__good__add", a=1, b=2)),
        says(written("mcp__good__fail")),
        says(written("mcp__good__echo", text="owls")),
        responds("It is 3."),
    ]
    api = chat_api(replies)
    async with runner_on(api, root=project, trust=True) as runner:
        outcome = await runner.run("finder", "What is 1 + 2?")
    assert (outcome.status, outcome.answer) == ("landed", "It is 3.")
    assert (outcome.tool_calls.used, outcome.tool_calls.failed) == (3, 1)
    assert {"mcp__good__add", "mcp__good__echo", "respond"} <= set(offered(api.requests[0]))
    assert offered(api.requests[-1]) == ["respond"]
    assert api.requests[1].messages[-1]["content"].startswith("Result of mcp__good__add:\n3")


async def test_g8_a_parent_with_calls_in_json_asks_a_child_with_native_ones(chat_api, project):
    """`delegate` is one of the tools of the union, and the answer of the child is the result of the call."""
    write_specialist(project, "parent", "tools: []", "agents: [child]", "tool_calls: json")
    write_specialist(project, "child", "tools: []")
    asks = says(written("delegate", specialist="child", query="Which owls?"))

    def policy(request):
        results = len(request.messages) > 2
        if "tools" in request.body:
            return answers("barn owls") if results else calls("look", {"query": "owls"})
        return responds("The child knows: barn owls.") if results else asks

    api = chat_api(policy)
    async with runner_on(api, root=project, tools=[LOOK]) as runner:
        outcome = await runner.run("parent", "What is known?")
    assert (outcome.status, outcome.answer) == ("answered", "The child knows: barn owls.")
    assert [child.specialist for child in outcome.children] == ["child"]
    assert offered(api.requests[0]) == ["delegate", "get_tool_response", "look", "respond"]
    last = api.requests[-1].messages[-1]["content"]
    assert last.startswith("Result of delegate:\n")
    assert "barn owls" in last


IN_JSON = LOOKER.model_copy(update={"tool_calls": "json"})
LOOKS = [written("look", query=query, part=None) for query in "abc"]
SOME, MORE = (written("respond", answer=answer, evidence=None, gaps=None) for answer in ("some", "more"))
CUT = '{"call": {"tool": "look", "arguments": {"query": "aaa'


@pytest.fixture(params=[MESSAGES, CHAT])
def endpoint(request, messages_api, chat_api, tmp_path):
    """Return a function that starts an endpoint of each API with a script of texts."""

    def start(*texts):
        one = Endpoint(request.param, None, tmp_path, stream=False)
        at_limit = {"stop_reason": "max_tokens"} if request.param == MESSAGES else {"finish_reason": "length"}
        script = [one.say.says(text, **(at_limit if text == CUT else {})) for text in texts]
        one.api = (messages_api if request.param == MESSAGES else chat_api)(script)
        return one

    return start


@pytest.mark.exhaustive
async def test_g8_a_run_is_resumed_with_the_bytes_that_were_sent(endpoint):
    """After a limit, the resumed request begins with all that was sent before, and the union is whole again."""
    one = endpoint(LOOKS[0], SOME, LOOKS[1], MORE)
    await one.ask(IN_JSON, tool_calls_limit=1)
    _, outcome = await one.resume(tool_calls_limit=6)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "more", 2)
    for before, after in zip(one.requests, one.requests[1:], strict=False):
        assert message_bytes(after).startswith(message_bytes(before))
        assert after.messages[0] == before.messages[0]
    assert '"enum":["look"]' not in one.requests[1].raw.decode()
    assert '"enum":["look"]' in one.requests[2].raw.decode()
    assert "The budget was refreshed" in str(one.requests[2].messages[-1]["content"])


async def stop_after_the_first_reply(one):
    """Store a run as if its process had died when the first reply had arrived."""
    notebook = Notebook()

    async def begin(runner, watch):
        del watch
        run = await runner.prepare(IN_JSON, "What is known?")
        return Run(run.job, journal=notebook)

    await one.work(begin)
    await keep(f"sqlite:///{one.folder}/runs.db", notebook.until(Received, 1))


@pytest.mark.exhaustive
async def test_g8_a_pending_reply_is_acted_upon_before_any_request(endpoint):
    """A call that arrived before the process died gets its result on resume, and is not paid for again."""
    one = endpoint(LOOKS[0], SOME, MORE)
    await stop_after_the_first_reply(one)
    _, outcome = await one.resume()
    assert (outcome.answer, outcome.tool_calls.used) == ("more", 1)
    assert prefix(one.requests[2]) == prefix(one.requests[1])
    assert message_bytes(one.requests[2]).startswith(message_bytes(one.requests[0]))
    assert "Result of look:\\nNot finished: the process ended" in one.requests[2].raw.decode()


@pytest.mark.exhaustive
async def test_g8_a_run_whose_reply_was_cut_is_resumed_with_the_same_history(endpoint):
    """The line that asked for a shorter reply is part of the history, also after the run was resumed."""
    one = endpoint(CUT, LOOKS[0], SOME, MORE)
    await one.ask(IN_JSON)
    _, outcome = await one.resume("And?")
    assert outcome.answer == "more"
    _, again, *_, last = one.requests
    assert "Repeat it, much shorter." in str(again.messages[-1])
    assert message_bytes(last).startswith(message_bytes(again))


# The format that `tool_calls: auto` chooses when a run begins.
@pytest.fixture
def formats(chat_api, tmp_path):
    """Return a function that asks several questions in one Runner, and tells how each run called its tools."""

    async def run(scripts, name="some-model", **settings):
        (tmp_path / "owls.md").write_text("Owls eat mice.\n")
        api = chat_api([reply for script in scripts for reply in script])
        found, outcomes = [], []
        async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
            endpoint = LLAMACPP.endpoint if name.startswith("llamacpp:") else errors.CHAT
            provider = ChatProvider(name.rpartition(":")[2], client, endpoint)
            async with Runner(root=tmp_path, provider=provider, store="none") as runner:
                for script in scripts:
                    asked = await runner.prepare(GREPPER, "What?", **settings)
                    before = len(api.requests)
                    outcomes.append(await asked.outcome())
                    sent = api.requests[before:]
                    found.append({"native" if "tools" in one.body else "json" for one in sent} or {"none"})
                    assert len(sent) == len(script)
        return [", ".join(one) for one in found], outcomes

    return run


IN_SCHEMA = says('{"answer": "mice", "evidence": [], "gaps": []}')
GREPPER = Specialist(name="looks", description="", prompt="You look.", tools=("grep",))


async def test_g8_local_models_call_by_json_from_the_first_request(formats):
    """A model on a local server needs no setting, and an explicit one holds."""
    assert (await formats([[responds("yes")]], "llamacpp:qwen"))[0] == ["json"]
    assert (await formats([[answers("yes")]], "llamacpp:qwen", tool_calls="native"))[0] == ["native"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("script", "settings"),
    [
        ([says('{"name": "grep", "arguments": {"pattern": "mice"}}'), answers("mice")], {}),
        (
            [calls("grep", {"pattern": "mice"}), calls("grep", {"pattern": "owls"}), IN_SCHEMA],
            {"tool_calls_limit": 1, "landing": "force"},
        ),
        ([says("From memory.")], {}),
    ],
)
async def test_g8_an_endpoint_that_failed_with_native_calls_gets_json_in_the_next_run(formats, script, settings):
    """Calls as text, an ignored force, and two answers without a call; an explicit setting is not changed."""
    times = 2 if len(script) == 1 else 1
    found, _ = await formats([*[script] * times, [responds("yes")]], **settings)
    assert found == [*["native"] * times, "json"]
    found, _ = await formats([*[script] * times, [answers("yes")]], tool_calls="native", **settings)
    assert found == ["native"] * (times + 1)


async def test_g8_an_endpoint_that_does_not_constrain_gets_native_calls_in_the_next_run(formats):
    """It refuses the schema, or ignores it; with an explicit `json` the refusal ends each run."""
    refused = [invalid("'response_format' of type 'json_schema' is not supported")]
    found, outcomes = await formats([refused, [answers("yes")]], "llamacpp:qwen")
    assert (found, [one.status for one in outcomes]) == (["json", "native"], ["failed", "answered"])
    assert (await formats([[says("Plain words.")], [answers("yes")]], "llamacpp:qwen"))[0] == ["json", "native"]
    found, outcomes = await formats([refused, []], "llamacpp:qwen", tool_calls="json")
    assert (found, [one.exit_code for one in outcomes]) == (["json", "none"], [3, 3])


@pytest.mark.exhaustive
async def test_g8_a_run_keeps_its_format_when_it_is_resumed(chat_api, tmp_path):
    """The format is stored with the run: what is learned of the endpoint later does not change it."""
    leaked = says('{"name": "grep", "arguments": {"pattern": "mice"}}')
    api = chat_api([leaked, answers("one"), answers("two"), responds("three")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        async with Runner(root=tmp_path, provider=provider, store=str(tmp_path / "runs.db")) as runner:
            first = await runner.run(GREPPER, "What?")
            await (await runner.resume(first.run_id, "And then?")).outcome()
            await runner.run(GREPPER, "What?")
    assert [bool(offered(one)) for one in api.requests] == [False, False, False, True]


@pytest.mark.parametrize(("url", "known"), [("https://api.openai.com/v1", False), ("http://127.0.0.1:1/v1", True)])
async def test_g8_models_of_the_vendors_are_never_moved_to_json(url, known):
    """Whatever was learned, at a vendor's own address calls stay native: an answer without a call may need none."""
    async with make_client(base_url=url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        provider.knowledge.capabilities = replace(provider.capabilities, json_calls=True)
        assert provider.capabilities.json_calls is known
        assert provider.capabilities.call_format("auto") == ("json" if known else "native")
