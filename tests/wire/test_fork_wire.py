"""Forked runs over the wire: the first turns of a stored run, continued by the same or another model."""

import pytest

from tests.journals import load
from tests.wire.chat import replies as chat_replies
from tests.wire.json_mode import written
from tests.wire.resumed_requests import CHAT, LOOKER, MESSAGES, Endpoint, check_continued, look, message_bytes
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
async def test_f_1_with_the_same_model_the_prefix_is_sent_byte_for_byte(endpoint, kind):
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
async def test_f_2_another_model_gets_no_thinking_of_the_first(endpoint, kind, script):
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


@pytest.mark.parametrize(
    ("first", "then"), [pytest.param("haiku", "sonnet", marks=pytest.mark.exhaustive), ("sonnet", "haiku")]
)
async def test_f_2_a_model_that_thinks_otherwise_goes_on(endpoint, first, then):
    """Between models that think and those that do not, inside a tool loop, the API accepts every request of a fork."""
    thinks = THINKS if first == "sonnet" else [look(replies, q) for q in "ab"]
    script = [*thinks, replies.answers("some"), look(replies, "c"), replies.answers("more"), replies.answers("last")]
    one = endpoint(MESSAGES, script, model=first)
    source, _ = await one.ask()
    one.model = then
    _, outcome = await forked(one, 2, source=source.run_id)
    _, again = await one.resume("And?")
    assert (outcome.answer, again.answer) == ("more", "last")
    assert len(one.accepted) == len(one.requests) == 6
    assert outcome.cost_usd == pytest.approx(sum(turn.cost_usd for turn in stored(one).turns[2:4]))


def stored(one):
    """Return the newest run."""
    return load(f"sqlite:///{one.folder}/runs.db")


@pytest.mark.parametrize("kind", [MESSAGES, pytest.param(CHAT, marks=pytest.mark.exhaustive)])
async def test_f_2_calls_as_json_go_on_at_the_other_api(endpoint, kind):
    """A run whose calls are JSON is forked with another model of the other API, whose calls are JSON too."""
    other = CHAT if kind == MESSAGES else MESSAGES
    texts = [written("look", query="a", part=None), written("respond", answer="some", evidence=None, gaps=None)]
    say = {MESSAGES: replies.says, CHAT: chat_replies.says}
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
