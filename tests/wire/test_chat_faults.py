"""Faults of a chat completions server end in a one-line error; the gathered work is kept and no traceback is shown."""

import json

import pytest

from run_specialist.providers.openai_chat import ChatProvider, make_client
from run_specialist.record.outcome import Exit
from tests.loop_jobs import job, outcome_of
from tests.wire.chat import faults
from tests.wire.chat.replies import answers, calls, says

pytestmark = pytest.mark.anyio
GOOD = says("The first half of a long answer that never came to its end.")
LOOK = calls("look", {"query": "a"})
ASK = "does OPENAI_BASE_URL point to a chat completions server?"


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (faults.html(), f"answered with text/html, not JSON; {ASK}"),
        (faults.html(502), "the API answered 502"),
        (faults.json_value({}), f"contains no choice with a message; {ASK}"),
        (faults.json_value({"choices": []}), f"contains no choice with a message; {ASK}"),
        (faults.json_value({"choices": [{"text": "old"}]}), f"contains no choice with a message; {ASK}"),
        (faults.json_value({"choices": "none"}), "contains no choice"),
        (faults.json_value([1]), f"JSON that is not an object; {ASK}"),
        (faults.MislabelledReply(GOOD), f"answered with text/plain, not JSON; {ASK}"),
        (faults.json_value({"error": {"message": "Overloaded"}}), "answered with an error: Overloaded"),
        (faults.json_value({"error": "Over\nloaded"}), "answered with an error: Over loaded"),
        (faults.no_json(), "the API answered 400: upstream connect error or disconnect"),
        (faults.invalid("max_tokens: too\nlarge"), "the API answered 400: max_tokens: too large"),
        (faults.json_value({"error": "no such model"}, 400), "the API answered 400: no such model"),
        (faults.json_value({"object": "error", "message": "odd"}, 400), "the API answered 400: odd"),
        (faults.json_value({"detail": "Not allowed"}, 405), "the API answered 405: Not allowed"),
        (faults.json_value([{"error": {"message": "in a list"}}], 400), "the API answered 400: in a list"),
        (faults.unauthorised(), "the API answered 401: Incorrect API key provided: sk-test.; check OPENAI_API_KEY"),
        (faults.not_found(), "does not exist.; check `model` and OPENAI_BASE_URL"),
        (faults.rate_limited(), "the API answered 429: Rate limit reached.; wait a little, then try again"),
        (faults.ConnectionReset(), "cannot reach http://127.0.0.1"),
    ],
)
async def test_x_12_each_fault_is_a_one_line_error(ask_chat, fault, said):
    """The run fails with exit code 3 and a one-line error; the answer holds the results gathered before."""
    outcome, _ = await ask_chat([LOOK, fault])
    assert said in outcome.error
    assert len(outcome.error.splitlines()) == 1
    assert (outcome.status, outcome.exit_code) == ("failed", Exit.PROVIDER)
    assert "note on 'a'" in outcome.answer


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    "fault",
    [
        faults.BrokenOff(GOOD),
        faults.BrokenOff(GOOD, reset=True),
        faults.BrokenOff(GOOD, after_chunks=0),
        faults.BrokenOff(GOOD, after_chunks=4, silent=True),
        faults.BrokenOff(GOOD, after_chunks=0, silent=True),
        faults.BrokenOff(LOOK, after_chunks=3, silent=True),
        faults.Truncated(GOOD),
        faults.Stream(("this is not JSON", "{")),
        faults.Stream(("[DONE]",)),
        faults.Stream(({"choices": [{"delta": {"content": "half"}}]}, "[DONE]")),
        faults.Stream(({"choices": [{"delta": {"tool_calls": [{"index": [], "function": {"name": "a"}}]}}]},)),
    ],
)
async def test_x_12_calls_of_a_broken_reply_are_not_run(ask_chat, fault):
    """A reply that breaks off is a provider error of one line; none of its calls is run."""
    outcome, _ = await ask_chat([LOOK, fault])
    assert (outcome.status, outcome.exit_code, outcome.tool_calls.used) == ("failed", Exit.PROVIDER, 1)
    assert outcome.error
    assert "\n" not in outcome.error


@pytest.mark.parametrize("silent", [False, True])
async def test_text_that_streamed_before_a_break_is_salvaged(chat_api, silent):
    """Text streamed before a break is kept; the error reports a broken reply, not an unreachable server."""
    api = chat_api([faults.BrokenOff(GOOD, after_chunks=4, silent=silent)])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        shown = []
        provider = ChatProvider("some-model", client)
        outcome = await outcome_of(job(provider), watch=lambda delta: shown.append(delta.text))
    assert "closed in the middle of a reply" in outcome.error
    assert (outcome.status, bool(shown)) == ("failed", True)
    assert "".join(shown) in outcome.answer


async def test_a_mid_stream_error_is_reported(chat_api):
    """A mid-stream error, raised by the SDK without a status, is reported with its message; the text so far is kept."""
    chunk = {"choices": [{"delta": {"content": "so far"}}]}
    api = chat_api([faults.Stream((chunk, {"error": {"message": "The model\ncrashed", "code": 500}}))])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)), watch=lambda delta: None)
    assert outcome.error == "the server ended its reply with an error: The model crashed; try again later"
    assert "so far" in outcome.answer


async def test_x_8_a_full_context_in_mid_stream_gives_a_partial_outcome(chat_api):
    """A full context reported in mid-stream makes the run partial, with exit code 0."""
    full = {"error": {"message": "the request exceeds the available context size", "type": "exceed_context_size_error"}}
    api = chat_api([LOOK, faults.Stream((full,))])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)), watch=lambda delta: None)
    assert (outcome.status, outcome.exit_code) == ("partial", Exit.OK)


async def test_a_retry_after_beyond_the_deadline_is_not_waited_for(ask_chat):
    """A `retry-after` beyond the patience is not waited for."""
    outcome, api = await ask_chat([faults.rate_limited(121)], retries=2)
    assert outcome.error == (
        "the API answered 429: Rate limit reached.; "
        "try again in 121 seconds, as the API requests, longer than patience allows (120 seconds)"
    )
    assert len(api.requests) == 1


async def test_a_short_retry_after_is_honoured(ask_chat):
    """The SDK retries after a short `retry-after`, with the same bytes."""
    outcome, api = await ask_chat([faults.rate_limited(0.01), answers("yes")], retries=2)
    assert (outcome.status, len(api.requests)) == ("answered", 2)
    assert api.requests[0].raw == api.requests[1].raw


async def test_a_key_quoted_by_the_server_is_redacted(ask_chat):
    """An API key that the server quotes is redacted, even one that does not look like a key."""
    outcome, _ = await ask_chat([faults.unauthorised("our-house-password")], key="our-house-password")
    assert "[redacted]" in outcome.error
    assert "password" not in repr(outcome)


async def test_text_that_looks_like_a_key_is_redacted(ask_chat):
    """Any text that looks like a key is redacted, in an error reply and in an error object with status 200."""
    key = "sk-abcdefghijklmnopqrstuvwxyz"
    for fault in (faults.unauthorised(key), faults.json_value({"error": {"message": f"no such key: {key}"}})):
        outcome, _ = await ask_chat([fault])
        assert "[redacted]" in outcome.error
        assert key not in repr(outcome)


async def test_a_key_that_cannot_be_sent_is_not_shown(ask_chat):
    """A key with a line break gives an error that names the variable to check and shows no part of the key."""
    outcome, _ = await ask_chat([], key="sk-my\nsecret-key")
    assert outcome.error == "the request cannot be sent; check OPENAI_API_KEY for invalid characters"
    assert "secret" not in repr(outcome)


async def test_an_unreachable_address_is_named():
    """The error names the unreachable address and the variable that set it."""
    async with make_client(base_url="http://127.0.0.1:9/v1", api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)))
    assert outcome.error.startswith("cannot reach http://127.0.0.1:9/v1")
    assert "OPENAI_BASE_URL" in outcome.error


async def test_content_types_are_compared_without_regard_to_case(chat_api):
    """The content type `Application/JSON` is read as JSON."""
    api = chat_api([faults.MislabelledReply(GOOD, kind="Application/JSON; charset=utf-8")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)))
    assert outcome.answer.startswith("The first half")


async def test_non_ascii_text_survives_the_round_trip(ask_chat):
    """Non-ASCII text survives the round trip, and a lone surrogate, which JSON may not hold, does no harm."""
    outcome, api = await ask_chat([calls("look", {"query": "Größe \ud83d 梟"}), says("Größe 梟 \u2028")])
    assert outcome.answer == "Größe 梟"
    assert "Größe" in json.dumps(api.requests[1].messages, ensure_ascii=False)


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_no_redirect_passes_a_chat_on_to_another_server(ask_chat, chat_api, status):
    """A redirect to another port ends the run with one line; the other server gets neither the prompt nor the key."""
    other = chat_api([])
    away = faults.Raw(status, b"{}", headers={"location": f"{other.base_url}/chat/completions"})
    outcome, api = await ask_chat([away], retries=2)
    assert (outcome.status, outcome.exit_code, len(api.requests)) == ("failed", Exit.PROVIDER, 1)
    assert f"redirects to {other.base_url.removesuffix('/v1')} (HTTP {status})" in outcome.error
    assert not other.requests
