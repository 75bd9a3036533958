"""Faults of a server, endless replies among them, end in a one-line error; the gathered work is kept."""

import asyncio
import gc
import gzip
import itertools
import json
import logging
import re
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx2
import pytest
from opentelemetry import trace

from run_specialist.loop.evidence import NOTHING_READ
from run_specialist.providers import transport
from run_specialist.providers.transport import MOST_TOKENS
from run_specialist.record.outcome import Exit, Outcome
from tests.loop_jobs import job, outcome_of
from tests.wire.chat.replies import answers as chat_answers
from tests.wire.chat.replies import says as chat_says
from tests.wire.chat.sse import encode as chat_event
from tests.wire.connected import asked, connected
from tests.wire.simulator import faults
from tests.wire.simulator.prompt import serialise
from tests.wire.simulator.replies import Reply, answers, calls, cut_call, pauses, refuses, says, thinking
from tests.wire.simulator.sse import encode, events
from tests.wire.simulator.sse import encode as messages_event
from tests.wire.simulator.wire import Wire

MOST_EVENTS = 100_000
"""After so many events a stream gives up, so that a client that never hangs up fails its test."""


@dataclass
class Endless(ABC):
    """Stream some pieces of a reply, then white space until the client hangs up."""

    pieces: tuple[str, ...] = ()
    tool: str | None = None
    """The tool whose arguments the pieces are; None for text."""
    blank: str = "\n \n\t"
    reply: None = None
    status: int | None = 200
    _is_over: threading.Event = field(default_factory=threading.Event)
    _was_cut_off: bool = False

    @property
    def was_cut_off(self) -> bool:
        """Tell whether the client closed the connection, once the server has noticed it or given up."""
        return self._is_over.wait(30) and self._was_cut_off

    def play(self, wire: Wire, message: Mapping[str, Any], *, stream: bool) -> None:
        """Send events until the connection breaks."""
        del message
        assert stream
        try:
            wire.send_events(self._events())
        except ConnectionError:
            self._was_cut_off = True
        finally:
            self._is_over.set()

    def _texts(self) -> Iterator[str]:
        return itertools.chain(self.pieces, itertools.repeat(self.blank, MOST_EVENTS))

    @abstractmethod
    def _events(self) -> Iterator[bytes]:
        """Yield the events of the stream, encoded."""


class EndlessChat(Endless):
    """The stream of a chat completions server."""

    def _events(self) -> Iterator[bytes]:
        head = {"id": "chatcmpl-1", "created": 1, "model": "some-model", "object": "chat.completion.chunk"}
        function: dict[str, Any] = {"index": 0, "id": "call_1", "type": "function", "function": {"name": self.tool}}
        for number, text in enumerate(self._texts()):
            delta: dict[str, Any] = {"content": text}
            if self.tool is not None:
                call = function if number == 0 else {"index": 0}
                delta = {"tool_calls": [{**call, "function": {**call.get("function", {}), "arguments": text}}]}
            yield chat_event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


class EndlessMessages(Endless):
    """The stream of a Messages API."""

    def _events(self) -> Iterator[bytes]:
        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
        yield messages_event(("message_start", {"message": {**message, "model": "m", "stop_reason": None}}))
        block: dict[str, Any] = {"type": "text", "text": ""}
        if self.tool is not None:
            block = {"type": "tool_use", "id": "toolu_1", "name": self.tool, "input": {}}
        yield messages_event(("content_block_start", {"index": 0, "content_block": block}))
        for text in self._texts():
            delta = {"type": "text_delta", "text": text}
            if self.tool is not None:
                delta = {"type": "input_json_delta", "partial_json": text}
            yield messages_event(("content_block_delta", {"index": 0, "delta": delta}))


def half_of(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON that lacks its end."""
    return json.dumps(arguments)[:-2]


GOOD = says("fine")
NO_ID = object()
"""Marks an id to omit."""


@dataclass(frozen=True)
class WithIds:
    """A reply whose calls have ids that the API would never return."""

    reply: Reply
    ids: Sequence[Any]
    status: int | None = 200

    def play(self, wire: Wire, message: dict[str, Any], *, stream: bool) -> None:
        """Send the reply whole or streamed."""
        ids = iter(self.ids)
        content = [
            {key: value for key, value in {**block, "id": next(ids)}.items() if value is not NO_ID}
            if block["type"] == "tool_use"
            else block
            for block in message["content"]
        ]
        changed = {**message, "content": content}
        if stream:
            wire.send_events([encode(event) for event in events(changed)])
        else:
            wire.send(200, serialise(changed))


LOOK = calls("look", {"query": "a"})


@pytest.fixture(params=["json", "stream"])
def watch_first(request):
    """Run once with complete replies and once with streamed ones."""
    return None if request.param == "json" else lambda delta: None


@pytest.fixture
def ask(messages_api, watch_first):
    """Return a function that runs a job against a script and returns outcome and simulator."""

    async def run(script, limit=9, model="", retries=0):
        api = messages_api(script)
        return await asked(api, limit, model=model, retries=retries, watch=watch_first), api

    return run


async def test_x_6_the_received_part_of_a_cut_answer_is_kept(ask):
    """If `respond` is cut twice, the received part is the answer."""
    cut = cut_call("respond", '{"answer": "so far so g', {"answer": "so far so g"})
    outcome, _ = await ask([cut, cut])
    assert (outcome.status, outcome.answer) == ("partial", "so far so g\n[truncated]")


async def test_x_8_each_stop_reason_has_one_meaning(ask):
    """Each documented stop reason has one meaning; an unknown one is reported."""
    outcome, _ = await ask([refuses("bio")])
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.NO_ANSWER)
    assert "bio" in outcome.error
    outcome, _ = await ask([pauses("wait"), GOOD])
    assert outcome.answer == "fine"
    outcome, _ = await ask([says("odd", stop_reason="brand_new")])
    unknown = "the model stopped for an unknown reason: brand_new"
    assert (outcome.answer, outcome.warnings) == ("odd", (unknown, NOTHING_READ))
    outcome, _ = await ask([says("full", stop_reason="model_context_window_exceeded")])
    assert (outcome.status, outcome.answer) == ("partial", "full\n[truncated]")
    assert outcome.error_kind == "context_exceeded"


async def test_x_8_a_paused_turn_with_a_tool_call_runs_the_call(ask):
    """The reply's content takes precedence over its stop reason: the call is run and the history stays valid."""
    outcome, _ = await ask([says(*LOOK.content, stop_reason="pause_turn"), GOOD])
    assert (outcome.answer, outcome.tool_calls.used) == ("fine", 1)


async def test_x_8_calls_under_an_unknown_stop_reason_are_not_run(ask):
    """Under an unknown stop reason, the text is used with a warning and the calls are not run."""
    outcome, api = await ask([says("so far", *LOOK.content, stop_reason="brand_new")])
    assert (outcome.answer, outcome.tool_calls.used, len(api.requests)) == ("so far", 0, 1)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("first", "second", "sent_back"),
    [
        ((NO_ID, NO_ID), (NO_ID,), ["toolu_1", "toolu_2", "toolu_3"]),
        (("same", "same"), ("same",), ["same", "toolu_2", "toolu_3"]),
        (("toolu_2", NO_ID), ("toolu_3",), ["toolu_2", "toolu_3", "toolu_4"]),
        (("b-2", "a_1"), ("toolu_01A",), ["b-2", "a_1", "toolu_01A"]),
    ],
)
async def test_x_10_missing_and_duplicate_call_ids_are_replaced(ask, first, second, sent_back):
    """Missing and duplicate call ids are replaced by ids unique in the transcript; valid ids are kept."""
    two, one = calls("look", {"query": "a"}, {"query": "b"}), calls("look", {"query": "c"})
    outcome, api = await ask([WithIds(two, first), WithIds(one, second), GOOD])
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.failed) == ("fine", 3, 0)
    blocks = [block for message in api.requests[-1].messages for block in message["content"]]
    assert [block["id"] for block in blocks if block["type"] == "tool_use"] == sent_back
    results = [block for block in blocks if block["type"] == "tool_result"]
    assert [block["tool_use_id"] for block in results] == sent_back
    assert [block["content"].split(",")[0] for block in results] == [f"note on '{query}'" for query in "abc"]


async def test_x_9_only_the_invalid_id_of_a_reply_is_replaced(ask):
    """Thinking, text and valid calls of the same reply are sent back unchanged, including unknown fields."""
    known = {**calls("look", {"query": "a"}).content[0], "id": "known", "caller": {"type": "direct"}}
    reply = says(thinking("secret"), "I look.", known, *calls("look", {"query": "b"}).content)
    outcome, api = await ask([WithIds(reply, ("known", NO_ID)), GOOD])
    assert outcome.answer == "fine"
    came, went = api.requests[0].content, api.requests[1].messages[1]["content"]
    assert serialise(went[:3]) == serialise(came[:3])
    assert went[3] == {**came[3], "id": "toolu_2"}


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("figure", [True, -5, "7", MOST_TOKENS + 1])
async def test_an_impossible_usage_figure_is_left_out(ask, figure):
    """An impossible usage figure does not end the run and is left out of the sums of tokens and cost."""
    honest, _ = await ask([LOOK, GOOD])
    outcome, _ = await ask([replace(LOOK, usage={"input_tokens": figure}), replace(GOOD, usage={"input_tokens": 0})])
    assert (outcome.status, outcome.answer, outcome.usage.input_tokens) == ("answered", "fine", 0)
    assert outcome.usage.output_tokens == honest.usage.output_tokens
    assert 0 < outcome.cost_usd < honest.cost_usd


async def test_a_reply_that_takes_too_long_is_abandoned(ask, monkeypatch):
    """Without a time limit, a reply that trickles in is still abandoned after the longest allowed duration."""
    monkeypatch.setattr(transport, "LONGEST_REPLY", -1.0)
    outcome, _ = await ask([GOOD])
    assert (outcome.status, outcome.error) == ("failed", "the server's reply took more than -1 seconds; try again")


@pytest.mark.parametrize("status", [301, 303, 307])
async def test_no_redirect_passes_a_question_on_to_another_server(ask, messages_api, status):
    """A redirect to another port ends the run with one line; the other server gets neither the prompt nor the key."""
    other = messages_api([])
    away = faults.Raw(status, b"{}", headers={"location": f"{other.base_url}/v1/messages"})
    outcome, api = await ask([away], retries=2)
    assert (outcome.status, outcome.exit_code, len(api.requests)) == ("failed", Exit.PROVIDER, 1)
    assert f"{api.base_url} redirects to {other.base_url} (HTTP {status})" in outcome.error
    assert "\n" not in outcome.error
    assert not other.requests


@pytest.mark.parametrize("location", ["https://127.0.0.1/", "http:/v1/messages", "http://[", "//localhost/v1/messages"])
async def test_a_redirect_with_another_scheme_host_or_no_valid_address_is_refused(ask, location):
    """Scheme, host and port have to stay the same; what is no valid address is refused too."""
    outcome, api = await ask([faults.Raw(307, b"{}", headers={"location": location})])
    assert "and a question is never passed on to another server" in outcome.error
    assert (outcome.exit_code, len(api.requests)) == (Exit.PROVIDER, 1)


@pytest.mark.parametrize("before", [[], [LOOK]], ids=["first", "later"])
async def test_a_redirect_on_the_same_server_is_followed(ask, before):
    """A redirect with the same scheme, host and port is followed, with the question."""
    outcome, api = await ask([*before, *[faults.Raw(307, b"{}", headers={"location": "/v1/messages"})] * 2, GOOD])
    assert (outcome.status, outcome.answer, len(api.requests)) == ("answered", "fine", 3 + len(before))


async def test_a_redirect_is_followed_anew_for_each_request(ask):
    """A redirect may be temporary: the requests after it go to the configured address again."""
    away = faults.Raw(307, b"{}", headers={"location": "/v1/messages?elsewhere"})
    outcome, api = await ask([away, LOOK, GOOD])
    assert outcome.answer == "fine"
    assert [one.path for one in api.requests] == ["/v1/messages", "/v1/messages?elsewhere", "/v1/messages"]


@pytest.mark.parametrize(
    "fault",
    [
        faults.html(),
        faults.json_value([1]),
        faults.no_json(),
        faults.unauthorised(),
        faults.rate_limited(7),
        faults.server_error(),
        faults.Raw(400, gzip.compress(b'{"error": {"message": "so not"}}'), headers={"content-encoding": "gzip"}),
        faults.ConnectionReset(),
        faults.Truncated(GOOD),
    ],
    ids=lambda fault: f"{type(fault).__name__}-{fault.status}",
)
async def test_a_fault_is_described_alike_at_first_and_later(messages_api, fault):
    """A later request, which is sent past the SDK, ends in the same error and advice as the first one of a client."""
    first, later = [await asked(messages_api(script), 9) for script in ([fault], [LOOK, fault])]
    assert (first.status, later.status, later.tool_calls.used) == ("failed", "failed", 1)
    masked = [re.sub(r"127\.0\.0\.1:\d+", "HOST", str(one.error)) for one in (first, later)]
    assert masked[0] == masked[1]
    assert (first.error_kind, first.retry_after) == (later.error_kind, later.retry_after)


async def test_a_key_that_cannot_be_sent_is_not_shown(messages_api):
    """The error for a key with a line break says where to look and shows no part of the key."""
    api = messages_api([])
    outcome = await asked(api, 9, key="sk-my\nsecret-key")
    assert outcome.error == "the request cannot be sent; check ANTHROPIC_API_KEY for invalid characters"
    assert "secret" not in repr(outcome)


async def test_x_3_a_call_with_incomplete_arguments_is_not_run(messages_api):
    """A call with incomplete streamed arguments is not run; only a reply that was cut may be read in part."""
    half = replace(cut_call("look", '{"query": "half of', {}), stop_reason="tool_use")
    api = messages_api([half, GOOD])
    outcome = await asked(api, 9, watch=lambda delta: None)
    assert (outcome.answer, outcome.tool_calls.failed) == ("fine", 1)
    assert "the arguments are no JSON object" in next(iter(api.requests[1].results.values()))


GENERATORS = 10
"""More than the SDKs nest when they read a stream."""


@pytest.fixture
def made(monkeypatch):
    """Disable the garbage collector; return weak references to all requests and responses of the HTTP library."""
    found = []

    def watched(kind):
        begin = kind.__init__

        def begin_and_note(self, *arguments, **options):
            begin(self, *arguments, **options)
            found.append(weakref.ref(self))

        monkeypatch.setattr(kind, "__init__", begin_and_note)

    watched(httpx2.Request)
    watched(httpx2.Response)
    # Whatever tracers and logs other tests have set up.
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    monkeypatch.setattr(logging.Logger, "isEnabledFor", lambda *_: False)
    gc.disable()
    yield found
    gc.enable()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "watch"), [("messages", None), ("chat", lambda delta: None)], ids=["json", "stream"])
async def test_objects_of_a_request_are_freed_without_the_collector(messages_api, chat_api, made, kind, watch):
    """Neither the SDKs' objects nor the sent bytes outlive their request."""
    api = messages_api([says("fine")] * 3) if kind == "messages" else chat_api([chat_says("fine")] * 3)
    async with connected(api) as provider:
        for _ in range(3):
            assert (await outcome_of(job(provider, 9), watch=watch)).answer == "fine"
        # The event loop closes the nested generators of a stream one after another, each in a turn of its own.
        for _ in range(GENERATORS):
            await asyncio.sleep(0)
        assert len(made) >= (6 if watch else 3)
        # Later requests of a client repeat the headers of one, without its body.
        alive = [one() for one in made if one() is not None]
        assert [(type(one), one.content) for one in alive] == ([] if watch else [(httpx2.Request, b"")])
        client = weakref.ref(provider.client)
    del alive, provider
    gc.collect()
    assert client() is None


Streamed = Callable[..., Awaitable[tuple[Outcome, Any]]]


@pytest.fixture(params=["chat", "messages"])
def api_name(request) -> str:
    """Both APIs."""
    return request.param


@pytest.fixture
def streamed(api_name, chat_api, messages_api) -> Streamed:
    """Return a function that streams a script to a job."""

    async def run(script, limit=9, **settings):
        api = (chat_api if api_name == "chat" else messages_api)(script)
        return await asked(api, limit, watch=lambda delta: None, **settings), api

    return run


@pytest.fixture
def endless(api_name):
    """Return the kind of stream without end that belongs to the API."""
    return EndlessChat if api_name == "chat" else EndlessMessages


@pytest.fixture
def answered(api_name):
    """Return a reply that calls `respond`."""
    return (chat_answers if api_name == "chat" else answers)("at last")


def is_warned(outcome: Outcome) -> bool:
    """Return whether the outcome says that a reply was ended because of white space."""
    return any("nothing but white space" in warning for warning in outcome.warnings)


async def test_g7_text_before_endless_white_space_is_the_reply(streamed, endless):
    """A text followed by endless white space is the answer, with a warning, and the connection is closed."""
    stream = endless(("The ", "answer."))
    outcome, _ = await streamed([stream])
    assert (outcome.status, outcome.answer) == ("answered", "The answer.")
    assert is_warned(outcome)
    assert stream.was_cut_off


async def test_g7_complete_arguments_before_endless_white_space_are_run(streamed, endless, answered):
    """A call whose arguments are complete is run, although the server never ends its reply."""
    stream = endless(('{"query":', '"a"}'), tool="look")
    outcome, _ = await streamed([stream, answered])
    assert (outcome.answer, outcome.tool_calls.used, outcome.tool_calls.failed) == ("at last", 1, 0)
    assert stream.was_cut_off


async def test_g7_a_call_that_breaks_off_is_requested_again(streamed, endless, answered):
    """A call whose arguments break off in white space is not run; the request is repeated once."""
    stream = endless((half_of({"query": "a"}),), tool="look")
    outcome, api = await streamed([stream, answered])
    assert (outcome.answer, outcome.tool_calls.used) == ("at last", 0)
    assert is_warned(outcome)
    assert api.requests[0].messages == api.requests[1].messages


async def test_g7_white_space_alone_is_no_answer(streamed, endless, answered):
    """White space alone is an empty answer, which is requested once more."""
    outcome, _ = await streamed([endless(), answered])
    assert (outcome.status, outcome.answer) == ("answered", "at last")


@pytest.mark.exhaustive
async def test_g7_a_landing_of_endless_white_space_ends(streamed, endless):
    """Every request of a landing that returns endless white space is ended, and the run has an outcome."""
    # Line breaks in JSON are escaped, and each escape is split between two pieces.
    streams = [endless(('{"answer": "so\\',), tool="respond", blank="n\\") for _ in range(2)]
    outcome, _ = await streamed(streams, 0)
    assert (outcome.status, outcome.answer) == ("partial", "so\n[truncated]")
    assert all(stream.was_cut_off for stream in streams)


async def test_g7_white_space_within_a_reply_is_no_end(streamed, endless):
    """White space that is followed by words does not count: the stream continues until there is too much in a row."""
    stream = endless(("The", " " * 1_999, "an", "\n" * 1_999, "swer."))
    outcome, _ = await streamed([stream])
    assert outcome.answer == "The" + " " * 1_999 + "an" + "\n" * 1_999 + "swer."
