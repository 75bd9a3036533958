"""`error_kind` and `retry_after` of an outcome, on both APIs with the real SDKs, whole replies and streamed ones."""

import asyncio
import json
import socket
from dataclasses import replace

import pytest

from run_specialist.providers import anthropic, openai_chat
from run_specialist.record.outcome import Exit
from tests.loop_jobs import job, outcome_of
from tests.wire.chat import faults as chat_faults
from tests.wire.chat import replies as chat_replies
from tests.wire.simulator import faults, replies

OUT_OF_CREDIT = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
SPENT = "You have reached your API usage limits: your organization has crossed its monthly API usage threshold."


class EnforcedSpendLimit(faults.Raw):
    """The 429 of a spend limit, which only its details distinguish from a rate limit."""

    def __init__(self):
        error = {
            "type": "rate_limit_error",
            "message": SPENT,
            "details": {"error_code": "enforced_spend_limit_reached"},
        }
        super().__init__(429, json.dumps({"type": "error", "error": error}).encode())


@pytest.fixture(params=["whole", "streamed"])
def watch(request):
    """Run once with whole replies and once with streamed ones."""
    return None if request.param == "whole" else lambda delta: None


async def of_messages(url, watch=None, **settings):
    """Run a job against a Messages API."""
    retries = settings.pop("retries", 2)
    async with anthropic.make_client(base_url=url, api_key="test", max_retries=retries) as client:
        return await outcome_of(job(anthropic.AnthropicProvider("haiku", client), **settings), watch=watch)


async def of_chat(url, watch=None, **settings):
    """Run a job against a chat completions API."""
    retries = settings.pop("retries", 2)
    async with openai_chat.make_client(base_url=url, api_key="test", max_retries=retries) as client:
        return await outcome_of(job(openai_chat.ChatProvider("some-model", client), **settings), watch=watch)


MESSAGES = {
    "400": (faults.invalid("max_tokens: too large"), "invalid_request"),
    "400 of credit": (faults.invalid(OUT_OF_CREDIT), "quota"),
    "401": (faults.unauthorised(), "credentials"),
    "402": (faults.ApiError(402, "billing_error", "Check your payment details."), "quota"),
    "403": (faults.ApiError(403, "permission_error", "Your API key may not use this resource."), "credentials"),
    "404": (faults.not_found(), "model_missing"),
    "429": (faults.rate_limited(), "rate_limited"),
    "429 of a spend limit": (EnforcedSpendLimit(), "quota"),
    "500": (faults.server_error(), "server_error"),
    "503": (faults.html(503), "overloaded"),
    "529": (faults.overloaded(), "overloaded"),
    "event": (faults.ErrorEvent(replies.says("never")), "overloaded"),
    "reset": (faults.ConnectionReset(), "connection"),
    "broken off": (faults.BrokenOff(replies.says("The first half of it.")), "connection"),
    "no JSON": (faults.html(), "server_error"),
    "an error with status 200": (
        faults.json_value({"type": "error", "error": {"type": "overloaded_error"}}),
        "overloaded",
    ),
}
CHAT = {
    "400": (chat_faults.invalid("max_tokens: too large"), "invalid_request"),
    "401": (chat_faults.unauthorised(), "credentials"),
    "403": (
        chat_faults.error(403, "Country not supported.", code="unsupported_country_region_territory"),
        "credentials",
    ),
    "403 of a key": (chat_faults.error(403, "Key limit exceeded (total limit)."), "quota"),
    "404": (chat_faults.not_found(), "model_missing"),
    "429": (chat_faults.rate_limited(), "rate_limited"),
    "429 of a quota": (chat_faults.error(429, "You exceeded your quota.", code="insufficient_quota"), "quota"),
    "429 of a spend limit": (
        chat_faults.error(429, "No.", type="insufficient_quota", code="project_spend_limit_exceeded"),
        "quota",
    ),
    "500": (chat_faults.error(500, "odd", type="server_error"), "server_error"),
    "503": (chat_faults.error(503, "busy", type="server_error", code="server_is_overloaded"), "overloaded"),
    "reset": (chat_faults.ConnectionReset(), "connection"),
    "broken off": (chat_faults.BrokenOff(chat_replies.says("The first half of it.")), "connection"),
    "no JSON": (chat_faults.html(), "server_error"),
}


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(("fault", "kind"), MESSAGES.values(), ids=MESSAGES)
async def test_the_kind_of_each_failure_of_the_messages_api(messages_api, watch, fault, kind):
    """Each failure has its kind, and no wait, because the server requests none; a quota is not tried twice."""
    api = messages_api([fault])
    outcome = await of_messages(api.base_url, watch, retries=0)
    assert (outcome.error_kind, outcome.retry_after, outcome.exit_code) == (kind, None, Exit.PROVIDER)
    assert json.loads(json.dumps(outcome.as_json()))["error_kind"] == kind


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(("fault", "kind"), CHAT.values(), ids=CHAT)
async def test_the_kind_of_each_failure_of_chat_completions(chat_api, watch, fault, kind):
    """Each failure has its kind, and no wait, because the server requests none."""
    outcome = await of_chat(chat_api([fault]).base_url, watch, retries=0)
    assert (outcome.error_kind, outcome.retry_after, outcome.exit_code) == (kind, None, Exit.PROVIDER)


@pytest.mark.parametrize("error", [{"type": "insufficient_quota", "message": "x"}, {"code": 503, "message": "x"}])
async def test_an_error_in_a_stream_has_the_kind_that_it_names(chat_api, error):
    """An error in the middle of a stream has no status: its type and code tell the kind."""
    api = chat_api([chat_faults.Stream(({"error": error},))])
    outcome = await of_chat(api.base_url, lambda delta: None, retries=0)
    assert outcome.error_kind == ("overloaded" if "code" in error else "quota")


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (faults.invalid(OUT_OF_CREDIT), "check the account's billing"),
        (EnforcedSpendLimit(), "check the account's billing"),
    ],
    ids=["400", "429"],
)
async def test_an_exhausted_quota_of_the_messages_api_is_not_waited_for(messages_api, fault, advice):
    """Only a payment or another limit ends it, so the request is sent once, and the error says what helps."""
    api = messages_api([fault])
    outcome = await of_messages(api.base_url)
    assert len(api.requests) == 1
    assert outcome.error.endswith(advice)


async def test_the_requested_wait_is_in_the_outcome(messages_api, chat_api):
    """A wait that is longer than the patience, or of a failure that is not retried, is in the outcome as a number."""
    for fault, settings in (
        (faults.rate_limited(3600), {}),
        (faults.rate_limited(3600), {"retries": 0}),
        (faults.rate_limited(3600), {"patience": 0}),
    ):
        outcome = await of_messages(messages_api([fault]).base_url, **settings)
        assert (outcome.error_kind, outcome.retry_after) == ("rate_limited", 3600)
    outcome = await of_chat(chat_api([chat_faults.rate_limited(0.25)]).base_url, patience=0)
    assert (outcome.error_kind, outcome.retry_after) == ("rate_limited", 0.25)


async def test_the_last_requested_wait_counts_when_the_retries_are_given_up(messages_api):
    """After retries the outcome has kind and wait of the last failure, not of the first."""
    api = messages_api([faults.rate_limited(1), replace(faults.overloaded(9))])
    outcome = await of_messages(api.base_url, patience=5)
    assert (outcome.error_kind, outcome.retry_after) == ("overloaded", 9)
    api = messages_api([faults.rate_limited(1), *[faults.overloaded()] * 9], all_used=False)
    outcome = await of_messages(api.base_url, patience=5)
    assert "retried" in outcome.error
    assert (outcome.error_kind, outcome.retry_after) == ("overloaded", None)


@pytest.mark.parametrize("ask", [of_messages, of_chat])
async def test_a_host_that_cannot_be_reached_is_a_connection_failure(monkeypatch, ask):
    """A closed port and an unknown name are failures of the connection."""
    assert (await ask("http://127.0.0.1:9/v1", retries=0)).error_kind == "connection"

    def fail(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert (await ask("http://owl.test/v1", retries=0)).error_kind == "connection"


async def test_a_full_context_is_no_failure_of_the_server(messages_api, chat_api):
    """A transcript that is too long, and a reply for which there was no room, are failures of the context."""
    full = faults.invalid("prompt is too long: 1000001 tokens > 1000000 maximum")
    outcome = await of_messages(messages_api([full]).base_url)
    assert (outcome.status, outcome.error_kind) == ("failed", "context_exceeded")
    short = replies.says("full", stop_reason="model_context_window_exceeded")
    outcome = await of_messages(messages_api([short]).base_url)
    assert (outcome.status, outcome.error_kind) == ("partial", "context_exceeded")
    too_long = chat_faults.invalid("maximum context length is 8", code="context_length_exceeded")
    assert (await of_chat(chat_api([too_long]).base_url)).error_kind == "context_exceeded"


async def test_no_kind_without_a_failure(messages_api, chat_api):
    """An answer, a landing, a refusal and a cut answer have no kind of failure."""
    look, answer = replies.calls("look", {"query": "a"}), replies.answers("mice")
    for script in ([answer], [replies.refuses("bio")], [faults.rate_limited(0.01), look, answer]):
        outcome = await of_messages(messages_api(script).base_url)
        assert (outcome.error_kind, outcome.retry_after) == (None, None)
    outcome = await of_chat(chat_api([chat_replies.answers("mice")]).base_url)
    assert (outcome.status, outcome.error_kind, outcome.retry_after) == ("answered", None, None)
    assert asyncio.current_task().cancelling() == 0
