"""Failures of both APIs: one line, `error_kind` and `retry_after`, with whole replies and streamed ones."""

import asyncio
import json
import socket

import pytest

from run_specialist.record.outcome import Exit
from tests.wire.chat import faults as chat_faults
from tests.wire.chat import replies as chat_replies
from tests.wire.connected import asked
from tests.wire.simulator import faults, replies

OUT_OF_CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
DETAILS = {"type": "rate_limit_error", "message": "No.", "details": {"error_code": "enforced_spend_limit_reached"}}
ENFORCED_SPEND_LIMIT = faults.json_value({"type": "error", "error": DETAILS}, 429)
"""The 429 of a spend limit, which only its details distinguish from a rate limit."""


@pytest.fixture(params=["whole", "streamed"])
def watch(request):
    """Run once with whole replies and once with streamed ones."""
    return None if request.param == "whole" else lambda delta: None


LONG = "The first half of a long answer that never came to its end."
CUT, LOOK = replies.says(LONG), replies.calls("look", {"query": "a"})
MESSAGES = [
    (faults.invalid("max_tokens: too large"), "invalid_request", "the API answered 400: max_tokens: too large"),
    (faults.invalid(OUT_OF_CREDIT), "quota", "check the account's billing"),
    (faults.unauthorised(), "credentials", "the API answered 401"),
    (faults.ApiError(402, "billing_error", "Check your payment details."), "quota", "402"),
    (faults.ApiError(403, "permission_error", "Your API key may not use this resource."), "credentials", "403"),
    (faults.not_found(), "model_missing", "404: model: claude-none; check `model` and ANTHROPIC_BASE_URL"),
    (faults.rate_limited(), "rate_limited", "429"),
    (ENFORCED_SPEND_LIMIT, "quota", "check the account's billing"),
    (faults.server_error(), "server_error", "500"),
    (faults.html(503), "overloaded", "503"),
    (faults.overloaded(), "overloaded", "529"),
    (faults.ErrorEvent(CUT), "overloaded", ""),
    (faults.ConnectionReset(), "connection", "cannot reach http://127.0.0.1"),
    (faults.BrokenOff(CUT), "connection", ""),
    (faults.Truncated(CUT), "server_error", ""),
    (faults.not_events(), "server_error", ""),
    (faults.html(), "server_error", "answered with text/html, not JSON; does ANTHROPIC_BASE_URL point to a Messages"),
    (faults.MislabelledReply(CUT), "server_error", "answered with text/plain, not JSON"),
    (faults.json_value({}), "server_error", "no content blocks; does ANTHROPIC_BASE_URL"),
    (faults.json_value([1]), "server_error", "JSON that is not an object"),
    (faults.json_value({"content": [{"type": "tool_use", "id": "a", "input": {}}]}), "server_error", "no content"),
    (faults.json_value({"type": "error", "error": {"type": "overloaded_error"}}), "overloaded", ""),
]
CHAT_CUT, CHAT_LOOK = chat_replies.says(LONG), chat_replies.calls("look", {"query": "a"})
ADVICE = "; does OPENAI_BASE_URL point to a chat completions server?"
NO_COUNTRY = chat_faults.error(403, "Country not supported.", code="unsupported_country_region_territory")
NO_QUOTA = chat_faults.error(429, "You exceeded your quota.", code="insufficient_quota")
SPENT_LIMIT = chat_faults.error(429, "No.", type="insufficient_quota", code="project_spend_limit_exceeded")
BUSY = chat_faults.error(503, "busy", type="server_error", code="server_is_overloaded")
BAD_INDEX = {"tool_calls": [{"index": [], "function": {"name": "a"}}]}
CHAT = [
    (chat_faults.invalid("max_tokens: too\nlarge"), "invalid_request", "the API answered 400: max_tokens: too large"),
    (chat_faults.no_json(), "invalid_request", "the API answered 400: upstream connect error or disconnect"),
    (chat_faults.json_value({"error": "no such model"}, 400), "invalid_request", "400: no such model"),
    (chat_faults.unauthorised(), "credentials", "401: Incorrect API key provided: sk-test.; check OPENAI_API_KEY"),
    (NO_COUNTRY, "credentials", "Country not supported."),
    (chat_faults.error(403, "Key limit exceeded (total limit)."), "quota", "403"),
    (chat_faults.not_found(), "model_missing", "404"),
    (chat_faults.rate_limited(), "rate_limited", "429"),
    (NO_QUOTA, "quota", "You exceeded your quota."),
    (SPENT_LIMIT, "quota", "429"),
    (chat_faults.error(500, "odd", type="server_error"), "server_error", "500"),
    (BUSY, "overloaded", "503"),
    (chat_faults.ConnectionReset(), "connection", "cannot reach http://127.0.0.1"),
    (chat_faults.BrokenOff(CHAT_CUT), "connection", ""),
    (chat_faults.BrokenOff(CHAT_CUT, after_chunks=4, silent=True), "connection", ""),
    (chat_faults.BrokenOff(CHAT_LOOK, after_chunks=3, silent=True), "connection", ""),
    (chat_faults.Truncated(CHAT_CUT), "server_error", ""),
    (chat_faults.html(), "server_error", f"answered with text/html, not JSON{ADVICE}"),
    (chat_faults.json_value({}), "server_error", f"contains no choice with a message{ADVICE}"),
    (chat_faults.json_value({"choices": [{"text": "old"}]}), "server_error", f"no choice with a message{ADVICE}"),
    (chat_faults.json_value([1]), "server_error", f"JSON that is not an object{ADVICE}"),
    (chat_faults.json_value({"error": "Over\nloaded"}), "server_error", "answered with an error: Over loaded"),
    (chat_faults.Stream(("this is not JSON", "{")), "server_error", ""),
    (chat_faults.Stream(({"choices": [{"delta": BAD_INDEX}]},)), "server_error", ""),
]


async def fails(api, watch, kind, said):
    """Check that the second request fails a run."""
    outcome = await asked(api, watch=watch)
    assert (outcome.status, outcome.exit_code, outcome.tool_calls.used) == ("failed", Exit.PROVIDER, 1)
    assert said in outcome.error
    assert len(outcome.error.splitlines()) == 1
    assert "note on 'a'" in outcome.answer
    assert (outcome.error_kind, outcome.retry_after) == (kind, None)
    assert json.loads(json.dumps(outcome.as_json()))["error_kind"] == kind


@pytest.mark.exhaustive(one_in=11)
@pytest.mark.parametrize(("fault", "kind", "said"), MESSAGES)
async def test_x_12_each_failure_of_the_messages_api_is_one_line_with_its_kind(messages_api, watch, fault, kind, said):
    """Each failure has one line and its kind, and no wait; the answer holds the results gathered before."""
    await fails(messages_api([LOOK, fault]), watch, kind, said)


@pytest.mark.exhaustive(one_in=11)
@pytest.mark.parametrize(("fault", "kind", "said"), CHAT)
async def test_x_12_each_failure_of_chat_completions_is_one_line_with_its_kind(chat_api, watch, fault, kind, said):
    """The same on chat completions: none of the calls of a reply that breaks off is run."""
    await fails(chat_api([CHAT_LOOK, fault]), watch, kind, said)


@pytest.mark.parametrize(
    ("chunks", "kind"),
    [
        ([{"error": {"type": "insufficient_quota", "message": "x"}}], "quota"),
        ([{"error": {"code": 503, "message": "x"}}], "overloaded"),
        ([{"choices": [{"delta": {"content": "half"}}]}, "[DONE]"], "connection"),
    ],
)
async def test_an_error_in_a_stream_has_the_kind_that_it_names(chat_api, chunks, kind):
    """An error in the middle of a stream has no status: its type and code tell the kind; an early end has its own."""
    await fails(chat_api([CHAT_LOOK, chat_faults.Stream(tuple(chunks))]), lambda delta: None, kind, "")


@pytest.mark.parametrize("fault", [faults.invalid(OUT_OF_CREDIT), ENFORCED_SPEND_LIMIT], ids=["400", "429"])
async def test_an_exhausted_quota_of_the_messages_api_is_not_waited_for(messages_api, fault):
    """Only a payment or another limit ends it, so the request is sent once, and the error says what helps."""
    api = messages_api([fault])
    outcome = await asked(api, retries=2)
    assert len(api.requests) == 1
    assert outcome.error.endswith("check the account's billing")


async def test_the_requested_wait_is_in_the_outcome(messages_api, chat_api):
    """A wait that is longer than the patience, or of a failure that is not retried, is in the outcome as a number."""
    for settings in ({}, {"retries": 0}, {"patience": 0}):
        outcome = await asked(messages_api([faults.rate_limited(3600)]), **{"retries": 2, **settings})
        assert (outcome.error_kind, outcome.retry_after) == ("rate_limited", 3600)
    outcome = await asked(chat_api([chat_faults.rate_limited(0.25)]), retries=2, patience=0)
    assert (outcome.error_kind, outcome.retry_after) == ("rate_limited", 0.25)


async def test_the_last_requested_wait_counts_when_the_retries_are_given_up(messages_api):
    """After retries the outcome has kind and wait of the last failure, not of the first."""
    api = messages_api([faults.rate_limited(1), faults.overloaded(9)])
    outcome = await asked(api, retries=2, patience=5)
    assert (outcome.error_kind, outcome.retry_after) == ("overloaded", 9)
    api = messages_api([faults.rate_limited(1), *[faults.overloaded()] * 9], all_used=False)
    outcome = await asked(api, retries=2, patience=5)
    assert "retried" in outcome.error
    assert (outcome.error_kind, outcome.retry_after) == ("overloaded", None)


@pytest.mark.parametrize("path", ["", "/v1"], ids=["messages", "chat"])
async def test_a_host_that_cannot_be_reached_is_a_connection_failure(monkeypatch, path):
    """A closed port and an unknown name are failures of the connection."""
    assert (await asked(f"http://127.0.0.1:9{path}")).error_kind == "connection"

    def fail(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert (await asked(f"http://owl.test{path}")).error_kind == "connection"


async def test_no_kind_without_a_failure(messages_api, chat_api):
    """An answer, a landing, a refusal and a cut answer have no kind of failure."""
    look, answer = replies.calls("look", {"query": "a"}), replies.answers("mice")
    for script in ([answer], [replies.refuses("bio")], [faults.rate_limited(0.01), look, answer]):
        outcome = await asked(messages_api(script), retries=2)
        assert (outcome.error_kind, outcome.retry_after) == (None, None)
    outcome = await asked(chat_api([chat_replies.answers("mice")]), retries=2)
    assert (outcome.status, outcome.error_kind, outcome.retry_after) == ("answered", None, None)
    assert asyncio.current_task().cancelling() == 0
