"""Forked runs over the wire: the first turns of a stored run, continued by the same or another model."""

import pytest

from tests.journals import load
from tests.wire.chat import replies as chat_replies
from tests.wire.resumed_requests import CHAT, MESSAGES, Endpoint, check_continued, look, message_bytes
from tests.wire.simulator import replies

pytestmark = pytest.mark.anyio


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
async def test_fork_1_with_the_same_model_the_prefix_is_sent_byte_for_byte(endpoint, kind):
    """A fork at turn 2 repeats the request after turn 2 byte for byte, so that the prompt cache can be read."""
    say = replies if kind == MESSAGES else chat_replies
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
    chat_replies.says("<think>hm</think>I look.", chat_replies.tool_call("look", {"query": q}, f"functions.look:{n}"))
    for n, q in enumerate("ab")
]


@pytest.mark.parametrize(("kind", "script"), [(MESSAGES, THINKS), (CHAT, REASONS)])
async def test_fork_2_another_model_gets_no_thinking_of_the_first(endpoint, kind, script):
    """A run of one API continues on the other: without thinking, with ids that it accepts, with a note about it."""
    other = CHAT if kind == MESSAGES else MESSAGES
    say = replies if other == MESSAGES else chat_replies
    one = endpoint(kind, [*script, (replies if kind == MESSAGES else chat_replies).answers("some")])
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
