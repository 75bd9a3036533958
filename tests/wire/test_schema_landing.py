"""Landing by schema over the wire: the real SDKs against servers that enforce the rules of structured outputs."""

import json
from dataclasses import replace

import pytest

from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.anthropic import make_client as messages_client
from run_specialist.providers.base import Opening
from run_specialist.providers.errors import OPENAI_URL
from run_specialist.providers.knowledge import FORCE_IGNORED
from run_specialist.providers.openai_chat import ChatProvider
from run_specialist.providers.openai_chat import make_client as chat_client
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.base import Toolset
from run_specialist.tools.respond import respond_tool
from tests.loop_jobs import LOOK, job, outcome_of
from tests.wire import chat, simulator

pytestmark = pytest.mark.anyio
GIVEN = {"answer": "Mice.", "evidence": [{"source": "a:1", "quote": "note on '0'"}], "gaps": None}
SHAPE = {
    "type": "object",
    "properties": {"prey": {"type": "array", "items": {"type": "string"}, "minItems": 1}, "weight": {"type": "number"}},
    "required": ["prey"],
}


class Landing:
    """Runs a job on one of the two APIs, streamed or not, and keeps what was sent."""

    def __init__(self, api, *, streams, messages_api, chat_api):
        self.api, self.streams = api, streams
        self._start = messages_api if api == "messages" else chat_api
        self.shown = []
        self.know = {}

    def look(self, number):
        """Return a reply that calls a tool."""
        replies = simulator.replies if self.api == "messages" else chat.replies
        return replies.calls("look", {"query": str(number)})

    def says(self, text, reason=""):
        """Return a reply of plain text, which may have been cut off."""
        if self.api == "messages":
            return simulator.replies.says(text, stop_reason="max_tokens" if reason == "cut" else None)
        return chat.replies.says(text, finish_reason="length" if reason == "cut" else "")

    def responds(self, answer):
        """Return a reply that calls `respond`."""
        return (simulator if self.api == "messages" else chat).replies.answers(answer)

    def refusal(self, text):
        """Return a 400."""
        return (simulator if self.api == "messages" else chat).faults.invalid(text)

    async def run(self, script, limit=1, shape=None, runs=1, **settings):
        """Run a job to its end, or several times; return the outcome, or all of them."""
        server = self._start(script)
        if self.api == "messages":
            client = messages_client(base_url=server.base_url, api_key="test", max_retries=0)
            provider = AnthropicProvider("haiku", client)
        else:
            client = chat_client(base_url=server.base_url, api_key="test", max_retries=0)
            provider = ChatProvider("some-model", client)
        self.requests, self.provider = server.requests, provider
        provider.knowledge.capabilities = replace(provider.capabilities, **self.know)
        settings = {"landing": "schema", **settings}
        made = job(provider, limit, answer_schema=shape, **settings)
        made = replace(made, opening=Opening(made.opening.system, Toolset([LOOK, respond_tool(shape)])))
        async with client:
            watch = self.shown.append if self.streams else None
            outcomes = [await outcome_of(made, watch=watch) for _ in range(runs)]
        return outcomes[0] if runs == 1 else outcomes


@pytest.fixture(params=["messages", "messages streamed", "chat", "chat streamed"])
def landing(request, messages_api, chat_api):
    """Each test runs on both APIs, with complete and with streamed replies."""
    api, _, streamed = request.param.partition(" ")
    return Landing(api, streams=bool(streamed), messages_api=messages_api, chat_api=chat_api)


async def test_g1_the_reply_is_read_as_the_input_of_respond(landing):
    """The JSON of a constrained reply is the answer, with its quotes checked; the transcript would keep it as it is."""
    outcome = await landing.run([landing.look(0), landing.says(json.dumps(GIVEN))])
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "Mice.", "schema")
    assert [(one.quote, one.verified) for one in outcome.evidence] == [("note on '0'", True)]
    assert outcome.landing.requests == 1
    assert outcome.gaps == ()


async def test_g1_only_the_constraint_differs_from_the_request_before(landing):
    """Messages: `output_config.format` and `tool_choice: none`; chat: `response_format` and no `tool_choice`."""
    await landing.run([landing.look(0), landing.says(json.dumps(GIVEN))])
    before, last = (dict(sent.body) for sent in landing.requests)
    schema = landing.requests[-1].schema
    assert schema["required"] == ["answer", "evidence", "gaps"]
    if landing.api == "messages":
        assert last.pop("output_config") == {"format": {"type": "json_schema", "schema": schema}}
        assert last.pop("tool_choice") == {"type": "none"}
        del before["cache_control"]
    else:
        described = {"name": "respond", "strict": True, "schema": schema}
        assert last.pop("response_format") == {"type": "json_schema", "json_schema": described}
        assert before.pop("tool_choice") == "auto"
    room = "max_tokens" if landing.api == "messages" else "max_completion_tokens"
    assert last[room] == 4_096
    assert {**last, "messages": 0, room: 0} == {**before, "messages": 0, room: 0}


@pytest.mark.exhaustive(one_in=3)
async def test_g1_an_answer_in_the_shape_of_output_schema(landing):
    """With `output_schema` the reply's `answer` is the output; what the vendors refuse is checked afterwards."""
    written = {"answer": {"prey": ["mice"], "weight": None}, "evidence": None, "gaps": ["age"]}
    outcome = await landing.run([landing.look(0), landing.says(json.dumps(written))], shape=AnswerSchema(SHAPE))
    assert (outcome.status, outcome.output, outcome.gaps) == ("landed", {"prey": ["mice"]}, ("age",))


@pytest.mark.exhaustive(one_in=3)
async def test_g1_an_answer_that_misses_a_bound_is_asked_for_again(landing):
    """A bound that the vendors cannot enforce is checked here; the reply stays in the history as it was written."""
    texts = [
        json.dumps({"answer": {"prey": prey, "weight": 1}, "evidence": None, "gaps": None}) for prey in ([], ["a"])
    ]
    script = [landing.look(0), *(landing.says(text) for text in texts)]
    outcome = await landing.run(script, shape=AnswerSchema(SHAPE))
    assert (outcome.output, outcome.landing.how) == ({"prey": ["a"], "weight": 1}, "schema")
    assert texts[0] in landing.requests[-1].raw.decode().replace('\\"', '"')


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("text", ["Owls eat mice.", '{"prey": "mice"}', "[1]", "{owls} eat mice"])
async def test_g1_a_text_that_is_no_such_json_is_the_answer(landing, text):
    """A server that ignores the schema answers in text: that is the answer, and the rung is remembered as useless."""
    outcome = await landing.run([landing.look(0), landing.says(text)])
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", text, "schema")
    assert not landing.provider.capabilities.schema


@pytest.mark.exhaustive(one_in=3)
async def test_x_5_calls_in_reply_to_a_schema_are_answered_and_the_next_rung_follows(landing):
    """A server that ignores the schema and calls a tool: nothing runs, and `none` gets the text."""
    outcome = await landing.run([landing.look(0), landing.look(1), landing.says("Mice.")])
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "Mice.", "none")
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (1, 1)
    assert not landing.provider.capabilities.schema


async def test_x_6_json_that_was_cut_off_is_asked_for_again_with_more_room(landing):
    """A cut reply is not a rung: the same request with a higher limit follows, and its whole JSON is the answer."""
    cut = json.dumps(GIVEN)[:20]
    outcome = await landing.run([landing.look(0), landing.says(cut, "cut"), landing.says(json.dumps(GIVEN))])
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "Mice.", "schema")
    assert landing.requests[-1].schema == landing.requests[-2].schema is not None
    assert landing.provider.capabilities.schema


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("length", "answer"), [(14, "Mi"), (40, "Mice.")])
async def test_x_6_of_json_that_is_cut_twice_what_can_be_read_is_kept(landing, length, answer):
    """The partial answer is marked as truncated; JSON is never shown."""
    cut = landing.says(json.dumps(GIVEN)[:length], "cut")
    outcome = await landing.run([landing.look(0), cut, cut])
    assert (outcome.status, outcome.answer) == ("partial", f"{answer}\n[truncated]")


async def test_g1_while_it_streams_the_answer_is_shown_and_no_json(landing):
    """The pieces of the JSON are reported as input of `respond`, as if it had been called."""
    await landing.run([landing.look(0), landing.says(json.dumps(GIVEN))])
    shown = [delta for delta in landing.shown if delta.tool != "look"]
    assert bool(shown) == landing.streams
    assert {delta.tool for delta in shown} <= {"respond"}
    assert "".join(delta.text for delta in shown) == (json.dumps(GIVEN) if landing.streams else "")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    "refusal",
    ["{}.schema: Extra inputs are not permitted", "{}: not supported by this model"],
)
async def test_g1_a_refused_schema_is_no_rung_and_is_remembered(landing, refusal):
    """After a 400 that names the parameter the ladder is the one before; the next run does not send it again."""
    text = refusal.format("output_config.format" if landing.api == "messages" else "response_format")
    answer = landing.responds("Mice.")
    script = [landing.look(0), landing.refusal(text), answer, landing.look(0), answer]
    _, outcome = await landing.run(script, runs=2)
    assert [sent.schema is None for sent in landing.requests] == [True, False, True, True, True]
    assert (outcome.landing.how, outcome.landing.requests) == ("force", 1)


@pytest.mark.exhaustive(one_in=3)
async def test_s0_10_a_refused_none_is_dropped(landing):
    """A 400 on `tool_choice: none` ends no run: the rung is omitted, and the style `none` orders instead."""
    refusal = landing.refusal("tool_choice: none is not supported")
    outcome = await landing.run([landing.look(0), refusal, landing.says("Mice.")], landing="none")
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "Mice.", "order")
    assert not landing.provider.capabilities.none_choice


@pytest.mark.exhaustive(one_in=3)
async def test_g2_a_force_that_was_ignored_is_warned_about_and_not_repeated(landing):
    """One warning suggests `tool_calls: json`; the next run on this provider does not force, and does not warn."""
    if landing.api == "chat":
        landing.know = {"schema_first": False}
    first, second = [landing.look(0), landing.says("Mice.")], [landing.look(0), landing.responds("Owls.")]
    outcomes = await landing.run([*first, *second], runs=2, landing="auto")
    assert [outcome.landing.how for outcome in outcomes] == ["force", "order"]
    assert [outcome.answer for outcome in outcomes] == ["Mice.", "Owls."]
    assert [outcome.warnings.count(FORCE_IGNORED) for outcome in outcomes] == [1, 0]
    assert "tool_calls: json" in FORCE_IGNORED


async def test_s0_10_a_schema_does_without_a_refused_none(messages_api, chat_api):
    """A Messages server that takes a schema but no `tool_choice: none`: the same request follows without the choice."""
    landing = Landing("messages", streams=False, messages_api=messages_api, chat_api=chat_api)
    refusal = landing.refusal("tool_choice: Input tag 'none' does not match any of the expected tags")
    outcome = await landing.run([landing.look(0), refusal, landing.says(json.dumps(GIVEN))])
    assert (outcome.answer, outcome.landing.how, outcome.landing.requests) == ("Mice.", "schema", 1)
    assert [sent.tool_choice for sent in landing.requests] == [None, {"type": "none"}, None]
    assert landing.requests[-1].schema == landing.requests[-2].schema is not None
    assert (landing.provider.capabilities.none_choice, landing.provider.capabilities.schema) == (False, True)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Invalid schema for response_format 'respond'"),
        (400, "json mode cannot be combined with tool/function calling"),
        (422, "response_format: extra fields not permitted"),
        (500, "Failed to initialize samplers: failed to parse grammar"),
    ],
)
async def test_g1_servers_refuse_a_schema_in_different_words(messages_api, chat_api, status, text):
    """Whatever a chat completions server says about the schema of a reply, the next rung follows."""
    landing = Landing("chat", streams=False, messages_api=messages_api, chat_api=chat_api)
    script = [landing.look(0), chat.faults.error(status, text), landing.responds("Mice.")]
    outcome = await landing.run(script, landing="auto")
    assert (outcome.answer, outcome.landing.how, outcome.landing.requests) == ("Mice.", "force", 1)
    assert not landing.provider.capabilities.schema


@pytest.mark.parametrize(("url", "rungs"), [(OPENAI_URL, "force"), ("http://127.0.0.1:9/v1", "schema")])
def test_g2_the_schema_comes_first_where_chat_completions_are_not_the_vendors(url, rungs):
    """The vendor's own address is forced first; every other one, which may ignore a force, gets the schema first."""
    known = ChatProvider("some-model", chat_client(base_url=url, api_key="test")).capabilities
    assert (known.schema, known.forced_choice, known.schema_first) == (True, True, rungs == "schema")
