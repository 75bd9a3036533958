"""When a chat completions server refuses a request, the provider adapts and remembers."""

import pytest

from run_specialist.providers.openai_chat import ChatProvider, make_client
from tests.loop_jobs import job, outcome_of
from tests.wire.chat import faults, policies
from tests.wire.chat.replies import answers, calls
from tests.wire.chat_messages import FORCED

pytestmark = pytest.mark.anyio


async def test_s0_10_a_server_that_ignores_every_choice_ends_in_a_salvage(ask_chat):
    """A server that ignores schema, force and none: the run ends with an outcome after three landing requests."""
    outcome, api = await ask_chat(policies.always_tool("look", obeys=False), 2)
    assert [sent.tool_choice for sent in api.requests[2:]] == [None, FORCED, "none"]
    assert [sent.schema is None for sent in api.requests[2:]] == [False, True, True]
    assert (outcome.status, outcome.tool_calls.used, outcome.landing.requests) == ("partial", 2, 3)
    assert "note on 'question 1'" in outcome.answer


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
    look = calls("look", {"query": "a"})
    api = chat_api([look, refusal, answers("yes"), look, answers("again")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        first, second = [await outcome_of(job(provider, 1, landing=style)) for style in ("force", "auto")]
    assert (first.answer, first.landing.how, first.landing.requests) == ("yes", "order", 1)
    assert (second.answer, second.landing.how, second.landing.requests) == ("again", "schema", 1)
    assert [sent.tool_choice for sent in api.requests] == ["auto", FORCED, "auto", "auto", None]
    assert not provider.capabilities.forced_choice


async def test_a_refusal_of_the_choice_without_forcing_is_an_error(chat_api):
    """A server that has tools disabled: its message is reported, and the provider learns nothing from it."""
    api = chat_api([faults.invalid('"auto" tool choice requires --enable-auto-tool-choice to be set')])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        outcome = await outcome_of(job(provider))
    assert (outcome.exit_code, provider.capabilities.forced_choice) == (3, True)
    assert "--enable-auto-tool-choice" in outcome.error


async def test_the_maximum_output_is_learned_from_a_refusal(chat_api):
    """A model that gives 4,096 tokens at most refuses one request; all others ask for 4,096, in later runs too."""
    look = calls("look", {"query": "a"})
    api = chat_api([look, answers("yes"), answers("again")], most_room=4096)
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
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
        ("`max_completion_tokens` must be less than or equal to `8000`, the maximum value", 8000),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        (
            "maximum context length is 8192 tokens. However, you requested 16568 tokens (500 in the messages, 68 in ",
            7624,
        ),
        (
            "This model's maximum context length is 8192 tokens and your request has 568 input tokens (16000 > ",
            7624,
        ),
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


async def test_a_key_is_omitted_only_once(chat_api):
    """If the server still refuses a key after it was omitted, the request is not repeated again."""
    api = chat_api([faults.invalid("unknown key: max_completion_tokens")] * 3)
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        outcomes = [await outcome_of(job(provider)) for _ in range(2)]
    assert [outcome.exit_code for outcome in outcomes] == [3, 3]
    assert len(api.requests) == 3


async def test_refused_stream_options_are_omitted_from_later_requests(chat_api):
    """If a server refuses `stream_options`, later requests omit it; the usage stays unknown, but the run answers."""
    refusal = faults.error(422, "max_completion_tokens, stream_options: extra fields not permitted")
    api = chat_api([refusal, calls("look", {"query": "a"}), answers("yes")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)), watch=lambda delta: None)
    assert outcome.answer == "yes"
    keys = [{"stream_options", "max_completion_tokens", "max_tokens"} & set(sent.body) for sent in api.requests]
    assert keys == [{"stream_options", "max_completion_tokens"}, {"max_tokens"}, {"max_tokens"}]


async def test_max_tokens_replaces_a_refused_max_completion_tokens(chat_api):
    """After a refusal, `max_tokens` replaces `max_completion_tokens` in all later requests."""
    refusal = faults.error(422, "Extra inputs are not permitted: max_completion_tokens")
    api = chat_api([refusal, calls("look", {"query": "a"}), answers("yes")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)))
    assert outcome.answer == "yes"
    assert [sent.body.get("max_tokens") for sent in api.requests] == [None, 16_000, 16_000]
    assert [sent.body.get("max_completion_tokens") for sent in api.requests] == [16_000, None, None]


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
        faults.error(400, "Maximum Context Length exceeded"),
        faults.error(400, "request (1407 tokens) exceeds the available context size (256 tokens), try increasing it"),
    ],
    ids=["code", "prompt alone", "no room left", "capitals", "size"],
)
async def test_x_8_a_full_context_gives_a_partial_outcome(ask_chat, fault):
    """A full context makes the run partial, with exit code 0; the answer holds the salvage."""
    outcome, api = await ask_chat([calls("look", {"query": "a"}), fault])
    assert (outcome.status, outcome.exit_code, len(api.requests)) == ("partial", 0, 2)
    assert "note on 'a'" in outcome.answer
