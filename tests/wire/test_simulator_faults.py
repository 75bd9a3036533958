"""Each fault of the simulator breaks a reply at the documented place."""

import http.client
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.wire.simulator import Gate, MessagesSimulator, faults, replies
from tests.wire.simulator.client import post
from tests.wire.simulator.examples.base import Body, chat, request
from tests.wire.simulator.replies import tool_use

Start = Callable[..., MessagesSimulator]
REPLY = replies.says("Let me look.", tool_use("search", {"query": "owls"}))
BROKEN = (ConnectionError, http.client.HTTPException)


def streamed(**fields: object) -> Body:
    """Return a valid request with streaming."""
    return chat(stream=True, **fields)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (faults.html(), (200, "text/html", b"<!doctype html>")),
        (faults.json_value({}), (200, "application/json", b"{}")),
        (faults.json_value([1]), (200, "application/json", b"[1]")),
        (faults.no_json(), (400, "application/json", b"upstream")),
        (faults.not_events(), (200, "text/event-stream; charset=utf-8", b"data: this")),
        (faults.Raw(418, b"tea", kind="text/tea"), (418, "text/tea", b"tea")),
    ],
    ids=lambda value: value[2].decode() if isinstance(value, tuple) else "",
)
def test_any_raw_response_can_be_sent(
    messages_api: Start, fault: faults.Fault, expected: tuple[int, str, bytes], *, stream: bool
) -> None:
    """Any status, content type and body can be sent, with and without streaming."""
    status, kind, body = expected
    api = messages_api([fault])
    response = post(api.base_url, request(stream=stream))
    assert (response.status, response.headers["content-type"]) == (status, kind)
    assert response.raw.startswith(body)
    assert api.requests[0].status == status


@pytest.mark.parametrize("fault", [faults.rate_limited(7), faults.overloaded(7)], ids=["429", "529"])
def test_a_429_or_529_has_a_retry_after(messages_api: Start, fault: faults.ApiError) -> None:
    """A 429 or 529 carries the seconds to wait in `retry-after`."""
    response = post(messages_api([fault]).base_url, request())
    assert (response.status, response.headers["retry-after"]) == (fault.status, "7")
    assert response.json["error"]["type"] == fault.kind


def test_a_broken_stream_sends_its_first_events(messages_api: Start) -> None:
    """A broken stream sends its first events, then closes the connection without the end of the body."""
    api = messages_api([faults.BrokenOff(REPLY, after_events=2)])
    with pytest.raises(http.client.IncompleteRead) as caught:
        post(api.base_url, streamed())
    assert caught.value.partial.count(b"event: ") == 2
    assert api.requests[0].status == 200


def test_a_stream_can_end_with_a_reset(messages_api: Start) -> None:
    """A stream can also end with a connection reset."""
    api = messages_api([faults.BrokenOff(REPLY, reset=True)])
    with pytest.raises(ConnectionResetError):
        post(api.base_url, streamed())


def test_a_json_reply_can_end_before_its_length(messages_api: Start) -> None:
    """A JSON reply ends before its announced length."""
    api = messages_api([faults.BrokenOff(REPLY)])
    with pytest.raises(http.client.IncompleteRead):
        post(api.base_url, chat())


def test_a_truncated_json_reply_looks_complete(messages_api: Start) -> None:
    """Without a content length, half a JSON reply looks like a complete response."""
    response = post(messages_api([faults.Truncated(REPLY)]).base_url, chat())
    assert response.status == 200
    assert "content-length" not in response.headers
    with pytest.raises(json.JSONDecodeError):
        json.loads(response.raw)


def test_a_stream_can_contain_an_error_event(messages_api: Start) -> None:
    """A stream with status 200 has an `error` event in the middle; without streaming, the error is the response."""
    api = messages_api([faults.ErrorEvent(REPLY, after_events=3), faults.ErrorEvent(REPLY)])
    response = post(api.base_url, streamed())
    assert response.status == 200
    assert [event["type"] for event in response.events][-2:] == ["content_block_delta", "error"]
    assert response.events[-1]["error"]["type"] == "overloaded_error"
    assert post(api.base_url, chat()).status == 529


def test_a_reply_can_have_a_wrong_content_type(messages_api: Start) -> None:
    """A valid reply can be sent with a wrong content type."""
    response = post(messages_api([faults.MislabelledReply(REPLY)]).base_url, chat())
    assert response.headers["content-type"] == "text/plain"
    assert response.json["stop_reason"] == "tool_use"


def test_a_connection_can_be_reset(messages_api: Start) -> None:
    """The connection can be reset in place of a reply."""
    api = messages_api([faults.ConnectionReset()])
    with pytest.raises(ConnectionResetError):
        post(api.base_url, request())
    assert api.requests[0].status is None


def test_a_request_hangs_until_its_gate_opens(messages_api: Start) -> None:
    """A request hangs until its gate opens, and other requests are served meanwhile."""
    hang = faults.Hang()
    api = messages_api([hang, replies.says("Mice.")])
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(post, api.base_url, request())
        hang.gate.wait_for_request()
        assert post(api.base_url, request()).status == 200
        assert not hanging.done()
        hang.gate.open()
        with pytest.raises(BROKEN):
            hanging.result()


def test_late_reply(messages_api: Start) -> None:
    """A gated reply is sent when its gate opens, a delayed one after its delay."""
    gate = Gate()
    api = messages_api([replies.says("Mice.", gate=gate), replies.says("Voles.", delay=0.01)])
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(post, api.base_url, request())
        gate.wait_for_request()
        assert not late.done()
        gate.open()
        assert late.result().status == 200
    assert post(api.base_url, request()).status == 200


@pytest.mark.parametrize(
    "answer",
    [
        faults.Hang(),
        replies.says("Mice.", gate=Gate()),
        replies.says("Mice.", delay=3600),
        replies.says("Mice.", midway=Gate()),
    ],
    ids=["hang", "gate", "delay", "midway"],
)
def test_stop_while_a_reply_is_held_back(answer: replies.Reply | faults.Fault) -> None:
    """The simulator stops immediately while a reply is held back, and leaves no thread behind."""
    before = set(threading.enumerate())
    arrived = Gate()

    def policy(_: object) -> replies.Reply | faults.Fault:
        arrived.reached.set()
        return answer

    with ThreadPoolExecutor(1) as pool:
        with MessagesSimulator(policy) as api:
            held = pool.submit(post, api.base_url, streamed())
            arrived.wait_for_request()
        with pytest.raises(BROKEN):
            held.result()
    assert set(threading.enumerate()) <= before


def test_stop_with_an_idle_connection(messages_api: Start) -> None:
    """A client's idle keep-alive connection does not prevent the simulator from stopping."""
    api = messages_api([replies.says("Mice."), replies.says("Voles.")])
    connection = http.client.HTTPConnection("127.0.0.1", int(api.base_url.rpartition(":")[2]))
    headers = {"x-api-key": "k", "anthropic-version": "2026-10-21", "content-type": "application/json"}
    for _ in range(2):
        connection.request("POST", "/v1/messages", json.dumps(request()), headers)
        assert connection.getresponse().read()
    api.stop()
    assert not api.failures
    connection.close()


def test_body_in_chunks(messages_api: Start) -> None:
    """A request body may be sent in chunks, without a content length."""
    api = messages_api([replies.says("Mice.")])
    connection = http.client.HTTPConnection("127.0.0.1", int(api.base_url.rpartition(":")[2]))
    headers = {"x-api-key": "k", "anthropic-version": "2026-10-21", "content-type": "application/json"}
    body = json.dumps(request()).encode()
    connection.request("POST", "/v1/messages", iter([body[:9], body[9:]]), headers, encode_chunked=True)
    assert connection.getresponse().status == 200
    connection.close()
    assert api.requests[0].raw == body


@pytest.mark.exhaustive
def test_two_hundred_clients_are_served_concurrently(messages_api: Start) -> None:
    """Two hundred clients are served concurrently, each request is recorded, and no id is repeated."""
    api = messages_api(lambda _: REPLY)
    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(lambda _: post(api.base_url, chat()), range(200)))
    assert {response.status for response in responses} == {200}
    assert len({response.headers["request-id"] for response in responses}) == 200
    assert len({response.json["content"][1]["id"] for response in responses}) == 200
    assert len(api.accepted) == 200
