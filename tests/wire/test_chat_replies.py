"""Replies of chat completions servers: finish reasons, arguments, usage, refusals, faults."""

import json

import pytest

from run_specialist.providers.openai_messages import read_reply
from run_specialist.record.messages import Stop, Usage
from run_specialist.record.outcome import Exit
from tests.loop_jobs import job, outcome_of
from tests.wire.chat import faults
from tests.wire.chat.replies import answers, calls, says
from tests.wire.chat_messages import CALL, FORCED
from tests.wire.connected import asked, connected

LOOK = calls("look", {"query": "a"})


def read(message, finish_reason="stop", taken=(), **completion):
    """Return the parsed reply of a completion with one message."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish_reason}
    return read_reply({"choices": [choice], **completion}, taken)


@pytest.mark.parametrize(
    ("reason", "message", "stop", "odd"),
    [
        ("stop", {"content": "a"}, Stop.ANSWERED, False),
        ("stop", {"content": "a", "tool_calls": [CALL]}, Stop.WANTS_TOOLS, False),
        ("tool_calls", {"tool_calls": [CALL]}, Stop.WANTS_TOOLS, False),
        ("tool_calls", {"content": "a"}, Stop.ANSWERED, False),
        ("function_call", {"function_call": {"name": "look", "arguments": "{}"}}, Stop.WANTS_TOOLS, False),
        ("length", {"content": "a"}, Stop.TRUNCATED, False),
        ("content_filter", {"content": "a"}, Stop.REFUSED, False),
        ("stop", {"refusal": "I cannot help with that."}, Stop.REFUSED, False),
        ("model_length", {"content": "a"}, Stop.TRUNCATED, False),
        (None, {"content": "a"}, Stop.ANSWERED, True),
        ("brand_new", {"content": "a"}, Stop.ANSWERED, True),
        ("brand_new", {"tool_calls": [CALL]}, Stop.ANSWERED, True),
    ],
)
def test_each_finish_reason_has_one_meaning(reason, message, stop, odd):
    """Each finish reason has one meaning; the reply's content takes precedence, and an odd reason is reported."""
    reply = read(message, reason)
    assert (reply.stop, bool(reply.detail)) == (stop, odd)
    assert not odd or (reason or "none given") in reply.detail


@pytest.mark.parametrize(
    ("arguments", "read_as"),
    [
        ('{"query": "a"}', {"query": "a"}),
        ({"query": "a"}, {"query": "a"}),
        ("", {}),
        (None, {}),
        ("[1]", None),
        ('{"query": "a', None),
        ("[" * 100_000, None),
        (7, None),
    ],
)
def test_arguments_that_are_no_json_object_are_none(arguments, read_as):
    """Arguments that are no JSON object are None and are sent back as `{}`; absent or blank arguments are `{}`."""
    reply = read({"tool_calls": [{"id": "1", "function": {"name": "look", "arguments": arguments}}]})
    assert reply.calls[0].arguments == read_as
    sent_back = reply.content[0]["chat"]["function"]["arguments"]
    assert sent_back == (arguments if isinstance(arguments, str) and read_as else sent_back)
    assert sent_back.startswith("{")
    assert sent_back.endswith("}")


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("a", ["a"]),
        ("", []),
        (None, []),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["a", "b"]),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}], ["a"]),
    ],
)
def test_s1_6_text_is_found_in_any_form_of_content(content, texts):
    """Content may be a string, null, or parts; thinking parts are not text."""
    reply = read({"content": content})
    assert reply.text == "\n".join(texts)
    assert {block["type"] for block in reply.content} <= {"text", "chat_part"}
    assert [part for part in reply.content if part["type"] == "chat_part"] == [
        {"type": "chat_part", "chat": part}
        for part in (content if isinstance(content, list) else [])
        if isinstance(part, dict) and part["type"] != "text"
    ]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(6, 4, 0, 5),
        ),
        ({"prompt_tokens": 10, "completion_tokens": None, "prompt_tokens_details": None}, Usage(10, 0, 0, 0)),
        ({"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(0, 4, 0, 0)),
        ({"prompt_tokens": "10", "completion_tokens": -1}, Usage()),
        (None, Usage()),
    ],
)
def test_cached_input_is_not_counted_as_plain_input(usage, counted):
    """Cached input tokens are not counted as plain input; absent figures are 0."""
    assert read({"content": "a"}, usage=usage).usage == counted


def test_a_call_without_a_unique_id_gets_a_new_one():
    """A call whose id is None, empty or already used, in this turn or before, gets an id unique in the transcript."""
    wanted = [{**CALL, "id": call_id} for call_id in (None, "", "old", "new", "new", 7)]
    ids = [call.id for call in read({"tool_calls": wanted}, taken={"old", "call_3"}).calls]
    assert ids[3] == "new"
    assert len({*ids, "old", "call_3"}) == len(ids) + 2
    assert [block["chat"]["id"] for block in read({"tool_calls": wanted}, taken={"old", "call_3"}).content] == ids


def test_a_full_context_is_not_helped_by_more_output_tokens():
    """A cut reply reports when more output tokens would not help, because the context is full."""
    assert read({"content": "a"}, "length").more_room_helps
    assert not read({"content": "a"}, "model_length").more_room_helps


@pytest.mark.parametrize(
    "refusal",
    [
        faults.invalid("some-model does not support this tool_choice"),
        faults.error(404, "No endpoints found that support the provided 'tool_choice' value."),
        faults.error(422, 'named tool choice requires "required"'),
    ],
    ids=["400", "404", "422"],
)
async def test_s0_10_a_refused_tool_choice_is_remembered(chat_api, refusal):
    """A refused `tool_choice` is replaced by the instruction and never sent again; it counts as no landing request."""
    api = chat_api([LOOK, refusal, answers("yes"), LOOK, answers("again")])
    async with connected(api) as provider:
        first, second = [await outcome_of(job(provider, 1, landing=style)) for style in ("force", "auto")]
    assert (first.answer, first.landing.how, first.landing.requests) == ("yes", "order", 1)
    assert (second.answer, second.landing.how, second.landing.requests) == ("again", "schema", 1)
    assert [sent.tool_choice for sent in api.requests] == ["auto", FORCED, "auto", "auto", None]
    assert not provider.capabilities.forced_choice


async def test_a_refusal_of_the_choice_without_forcing_is_an_error(chat_api):
    """A server that has tools disabled: its message is reported, and the provider learns nothing from it."""
    api = chat_api([faults.invalid('"auto" tool choice requires --enable-auto-tool-choice to be set')])
    async with connected(api) as provider:
        outcome = await outcome_of(job(provider))
    assert (outcome.exit_code, provider.capabilities.forced_choice) == (3, True)
    assert "--enable-auto-tool-choice" in outcome.error


async def test_the_maximum_output_is_learned_from_a_refusal(chat_api):
    """A model that gives 4,096 tokens at most refuses one request; all others ask for 4,096, in later runs too."""
    api = chat_api([LOOK, answers("yes"), answers("again")], most_room=4096)
    async with connected(api) as provider:
        outcomes = [await outcome_of(job(provider)) for _ in range(2)]
    assert [outcome.answer for outcome in outcomes] == ["yes", "again"]
    assert [sent.body["max_completion_tokens"] for sent in api.requests] == [16_000, 4096, 4096, 4096]
    assert api.requests[0].messages == api.requests[1].messages
    assert provider.capabilities.max_output_tokens == 4096


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("words", "room"),
    [
        ("max_tokens is too large: 16000. This model supports at most 8192 completion tokens", 8192),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("This model's maximum context length is 8192 tokens and your request has 568 input tokens (16000 > ", 7624),
    ],
)
async def test_a_request_for_too_many_output_tokens_is_repeated_with_fewer(ask_chat, words, room):
    """A refusal for too many output tokens, in any wording, is not a full context: the allowed number is requested."""
    outcome, api = await ask_chat([faults.invalid(words), answers("yes")])
    assert outcome.answer == "yes"
    assert [sent.body["max_completion_tokens"] for sent in api.requests] == [16_000, room]


async def test_a_refused_request_is_repeated_only_once(ask_chat):
    """A second refusal is an ordinary error."""
    refusal = faults.invalid("This model supports at most 4096 completion tokens")
    again = faults.invalid("This model supports at most 2048 completion tokens")
    outcome, api = await ask_chat([refusal, again])
    assert (outcome.exit_code, len(api.requests)) == (3, 2)
    assert "at most 2048" in outcome.error


@pytest.mark.parametrize("words", ["This model supports at most 99999 completion tokens", "max_completion_tokens: no"])
async def test_a_refusal_without_a_usable_limit_is_not_repeated(ask_chat, words):
    """A refusal that names no limit, or one above the requested number, is not repeated: the cause is another."""
    outcome, api = await ask_chat([faults.invalid(words)])
    assert (outcome.exit_code, len(api.requests)) == (3, 1)


async def test_refused_stream_options_are_omitted_from_later_requests(chat_api):
    """If a server refuses `stream_options`, later requests omit it; the usage stays unknown, but the run answers."""
    refusal = faults.error(422, "max_completion_tokens, stream_options: extra fields not permitted")
    api = chat_api([refusal, calls("look", {"query": "a"}), answers("yes")])
    outcome = await asked(api, watch=lambda delta: None)
    assert outcome.answer == "yes"
    keys = [{"stream_options", "max_completion_tokens", "max_tokens"} & set(sent.body) for sent in api.requests]
    assert keys == [{"stream_options", "max_completion_tokens"}, {"max_tokens"}, {"max_tokens"}]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    "fault",
    [
        faults.invalid("Your input exceeds the limit.", code="context_length_exceeded"),
        faults.invalid(
            "This model's maximum context length is 1536 tokens. However, your request has 4176 input tokens."
        ),
        faults.invalid(
            "This model's maximum context length is 8192 tokens. However, you requested 24000 tokens "
            "(8000 in the messages, 16000 in the completion)."
        ),
    ],
    ids=["code", "prompt alone", "no room left"],
)
async def test_x_8_a_full_context_gives_a_partial_outcome(ask_chat, fault):
    """A full context makes the run partial, with exit code 0 and its own kind; the answer holds the salvage."""
    outcome, api = await ask_chat([LOOK, fault])
    assert outcome.error_kind == "context_exceeded"
    assert (outcome.status, outcome.exit_code, len(api.requests)) == ("partial", 0, 2)
    assert "note on 'a'" in outcome.answer


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


async def test_content_types_are_compared_without_regard_to_case(chat_api):
    """The content type `Application/JSON` is read as JSON."""
    api = chat_api([faults.MislabelledReply(says("The first half"), kind="Application/JSON; charset=utf-8")])
    outcome = await asked(api)
    assert outcome.answer.startswith("The first half")


async def test_non_ascii_text_survives_the_round_trip(ask_chat):
    """Non-ASCII text survives the round trip, and a lone surrogate, which JSON may not hold, does no harm."""
    outcome, api = await ask_chat([calls("look", {"query": "Größe \ud83d 梟"}), says("Größe 梟 \u2028")])
    assert outcome.answer == "Größe 梟"
    assert "Größe" in json.dumps(api.requests[1].messages, ensure_ascii=False)


@pytest.mark.parametrize("status", [302, 307])
async def test_no_redirect_passes_a_chat_on_to_another_server(ask_chat, chat_api, status):
    """A redirect to another port ends the run with one line; the other server gets neither the prompt nor the key."""
    other = chat_api([])
    away = faults.Raw(status, b"{}", headers={"location": f"{other.base_url}/chat/completions"})
    outcome, api = await ask_chat([away], retries=2)
    assert (outcome.status, outcome.exit_code, len(api.requests)) == ("failed", Exit.PROVIDER, 1)
    assert f"redirects to {other.base_url.removesuffix('/v1')} (HTTP {status})" in outcome.error
    assert not other.requests
