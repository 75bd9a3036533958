"""Retries on the wire: both APIs with the real SDKs, whole replies and streamed ones."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from run_specialist.loop.retries import Retries
from run_specialist.providers import anthropic, openai_chat
from run_specialist.record.events import Requested, Retrying
from run_specialist.record.outcome import Exit
from tests.loop_jobs import job, outcome_of
from tests.wire.chat import faults as chat_faults
from tests.wire.chat import replies as chat_replies
from tests.wire.json_mode import JSON_MODE, looks, responds
from tests.wire.simulator import faults, replies

pytestmark = pytest.mark.anyio
SENTENCE = "The first half of a long answer that never came to its end."
HALF = {"choices": [{"delta": {"content": "The first half"}}]}


class Api:
    """One of the two APIs, with what it sends."""

    def __init__(self, name, start, *, streams):
        self._name = name
        self._start = start
        self.streams = streams
        if name == "messages":
            self.look = replies.calls("look", {"query": "a"})
            self.answer = replies.answers("mice")
            self.limited, self.reset = faults.rate_limited, faults.ConnectionReset()
            self.busy = faults.overloaded()
            self.error_event = faults.ErrorEvent(replies.says(SENTENCE), after_events=5)
            self.broken = faults.BrokenOff(replies.says(SENTENCE), after_events=5)
        else:
            self.look = chat_replies.calls("look", {"query": "a"})
            self.answer = chat_replies.answers("mice")
            self.limited, self.reset = chat_faults.rate_limited, chat_faults.ConnectionReset()
            self.busy = chat_faults.error(503, "busy", type="server_error")
            overloaded = {"error": {"message": "busy", "code": 503}}
            self.error_event = chat_faults.Stream((HALF, overloaded)) if streams else self.busy
            self.broken = chat_faults.BrokenOff(chat_replies.says(SENTENCE), after_chunks=4)

    def serve(self, *script, **options):
        """Start a simulator."""
        return self._start(list(script), **options)

    @asynccontextmanager
    async def provider(self, url, **options):
        """Yield a provider for an address."""
        module = anthropic if self._name == "messages" else openai_chat
        async with module.make_client(base_url=url, api_key="test", **options) as client:
            kind = module.AnthropicProvider if self._name == "messages" else module.ChatProvider
            yield kind("haiku", client)

    async def run(self, url, events=None, shown=None, client=None, **settings):
        """Run a job and return its outcome."""
        watch = (lambda delta: None if shown is None else shown.append(delta.text)) if self.streams else None
        async with self.provider(url, **(client or {})) as provider:
            return await outcome_of(job(provider, 9, **settings), events, watch)


@pytest.fixture(params=["messages, whole", "messages, streamed", "chat, whole", "chat, streamed"])
def api(request, messages_api, chat_api):
    """Both APIs, with whole replies and with streamed ones."""
    name, how = request.param.split(", ")
    return Api(name, messages_api if name == "messages" else chat_api, streams=how == "streamed")


def waits_in(events):
    """Return the waits among events, as status and attempt."""
    return [(event.status, event.attempt) for event in events if isinstance(event, Retrying)]


@pytest.mark.exhaustive(one_in=3)
async def test_w1_w2_two_429s_then_an_answer(api):
    """The same bytes are sent three times; turns and bill are those of a run without failures."""
    events = []
    server = api.serve(api.look, api.limited(3), api.limited(2), api.answer)
    outcome = await api.run(server.base_url, events)
    calm = await api.run(api.serve(api.look, api.answer).base_url)
    assert (outcome.status, outcome.answer) == ("answered", "mice")
    assert waits_in(events) == [(429, 1), (429, 2)]
    assert [event.seconds for event in events if isinstance(event, Retrying)] == [3, 2]
    assert all("429" in event.reason and "try again" not in event.reason for event in events if waits_in([event]))
    assert server.requests[1].raw == server.requests[2].raw == server.requests[3].raw
    assert [request.headers["x-stainless-retry-count"] for request in server.requests] == ["0", "0", "1", "2"]
    assert (outcome.usage, outcome.cost_usd, outcome.limits["turns"]) == (
        calm.usage,
        calm.cost_usd,
        calm.limits["turns"],
    )
    assert len([event for event in events if isinstance(event, Requested)]) == 2


@pytest.mark.exhaustive(one_in=3)
async def test_w1_an_overload_for_longer_than_the_patience_fails_resumably(api):
    """After a minute of overload the error has the reason, the number of retries, and the advice."""
    events, server = [], api.serve(api.look, *[api.busy] * 20, all_used=False)
    outcome = await api.run(server.base_url, events, patience=60)
    count = len(server.requests) - 2
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.PROVIDER)
    assert outcome.error.endswith(f"try again later (retried {count} times in 60 s)")
    assert 8 <= count <= 13
    assert "note on 'a'" in outcome.answer
    assert len(waits_in(events)) == count


async def test_w1_a_server_that_is_not_up_yet_is_waited_for(api, monkeypatch):
    """A refused connection has no status; once the server listens, the run continues."""
    server, events, doors = api.serve(api.answer), [], []
    port = server.base_url.split(":")[2].split("/")[0]

    async def pipe(reader, writer):
        while piece := await reader.read(65_536):
            writer.write(piece)
        writer.close()

    async def pass_on(reader, writer):
        upstream = await asyncio.open_connection("127.0.0.1", int(port))
        await asyncio.gather(pipe(reader, upstream[1]), pipe(upstream[0], writer))

    door = await asyncio.start_server(pass_on, "127.0.0.1", 0)
    own = door.sockets[0].getsockname()[1]
    door.close()
    await door.wait_closed()

    async def open_at_last(seconds):
        if len(waits_in(events)) == 3:
            doors.append(await asyncio.start_server(pass_on, "127.0.0.1", own))

    monkeypatch.setattr(Retries, "sleep", staticmethod(open_at_last))
    outcome = await api.run(server.base_url.replace(port, str(own)), events)
    doors[0].close()
    assert outcome.answer == "mice"
    assert waits_in(events) == [(None, 1), (None, 2), (None, 3)]
    reasons = {event.reason for event in events if isinstance(event, Retrying)}
    assert all(reason.startswith("cannot reach http://127.0.0.1") for reason in reasons)


async def test_w1_w6_an_error_event_in_mid_stream_is_retried(api):
    """An overload in the middle of a reply is retried like one before it, and its text is not part of the answer."""
    events, shown = [], []
    server = api.serve(api.error_event, api.look, api.error_event, api.answer)
    outcome = await api.run(server.base_url, events, shown)
    assert (outcome.status, outcome.answer, outcome.tool_calls.used) == ("answered", "mice", 1)
    assert [attempt for _, attempt in waits_in(events)] == [1, 1]
    assert {status for status, _ in waits_in(events)} <= {503, 529}
    assert ("The first half" in "".join(shown)) is api.streams
    assert server.requests[0].raw == server.requests[1].raw


async def test_w4_w6_a_reply_that_always_breaks_off_is_tried_three_times(api):
    """Each attempt may be billed, so there are three; the text that streamed is the salvage."""
    events, server = [], api.serve(api.broken, api.broken, api.broken)
    outcome = await api.run(server.base_url, events)
    assert (outcome.status, waits_in(events)) == ("failed", [(None, 1), (None, 2)])
    assert outcome.answer.count("The first half") == api.streams
    assert outcome.usage.total_tokens == 0


async def test_w6_the_text_of_a_broken_attempt_is_no_answer_once_another_succeeded(api):
    """A later failure salvages what was gathered, and not the words of an attempt that another replaced."""
    server = api.serve(api.broken, api.look, api.busy, api.busy)
    outcome = await api.run(server.base_url, patience=0.3)
    assert outcome.status == "failed"
    assert "note on 'a'" in outcome.answer
    assert "The first half" not in outcome.answer


async def test_w4_a_connection_that_is_reset_once_is_repaired(api):
    """A reset after the request was sent is repaired by one more request."""
    events, server = [], api.serve(api.reset, api.answer)
    outcome = await api.run(server.base_url, events)
    assert (outcome.answer, waits_in(events), len(server.requests)) == ("mice", [(None, 1)], 2)


@pytest.mark.exhaustive(one_in=3)
async def test_w3_a_longer_wait_than_the_patience_is_an_error_at_once(api):
    """The error says how long the API wants to be left alone, and the request was sent once."""
    events, server = [], api.serve(api.limited(900))
    outcome = await api.run(server.base_url, events)
    assert "try again in 900 seconds, as the API requests, longer than patience allows (120 seconds)" in outcome.error
    assert (waits_in(events), len(server.requests)) == ([], 1)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("settings", [{"patience": 0}, {"client": {"max_retries": 0}}], ids=["patience", "client"])
async def test_w7_without_patience_or_retries_of_the_client_a_request_is_sent_once(api, settings):
    """`patience: 0` turns retries off, and so does a client that was made without them."""
    events, server = [], api.serve(api.busy)
    outcome = await api.run(server.base_url, events, **settings)
    assert (outcome.status, waits_in(events), len(server.requests)) == ("failed", [], 1)
    assert "retried" not in outcome.error


async def test_an_exhausted_quota_is_not_waited_for(chat_api):
    """The 429 of an exhausted quota is an error immediately."""
    server = chat_api([chat_faults.error(429, "You exceeded your quota.", code="insufficient_quota")])
    async with openai_chat.make_client(base_url=server.base_url, api_key="test") as client:
        outcome = await outcome_of(job(openai_chat.ChatProvider("some-model", client)))
    assert "You exceeded your quota." in outcome.error
    assert len(server.requests) == 1


async def test_an_unknown_error_event_is_not_retried(chat_api):
    """An error in mid-stream that names no kind that may pass ends the run."""
    server = chat_api([chat_faults.Stream((HALF, {"error": {"message": "odd", "type": "brand_new"}}))])
    async with openai_chat.make_client(base_url=server.base_url, api_key="test") as client:
        outcome = await outcome_of(job(openai_chat.ChatProvider("some-model", client)), watch=lambda delta: None)
    assert outcome.error == "the server ended its reply with an error: odd; try again later"


@pytest.mark.parametrize("url", ["no-url", "ftp://x"])
async def test_an_address_that_is_none_is_not_retried(url):
    """An unusable address is an error immediately."""
    events = []
    async with anthropic.make_client(base_url=url, api_key="test") as client:
        outcome = await outcome_of(job(anthropic.AnthropicProvider("haiku", client)), events)
    assert (waits_in(events), outcome.exit_code) == ([], Exit.PROVIDER)


@pytest.mark.parametrize("how", ["whole", "streamed"])
async def test_w6_g8_a_call_in_json_is_streamed_anew(chat_api, how):
    """With calls as JSON, the pieces of a call that broke off do not mix with those of the next attempt."""
    shown, half = [], chat_faults.BrokenOff(responds("a long answer of many pieces"), after_chunks=4)
    server = chat_api([looks("a"), half, responds("mice")])
    watch = (lambda delta: shown.append((delta.tool, delta.text))) if how == "streamed" else None
    async with openai_chat.make_client(base_url=server.base_url, api_key="test") as client:
        outcome = await outcome_of(job(openai_chat.ChatProvider("some-model", client), **JSON_MODE), watch=watch)
    assert (outcome.status, outcome.answer) == ("answered", "mice")
    assert server.requests[1].raw == server.requests[2].raw
    assert ("respond" in {tool for tool, _ in shown}) is (how == "streamed")


async def test_w6_an_answer_by_schema_is_streamed_anew(chat_api):
    """Each attempt of a landing by a schema is read by itself, and the newest part of the answer is the salvage."""
    half = chat_faults.BrokenOff(
        chat_replies.says('{"answer": "The first half of it all", "evidence": []}'), after_chunks=5
    )
    prose = chat_faults.BrokenOff(chat_replies.says("Well, let me think about it."), after_chunks=5)
    server = chat_api([chat_replies.calls("look", {"query": "a"}), prose, half, half])
    async with openai_chat.make_client(base_url=server.base_url, api_key="test") as client:
        outcome = await outcome_of(job(openai_chat.ChatProvider("some-model", client), 1), watch=lambda delta: None)
    assert outcome.answer.splitlines()[2].startswith("The first")
    assert outcome.answer.count("The first") == 1
    assert '"answer"' not in outcome.answer


@pytest.mark.parametrize(("code", "retries"), [(socket.EAI_NONAME, 2), (socket.EAI_AGAIN, 4)])
async def test_w4_a_name_that_nobody_knows_is_tried_three_times(monkeypatch, code, retries):
    """An unknown name is rather misspelt than away, while a name server that does not answer is waited for."""

    def fail(*_, **__):
        raise socket.gaierror(code, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    events = []
    async with anthropic.make_client(base_url="http://owl.test", api_key="test") as client:
        await outcome_of(job(anthropic.AnthropicProvider("haiku", client), patience=3.5), events)
    assert retries <= len(waits_in(events)) <= retries + (code == socket.EAI_AGAIN)


async def test_w4_a_server_without_tls_is_tried_three_times():
    """A handshake that fails will hardly succeed in a minute."""

    async def refuse(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server, events = await asyncio.start_server(refuse, "127.0.0.1", 0), []
    port = server.sockets[0].getsockname()[1]
    async with server, anthropic.make_client(base_url=f"https://127.0.0.1:{port}", api_key="test") as client:
        outcome = await outcome_of(job(anthropic.AnthropicProvider("haiku", client)), events)
    assert (waits_in(events), outcome.exit_code) == ([(None, 1), (None, 2)], Exit.PROVIDER)
