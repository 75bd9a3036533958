"""Soft landings over the wire: forced, by schema, of every kind of limit, of hanging servers, of stopped runs."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import pytest

from run_specialist.errors import UsageError
from run_specialist.loop.retries import Retries
from run_specialist.providers.base import Delta, Opening
from run_specialist.providers.errors import OPENAI_URL
from run_specialist.providers.knowledge import FORCE_IGNORED
from run_specialist.providers.openai_chat import ChatProvider
from run_specialist.providers.openai_chat import make_client as chat_client
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Exit
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.respond import respond_tool
from tests.journals import load
from tests.loop_jobs import LOOK, job, outcome_of
from tests.wire import chat, simulator
from tests.wire.chat import faults as chat_faults
from tests.wire.connected import asked, connected
from tests.wire.resumed_requests import check_continued, look, message_bytes
from tests.wire.simulator import Gate, faults, policies
from tests.wire.simulator.replies import says
from tests.wire.specialists import DONE, FORCED, NO_TOOLS, batches, looks, note, noting
from tests.wire.usage import KEYS, price, used

LONG = Tool("look", "Looks.", lambda query: f"{note(query)} {'x' * 2_000}")


class Clock:
    """A clock that shows the time a test has set."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Return the time that the test has set."""
        return self.now


@pytest.fixture(params=["json", "stream"])
def watch(request) -> Callable[[Delta], None] | None:
    """Run once with complete replies and once with streamed ones."""
    return None if request.param == "json" else lambda delta: None


def without_markers(value: object) -> object:
    """Return a request body without its cache markers."""
    if isinstance(value, dict):
        return {key: without_markers(item) for key, item in value.items() if key != "cache_control"}
    return [without_markers(item) for item in value] if isinstance(value, list) else value


async def test_s0_1_s0_2_s0_3_s0_4_thirty_calls_are_silent_counted_down_and_forced(messages_api, watch):
    """A model that never stops gets 30 calls: 14 raw results, 16 with a countdown, then a forced `respond`."""
    api = messages_api(policies.always_tool("look"))
    outcome = await asked(api, 30, watch=watch)
    assert (outcome.status, outcome.answer) == ("landed", "what was found")
    assert (outcome.tool_calls.used, outcome.landing.how) == (30, "force")
    assert len(api.requests) == 31
    told = [next(iter(request.results.values())) for request in api.requests[1:]]
    raw = [f"note on 'question {call}', part 0" for call in range(30)]
    assert told[:14] == raw[:14]
    words = [f"{left} tool calls remaining" for left in range(15, 1, -1)]
    words += ["1 tool call remaining", "0 tool calls remaining"]
    assert told[14:] == [f"{text}\n{line}" for text, line in zip(raw[14:], words, strict=True)]
    assert [request.tool_choice for request in api.requests] == [None] * 30 + [FORCED]


async def test_s0_5_system_tools_and_history_are_byte_identical(messages_api, watch):
    """Every request begins with the bytes of the previous one; only cache markers and the choice differ."""
    api = messages_api(policies.always_tool("look", calls_per_turn=3))
    await asked(api, 12, watch=watch)
    front = api.requests[0].raw.split(b',"max_tokens"')[0]
    assert b'"system":' in front
    assert b'"tools":' in front
    assert all(request.raw.startswith(front) for request in api.requests)
    for before, after in zip(api.requests, api.requests[1:], strict=False):
        for part in ("system", "tools"):
            assert json.dumps(before.body[part]) == json.dumps(after.body[part])
        kept = [json.dumps(without_markers(message)) for message in before.messages]
        assert [json.dumps(without_markers(message)) for message in after.messages[: len(kept)]] == kept
    assert not [request.oddities for request in api.requests if request.oddities]


async def test_s0_10_a_server_that_ignores_every_choice_ends_in_a_salvage(messages_api, watch):
    """A server that ignores force, schema and none, as small local ones do: an outcome after three landing requests."""
    api = messages_api(policies.ignores_everything("look"))
    outcome = await asked(api, 2, watch=watch)
    assert [request.tool_choice for request in api.requests[2:]] == [FORCED, {"type": "none"}, {"type": "none"}]
    assert [request.schema is None for request in api.requests[2:]] == [True, False, True]
    assert (outcome.status, outcome.tool_calls.used, outcome.landing.requests) == ("partial", 2, 3)
    assert "note on 'question 1'" in outcome.answer


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
        watch = self.shown.append if self.streams else None
        async with connected(server) as provider:
            self.requests, self.provider = server.requests, provider
            provider.knowledge.capabilities = replace(provider.capabilities, **self.know)
            made = job(provider, limit, answer_schema=shape, **{"landing": "schema", **settings})
            made = replace(made, opening=Opening(made.opening.system, Toolset([LOOK, respond_tool(shape)])))
            outcomes = [await outcome_of(made, watch=watch) for _ in range(runs)]
        return outcomes[0] if runs == 1 else outcomes


@pytest.fixture(params=["messages", "chat streamed"])
def landing(request, messages_api, chat_api):
    """Each test runs on both APIs, once with complete and once with streamed replies."""
    api, _, streamed = request.param.partition(" ")
    return Landing(api, streams=bool(streamed), messages_api=messages_api, chat_api=chat_api)


@pytest.mark.parametrize("landing", ["messages", "messages streamed", "chat", "chat streamed"], indirect=True)
async def test_g1_the_reply_to_a_schema_is_read_as_the_input_of_respond(landing):
    """Constrained JSON is the answer, checked and shown as input of `respond`; the request differs in nothing else."""
    outcome = await landing.run([landing.look(0), landing.says(json.dumps(GIVEN))])
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "Mice.", "schema")
    assert [(one.quote, one.verified) for one in outcome.evidence] == [("note on '0'", True)]
    assert (outcome.landing.requests, outcome.gaps) == (1, ())
    shown = [delta for delta in landing.shown if delta.tool != "look"]
    assert {delta.tool for delta in shown} == ({"respond"} if landing.streams else set())
    assert "".join(delta.text for delta in shown) == (json.dumps(GIVEN) if landing.streams else "")
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
@pytest.mark.parametrize("text", ["Owls eat mice.", '{"prey": "mice"}'])
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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("refusal", ["{}.schema: Extra inputs are not permitted", "{}: not supported by this model"])
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


@pytest.mark.exhaustive
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


def last_lines(told):
    """Return the text after the raw result in each request, empty if there is none."""
    return [results[-1].partition("\n")[2] for results in told.results]


def spent_softly(told, kind, limit, spent, line):
    """Check a soft landing: after half of the limit, by what was spent, each result has its line; then it answers."""
    assert last_lines(told) == [line(limit - one) if 2 * one >= limit else "" for one in spent]
    silent = sum(2 * one < limit for one in spent)
    assert 0 < silent < len(spent)
    assert told.choices == [None] * len(spent) + [FORCED]
    assert (told.outcome.status, told.outcome.answer) == ("landed", "what was found")
    assert (told.outcome.landing.reason, told.outcome.landing.how) == (kind, "force")
    assert told.outcome.limits[kind].limit == limit
    assert told.outcome.limits[kind].used <= limit
    assert told.outcome.warnings == ()


async def test_x_14_tokens_land_softly(ask):
    """Tokens are counted as the API does, cached or not; the reserve pays for the landing, and little is left."""
    told = await ask(policies.always_tool("look"), "total_tokens_limit: 40000", tools=[LONG])
    totals = [usage.total_tokens for usage in used(told.requests)]
    spent_softly(told, "tokens", 40_000, list(accumulate(totals[:-1])), lambda left: f"{left:,} tokens remaining")
    assert told.outcome.limits["tokens"].used == told.outcome.usage.total_tokens == sum(totals)
    # One more working request and a landing with the longest reply would have exceeded the limit.
    assert sum(totals[:-1]) + 2 * max(totals) + told.requests[0].body["max_tokens"] >= 40_000


@pytest.mark.exhaustive
async def test_x_14_cost_lands_softly(ask_once):
    """Cost uses the model's prices, with separate ones for cache reads and writes; the countdown is in dollars."""
    told = await ask_once(policies.always_tool("look"), "cost_limit: 0.004", "tool_calls_limit: none", tools=[LONG])
    prices = [price(usage) for usage in used(told.requests)]
    spent_softly(told, "cost", 0.004, list(accumulate(prices[:-1])), lambda left: f"${left:.2g} remaining")
    assert told.outcome.cost_usd == pytest.approx(sum(prices), abs=1e-8)
    assert told.outcome.limits["cost"].used == told.outcome.cost_usd


async def test_x_14_time_lands_softly(ask_once):
    """With a limit of 60 s and 9 s a call, a tenth is held in reserve; the call that reaches it is the last."""
    clock = Clock()

    def slow(query):
        clock.now += 9
        return note(query)

    tools = [Tool("look", "Takes its time.", slow)]
    told = await ask_once(policies.always_tool("look"), "time_limit: 1m", tools=tools, clock=clock)
    spent_softly(told, "time", 60, [9, 18, 27, 36, 45, 54], lambda left: f"{left} seconds remaining")
    assert told.outcome.duration_s == 54


async def test_x_14_characters_land_softly(ask_once):
    """With a limit of 100 characters and 20 per result, text added by the runner is not counted."""
    tool = Tool("look", "Looks.", lambda query: query.rjust(20, "."))
    told = await ask_once(policies.always_tool("look"), "tool_chars_limit: 100", tools=[tool])
    spent_softly(told, "characters", 100, [20, 40, 60, 80, 100], lambda left: f"{left} characters remaining")


LIMITS = [
    "turns_limit: 3",
    "total_tokens_limit: 9000",
    "cost_limit: 0.0015",
    "tool_chars_limit: 4000",
    "tool_calls_limit: 2",
]


@pytest.mark.exhaustive(one_in=10)
@pytest.mark.parametrize(
    ("preset", "model", "choices", "lines"),
    [
        ("soft-landing", "haiku", [FORCED], LIMITS),
        ("soft-landing", "sonnet", [None], ["cost_limit: 0.04"]),
        ("soft-warning", "haiku", [FORCED], LIMITS[:1]),
        ("finalize", "haiku", [None, None, NO_TOOLS], LIMITS),
        ("budget-notice", "haiku", [FORCED], LIMITS[1:2]),
        ("openai-loop", "haiku", [NO_TOOLS], LIMITS[3:]),
    ],
)
async def test_x_14_every_kind_of_limit_lands_as_the_preset_defines(ask_once, preset, model, choices, lines):
    """Every kind of limit lands as the preset defines, and no tool is run in the landing."""
    for line in lines:
        await lands(ask_once, preset, model, choices, line)


async def lands(ask_once, preset, model, choices, line):
    """Check the landing of a run with one limit."""
    told = await ask_once(policies.always_tool("look"), f"preset: {preset}", line, model=model, tools=[LONG])
    assert told.choices[-len(choices) :] == choices
    assert told.choices[: -len(choices)] == [None] * told.outcome.tool_calls.used
    assert told.outcome.status == "landed"
    key = line.partition("_limit")[0].removeprefix("total_").replace("tool_chars", "characters")
    assert told.outcome.landing.reason == key
    assert told.outcome.landing.requests == (2 if preset == "finalize" else 1)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("key", ["turns", "total_tokens", "tool_calls"])
async def test_x_14_a_limit_of_0_lands_with_the_first_request(ask_once, key):
    """A limit of 0 is a limit: the first request is the landing."""
    told = await ask_once([DONE], f"{key}_limit: 0", clock=Clock())
    assert told.choices == [FORCED]
    assert (told.outcome.status, told.outcome.tool_calls.used) == ("landed", 0)


async def test_x_14_the_countdown_shows_the_limit_closest_to_exhaustion(ask_once):
    """The countdown shows the limit closest to exhaustion, and the run lands because of that limit."""
    told = await ask_once(policies.always_tool("look"), "turns_limit: 9", "tool_calls_limit: 6")
    assert last_lines(told) == ["", "", "3 tool calls remaining", "2 tool calls remaining", *last_lines(told)[4:]]
    assert told.outcome.landing.reason == "tool_calls"
    told = await ask_once(policies.always_tool("look"), "turns_limit: 5", "tool_calls_limit: 6")
    assert last_lines(told)[2:] == ["2 turns remaining", "1 turn remaining"]
    assert told.outcome.landing.reason == "turns"


@pytest.mark.parametrize(
    ("lines", "settings", "place"), [(["cost_limit: 0.5"], {}, r"\S+looker\.md:5:1: "), ([], {"cost_limit": 0.5}, "")]
)
async def test_x_14_a_cost_limit_without_a_price_is_refused(ask_once, lines, settings, place):
    """A cost limit for a model without a price is refused in one line with place, reason and remedy."""
    why = f"^{place}cost_limit: the price of my-own-model is unknown.*total_tokens_limit[^\n]*$"
    with pytest.raises(UsageError, match=why):
        await ask_once([], *lines, model="my-own-model", api={"models": ()}, **settings)
    assert ask_once.started[-1].requests == []


async def test_x_14_the_landing_reports_its_own_usage_and_cost(ask_once):
    """The landing reports the usage and cost of its own requests, besides the total."""
    told = await ask_once(policies.always_tool("look"), "tool_calls_limit: 4", tools=[LONG])
    (landing,) = used(told.requests[-1:])
    outcome = json.loads(json.dumps(told.outcome.as_json()))
    billed = {key: told.requests[-1].usage[key] for key in KEYS}
    assert outcome["landing"]["usage"] == {**billed, "web_search_requests": 0}
    assert outcome["landing"]["cost_usd"] == pytest.approx(price(landing), abs=1e-8)
    assert told.outcome.usage == sum(used(told.requests), Usage())
    assert outcome["cost_usd"] == pytest.approx(sum(map(price, used(told.requests))), abs=1e-8)


async def test_x_14_a_refused_request_is_not_billed(ask_once):
    """A request refused with a 400 on forcing is neither counted nor billed."""
    refusal = faults.invalid('tool_choice: type "tool" and "any" are not supported for this model.')
    told = await ask_once([*batches(1), refusal, DONE], "tool_calls_limit: 1", tools=[LONG])
    assert told.outcome.landing.requests == 1
    assert told.outcome.landing.usage == used(told.requests[2:])[0]
    assert told.outcome.limits["turns"].used == 2


async def test_x_14_exceeding_a_limit_is_a_warning(ask_once):
    """If a reply unforeseeably exceeds a limit, `limits` shows the real figure and a warning reports it."""
    huge = {"input_tokens": 50_000, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    told = await ask_once([looks("a", usage=huge), DONE], "total_tokens_limit: 30000")
    assert told.choices == [None, FORCED]
    assert told.outcome.limits["tokens"].used > 50_000
    assert any(" tokens used, more than the limit of 30,000 tokens: " in warning for warning in told.outcome.warnings)
    assert told.outcome.status == "landed"


class Playing:
    """Plays replies in order, and sets a clock as each request arrives."""

    def __init__(self, clock, *moments):
        self._clock = clock
        self._moments = list(moments)

    def __call__(self, request):
        """Return the next reply."""
        self._clock.now, reply = self._moments.pop(0)
        return reply


@pytest.mark.exhaustive
async def test_x_14_a_hanging_request_is_cancelled_and_the_run_lands(ask):
    """A hanging request is cancelled when the working time is over; the next one is the landing, with the findings."""
    clock, gate = Clock(), Gate()
    script = Playing(clock, (53.5, looks("a")), (54, faults.Hang(gate)), (54, DONE))
    told = await ask(script, "time_limit: 1m", clock=clock)
    assert gate.reached.is_set()
    assert told.choices == [None, None, FORCED]
    assert told.requests[1].messages == told.requests[2].messages
    assert next(iter(told.requests[2].results.values())).startswith(note("a"))
    assert (told.outcome.status, told.outcome.answer) == ("landed", "what was found")
    assert (told.outcome.landing.reason, told.outcome.limits["turns"].used) == ("time", 2)


@pytest.mark.exhaustive
async def test_x_14_a_hanging_landing_request_is_cancelled_and_salvaged(ask_once):
    """A landing request that hangs is cancelled too; the findings so far become the answer, with a warning."""
    clock = Clock()
    script = Playing(clock, (53.5, looks("a")), (65.5, faults.Hang()), (66, faults.Hang()))
    told = await ask_once(script, "time_limit: 1m", clock=clock)
    assert told.choices == [None, None, FORCED]
    assert (told.outcome.status, told.outcome.exit_code, told.outcome.landing.how) == ("partial", 0, "salvage")
    assert note("a") in told.outcome.answer
    assert told.outcome.limits["time"].used == 66
    assert any(text.startswith("66 seconds used, more than the limit of 60 seconds") for text in told.outcome.warnings)
    assert (told.outcome.landing.requests, told.outcome.landing.usage) == (0, Usage())


@pytest.mark.exhaustive
async def test_x_14_a_hanging_summary_request_is_cancelled(ask_once):
    """A summary request that hangs is cancelled when the working time is over; the run lands and loses nothing."""
    clock = Clock()
    notes = Playing(clock, (54, faults.Hang()), (54, says("- owls eat mice")))
    script = noting(notes, Playing(clock, (1, looks("a")), (53.5, looks("b")), (54, DONE)))
    told = await ask_once(script, "time_limit: 1m", "summarize_at: 1000", clock=clock, tools=[LONG])
    assert told.choices == [None, None, FORCED]
    assert LONG.function("b") in next(iter(told.requests[-1].results.values()))
    assert (told.outcome.status, told.outcome.landing.reason) == ("landed", "time")


@pytest.mark.exhaustive
async def test_x_14_a_hanging_tool_is_abandoned_at_the_end_of_the_working_time(ask_once):
    """A hanging tool is abandoned when the working time is over: the call has failed, and the run lands."""
    clock, gate = Clock(), Gate()

    def hang(query):
        clock.now = 54
        gate.opened.wait(60)

    script = Playing(clock, (53.5, looks("a")), (54, DONE))
    told = await ask_once(script, "time_limit: 1m", clock=clock, tools=[Tool("look", "Hangs.", hang)])
    gate.open()
    assert "when the time of the run was up" in told.results[0][0]
    assert told.choices == [None, FORCED]
    assert (told.outcome.tool_calls.used, told.outcome.tool_calls.failed) == (1, 1)


class Held:
    """A script whose second reply is held back until a gate opens."""

    def __init__(self, *script):
        self.gate = Gate()
        self._script = list(script)
        self._asked = 0

    def __call__(self, _request):
        """Return the next reply."""
        self._asked += 1
        if self._asked == 2:
            self.gate.reached.set()
            self.gate.opened.wait(60)
        return self._script.pop(0)

    def stopping(self, *stops):
        """Return what happens during the second request: an abort with each `after_turn` of `stops`, then the reply."""

        async def midway(run):
            await asyncio.to_thread(self.gate.wait_for_request)
            for after_turn in stops:
                run.abort(after_turn=after_turn)
            self.gate.open()

        return midway


@pytest.mark.exhaustive(one_in=4)
async def test_the_turn_under_way_is_stored_and_not_paid_for_again(endpoint):
    """The reply that was requested arrives, its calls are run, and the resumed run continues after their results."""
    one = endpoint(lambda say: Held(look(say, "a"), look(say, "b", "c"), say.answers("mice")))
    _, first = await one.ask(midway=one.script.stopping(True))
    assert (first.status, first.exit_code, first.tool_calls.used) == ("aborted", Exit.INTERRUPTED, 3)
    assert [sent.status for sent in one.requests] == [200, 200]
    kept = load(f"sqlite:///{one.folder}/runs.db")
    assert (kept.pending, [call.is_error for call in kept.calls]) == (None, [False] * 3)
    _, again = await one.resume()
    assert (again.status, again.answer, len(one.requests)) == ("answered", "mice", 3)
    assert again.limits["turns"].used == 3
    assert "note on 'c'" in str(one.requests[2].messages)
    check_continued(one, one.requests[1], one.requests[2])


@pytest.mark.exhaustive
async def test_a_second_abort_cuts_the_request(endpoint):
    """An abort without waiting does not wait for the reply; the resumed run requests it again."""
    one = endpoint(lambda say: Held(look(say, "a"), look(say, "b"), say.answers("mice")))
    _, first = await one.ask(midway=one.script.stopping(True, False))
    assert (first.status, first.tool_calls.used, first.limits["turns"].used) == ("aborted", 1, 1)
    _, again = await one.resume()
    assert (again.status, len(one.requests)) == ("answered", 3)
    assert message_bytes(one.requests[2]) == message_bytes(one.requests[1])


@pytest.mark.exhaustive
async def test_a_busy_endpoint_is_not_asked_again(endpoint, monkeypatch):
    """A request that waits for its retry is abandoned immediately; the resumed run sends it."""
    waiting = asyncio.Event()

    async def forever(seconds):
        waiting.set()
        await asyncio.Event().wait()

    async def midway(run):
        await waiting.wait()
        run.abort(after_turn=True)

    def script(say):
        return [
            look(say, "a"),
            (faults if "simulator" in say.__name__ else chat_faults).rate_limited(9),
            say.answers("b"),
        ]

    one = endpoint(script, retries=2)
    with monkeypatch.context() as patched:
        patched.setattr(Retries, "sleep", staticmethod(forever))
        _, first = await one.ask(midway=midway)
    assert (first.status, first.error_kind, len(one.requests)) == ("aborted", None, 2)
    _, again = await one.resume()
    assert (again.status, len(one.requests)) == ("answered", 3)
    assert message_bytes(one.requests[2]) == message_bytes(one.requests[1])
