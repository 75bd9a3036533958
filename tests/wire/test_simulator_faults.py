"""Each fault of the simulator breaks a reply at the documented place."""

import http.client
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.wire.simulator import MessagesSimulator, faults, replies
from tests.wire.simulator.client import post
from tests.wire.simulator.examples.base import Body, chat, request
from tests.wire.simulator.replies import tool_use

Start = Callable[..., MessagesSimulator]
REPLY = replies.says("Let me look.", tool_use("search", {"query": "owls"}))
BROKEN = (ConnectionError, http.client.HTTPException)


def streamed(**fields: object) -> Body:
    """Return a valid request with streaming."""
    return chat(stream=True, **fields)


def test_a_broken_stream_sends_its_first_events(messages_api: Start) -> None:
    """A broken stream sends its first events, then closes the connection without the end of the body."""
    api = messages_api([faults.BrokenOff(REPLY, after_events=2)])
    with pytest.raises(http.client.IncompleteRead) as caught:
        post(api.base_url, streamed())
    assert caught.value.partial.count(b"event: ") == 2
    assert api.requests[0].status == 200


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
