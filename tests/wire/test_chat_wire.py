"""Runs on chat completions: what goes out, byte by byte, through the real SDK against a strict server."""

import json
from itertools import pairwise

import pytest

from run_specialist.providers import openai_chat
from run_specialist.providers.base import Choice, Opening
from run_specialist.providers.openai_chat import ChatProvider, make_client
from run_specialist.providers.openai_messages import encoded
from run_specialist.record.messages import Message, ToolResult
from run_specialist.tools.base import Toolset
from tests.loop_jobs import LOOK, job, outcome_of
from tests.wire.chat import faults, policies
from tests.wire.chat.replies import answers, calls, says, tool_call

pytestmark = pytest.mark.anyio
FORCED = {"type": "function", "function": {"name": "respond"}}


def roles(sent):
    """Return the roles of a request's messages."""
    return [message["role"] for message in sent.messages]


async def test_s0_1_s0_3_s0_4_a_run_is_silent_counts_down_and_is_forced(ask_chat):
    """Thirty calls, a countdown in the second half, and `respond` by name at the limit; none before."""
    outcome, api = await ask_chat(policies.always_tool("look"), 30)
    assert (outcome.status, outcome.answer, outcome.landing.how) == ("landed", "what was found", "force")
    assert (outcome.tool_calls.used, outcome.model) == (30, "openai:some-model")
    assert [sent.tool_choice for sent in api.requests] == ["auto"] * 30 + [FORCED]
    told = api.requests[-1].results
    raw = [f"note on 'question {call}', part 0" for call in range(30)]
    assert told[:14] == raw[:14]
    assert told[14] == f"{raw[14]}\n15 tool calls remaining"
    assert told[28:] == [f"{raw[28]}\n1 tool call remaining", f"{raw[29]}\n0 tool calls remaining"]


async def test_s0_5_what_was_said_is_sent_again_byte_for_byte(ask_chat):
    """Tools and system are the same in every request, and each history begins with the bytes of the one before."""
    _, api = await ask_chat(policies.always_tool("look", calls_per_turn=3), 12)
    fronts = {sent.raw.split(b',"max_completion_tokens"')[0] for sent in api.requests}
    assert len(fronts) == 1
    assert b'"tools":[{"type":"function","function":{"name":"look"' in fronts.pop()
    for before, after in pairwise(api.requests):
        said, more = (sent.raw.split(b'"messages":', 1)[1] for sent in (before, after))
        assert more.startswith(said.removesuffix(b"]}"))
        assert len(more) > len(said)


async def test_the_first_request_holds_what_it_should_and_nothing_else(ask_chat):
    """The id without its prefix, the system message, the question; streaming asks for the usage."""
    _, api = await ask_chat([answers("yes")])
    (sent,) = api.requests
    streamed = {"stream": True, "stream_options": {"include_usage": True}} if sent.stream else {}
    body = {key: value for key, value in sent.body.items() if key not in {"messages", "tools", *streamed}}
    assert body == {"model": "some-model", "max_completion_tokens": 16_000, "tool_choice": "auto"}
    assert {key: sent.body[key] for key in streamed} == streamed
    system, question = sent.messages
    assert system["role"] == "system"
    assert system["content"].startswith("You look things up.")
    assert question == {"role": "user", "content": "What is known?"}
    look = sent.body["tools"][0]["function"]
    assert (look["name"], look["description"]) == ("look", "Look something up.")
    assert set(look["parameters"]["properties"]) == {"query", "part"}


@pytest.mark.parametrize(("effort", "sent"), [("low", "low"), ("xhigh", "xhigh"), ("max", "max"), (None, None)])
async def test_effort_goes_out_under_this_apis_name(chat_api, effort, sent):
    """As `reasoning_effort`, in every request; without one the model decides."""
    api = chat_api([calls("look", {"query": "a"}), answers("yes")])
    async with make_client(base_url=api.base_url, api_key="test") as client:
        conversation = ChatProvider("some-model", client).open(Opening("Be brief.", Toolset([LOOK]), effort))
        said = [Message.user("What?")]
        for _ in range(2):
            await conversation.ask(said, Choice.AUTO, 100)
    assert [request.body.get("reasoning_effort") for request in api.requests] == [sent, sent]


async def test_without_tools_neither_tools_nor_a_choice_go_out(chat_api):
    """As for a summary: the API refuses a choice among nothing."""
    api = chat_api([says("Short."), says("Shorter.")])
    async with make_client(base_url=api.base_url, api_key="test") as client:
        conversation = ChatProvider("some-model", client).open(Opening("Sum up.", Toolset([])))
        for choice in (Choice.AUTO, Choice.NONE):
            await conversation.ask([Message.user("Much.")], choice, 100)
    assert all(not {"tools", "tool_choice"} & set(sent.body) for sent in api.requests)


async def test_s2_2_each_result_is_a_message_of_its_own_in_call_order(ask_chat):
    """Three calls, two allowed: three tool messages right behind the calls, the last one skipped."""
    script = [calls("look", {"query": "a"}, {"query": "b"}, {"query": "c"}), answers("yes")]
    _, api = await ask_chat(script, 2)
    sent = api.requests[1]
    assert roles(sent) == ["system", "user", "assistant", "tool", "tool", "tool"]
    wanted = [call["id"] for call in api.requests[0].message["tool_calls"]]
    assert [message["tool_call_id"] for message in sent.messages[3:]] == wanted
    assert [text.split("\n")[0] for text in sent.results[:2]] == ["note on 'a', part 0", "note on 'b', part 0"]
    assert sent.results[2].startswith("Not run: limit reached")
    assert all(set(message) == {"role", "tool_call_id", "content"} for message in sent.messages[3:])


async def test_s0_10_the_order_is_a_user_message_behind_the_results(ask_chat):
    """Never a system message in mid-conversation; the results end with the countdown, and stay as they are."""
    outcome, api = await ask_chat(policies.always_tool("look"), 2, landing="order")
    sent = api.requests[-1]
    assert (outcome.landing.how, sent.tool_choice) == ("order", "auto")
    assert roles(sent)[-2:] == ["tool", "user"]
    assert sent.results[-1].endswith("\n0 tool calls remaining")
    assert sent.messages[-1]["content"].startswith("0 tool calls remain and")


async def test_x_1_with_no_calls_at_all_the_order_ends_the_question(ask_chat):
    """The words join the text of the user, as its last line."""
    _, api = await ask_chat([answers("yes")], 0, landing="order")
    assert roles(api.requests[0]) == ["system", "user"]
    question, order = api.requests[0].messages[1]["content"].split("\n")
    assert question == "What is known?"
    assert "`respond`" in order


async def test_an_order_that_was_ignored_stays_where_it_stood(ask_chat):
    """Its message became history: the next request goes on behind it, tools unchanged, choice `none`."""
    script = [calls("look", {"query": "a"}), calls("look", {"query": "b"}), says("In words.")]
    outcome, api = await ask_chat(script, 1, landing="order")
    assert (outcome.answer, outcome.landing.how) == ("In words.", "none")
    assert roles(api.requests[-1]) == ["system", "user", "assistant", "tool", "user", "assistant", "tool"]
    assert [sent.tool_choice for sent in api.requests] == ["auto", "auto", "none"]
    assert api.requests[-1].body["tools"] == api.requests[0].body["tools"]


async def test_s0_10_a_server_that_ignores_every_choice_is_left_with_a_salvage(ask_chat):
    """Force, order, none, all in vain: an outcome after three landing requests."""
    outcome, api = await ask_chat(policies.always_tool("look", obeys=False), 2)
    assert [sent.tool_choice for sent in api.requests[2:]] == [FORCED, "auto", "none"]
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
async def test_s0_10_a_refused_choice_is_learnt_by_the_provider(chat_api, refusal):
    """The order follows in the same run, and at once in the next one; the refusal is no landing request."""
    look = calls("look", {"query": "a"})
    api = chat_api([look, refusal, answers("yes"), look, answers("again")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        first, second = [await outcome_of(job(provider, 1)) for _ in range(2)]
    assert (first.answer, first.landing.how, first.landing.requests) == ("yes", "order", 1)
    assert (second.answer, second.landing.how, second.landing.requests) == ("again", "order", 1)
    assert [sent.tool_choice for sent in api.requests] == ["auto", FORCED, "auto", "auto", "auto"]
    assert not provider.capabilities.forced_choice


async def test_a_refusal_of_the_choice_without_forcing_is_an_error(chat_api):
    """A server whose tools are not switched on: what it says is passed on, nothing is learnt from it."""
    api = chat_api([faults.invalid('"auto" tool choice requires --enable-auto-tool-choice to be set')])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        outcome = await outcome_of(job(provider))
    assert (outcome.exit_code, provider.capabilities.forced_choice) == (3, True)
    assert "--enable-auto-tool-choice" in outcome.error


async def test_the_largest_reply_is_learnt_from_a_refusal(chat_api):
    """A model that gives 4,096 tokens at most: one refused request, then that room in all others, in later runs too."""
    look = calls("look", {"query": "a"})
    api = chat_api([look, answers("yes"), answers("again")], most_room=4096)
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        outcomes = [await outcome_of(job(provider)) for _ in range(2)]
    assert [outcome.answer for outcome in outcomes] == ["yes", "again"]
    assert [sent.body["max_completion_tokens"] for sent in api.requests] == [16_000, 4096, 4096, 4096]
    assert api.requests[0].messages == api.requests[1].messages
    assert provider.capabilities.max_output_tokens == 4096


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
async def test_a_request_for_too_much_room_is_repeated_with_what_there_is(ask_chat, words, room):
    """However the server words it; a small context is no full one."""
    outcome, api = await ask_chat([faults.invalid(words), answers("yes")])
    assert outcome.answer == "yes"
    assert [sent.body["max_completion_tokens"] for sent in api.requests] == [16_000, room]


async def test_it_is_repeated_only_once(ask_chat):
    """A server that goes on refusing is an error like any other."""
    refusal = faults.invalid("This model supports at most 4096 completion tokens")
    again = faults.invalid("This model supports at most 2048 completion tokens")
    outcome, api = await ask_chat([refusal, again])
    assert (outcome.exit_code, len(api.requests)) == (3, 2)
    assert "at most 2048" in outcome.error


@pytest.mark.parametrize("words", ["This model supports at most 99999 completion tokens", "max_completion_tokens: no"])
async def test_a_refusal_that_tells_of_no_way_out_is_not_repeated(ask_chat, words):
    """The model gives more than was asked for, or nothing is said about it: something else is wrong."""
    outcome, api = await ask_chat([faults.invalid(words)])
    assert (outcome.exit_code, len(api.requests)) == (3, 1)


async def test_a_key_that_was_left_out_is_not_left_out_twice(chat_api):
    """A server that still complains about it is not asked again and again."""
    api = chat_api([faults.invalid("unknown key: max_completion_tokens")] * 3)
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        outcomes = [await outcome_of(job(provider)) for _ in range(2)]
    assert [outcome.exit_code for outcome in outcomes] == [3, 3]
    assert len(api.requests) == 3


async def test_each_message_is_serialised_once(ask_chat, monkeypatch):
    """However long the run: a message that was sent before goes out as the bytes that there are."""
    made = []
    monkeypatch.setattr(openai_chat, "encoded", lambda message: made.append(message) or encoded(message))
    _, api = await ask_chat(policies.always_tool("look"), 20, landing="none")
    assert len(api.requests[-1].messages) == 42
    assert len(made) == 41


async def test_a_server_that_does_not_know_what_streaming_asks_for_is_not_asked_for_it(chat_api):
    """Without `stream_options` the usage stays unknown, which is better than no answer."""
    refusal = faults.error(422, "max_completion_tokens, stream_options: extra fields not permitted")
    api = chat_api([refusal, calls("look", {"query": "a"}), answers("yes")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)), watch=lambda delta: None)
    assert outcome.answer == "yes"
    keys = [{"stream_options", "max_completion_tokens", "max_tokens"} & set(sent.body) for sent in api.requests]
    assert keys == [{"stream_options", "max_completion_tokens"}, {"max_tokens"}, {"max_tokens"}]


async def test_a_server_that_knows_only_the_old_key_is_spoken_to_in_its_own_words(chat_api):
    """`max_tokens` in place of `max_completion_tokens`, from then on."""
    refusal = faults.error(422, "Extra inputs are not permitted: max_completion_tokens")
    api = chat_api([refusal, calls("look", {"query": "a"}), answers("yes")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(ChatProvider("some-model", client)))
    assert outcome.answer == "yes"
    assert [sent.body.get("max_tokens") for sent in api.requests] == [None, 16_000, 16_000]
    assert [sent.body.get("max_completion_tokens") for sent in api.requests] == [16_000, None, None]


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
async def test_x_8_a_full_context_ends_with_what_was_gathered(ask_chat, fault):
    """No broken endpoint: partial, exit code 0, the salvage stands in the answer."""
    outcome, api = await ask_chat([calls("look", {"query": "a"}), fault])
    assert (outcome.status, outcome.exit_code, len(api.requests)) == ("partial", 0, 2)
    assert "note on 'a'" in outcome.answer


async def test_s0_7_two_runs_share_a_provider_and_nothing_else(chat_api):
    """One after the other: the second knows nothing of the first, and its ids begin anew."""
    api = chat_api(policies.always_tool("look"))
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        outcomes = [await outcome_of(job(provider, limit)) for limit in (2, 3)]
    assert [outcome.tool_calls.used for outcome in outcomes] == [2, 3]
    assert [len(sent.messages) for sent in api.requests] == [2, 4, 6, 2, 4, 6, 8]


async def test_results_and_a_text_in_one_message_keep_their_order(chat_api):
    """As when a run is resumed: the results answer their calls first, then comes what the user says."""
    api = chat_api([calls("look", {"query": "a"}), says("Yes.")])
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        conversation = ChatProvider("some-model", client).open(Opening("Be brief.", Toolset([LOOK])))
        said = [Message.user("What?")]
        reply = await conversation.ask(said, Choice.AUTO, 100)
        result = ToolResult(reply.calls[0].id, "mice").block()
        more = Message("user", (result, {"type": "text", "text": "Go on."}), landing_instruction="At once.")
        await conversation.ask([*said, Message("assistant", reply.content), more], Choice.AUTO, 100)
    assert [message.get("content") for message in api.requests[1].messages[2:]] == [None, "mice", "Go on.\nAt once."]


async def test_blocks_of_the_messages_api_can_be_sent(chat_api):
    """A transcript that began elsewhere: calls and texts are made into messages, thinking is left out."""
    api = chat_api([says("Yes.")])
    blocks = (
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": "I look."},
        {"type": "text", "text": "Now."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"query": "ü"}},
    )
    said = [Message.user("What?"), Message("assistant", blocks), Message.results([ToolResult("toolu_1", "mice")])]
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        await ChatProvider("some-model", client).open(Opening("", Toolset([LOOK]))).ask(said, Choice.AUTO, 100)
    sent = api.requests[0].messages[1]
    assert sent == {
        "role": "assistant",
        "content": "I look.\nNow.",
        "tool_calls": [tool_call("look", '{"query":"ü"}', "toolu_1")],
    }
    assert "hm" not in json.dumps(sent)


@pytest.mark.parametrize("blocks", [(), ({"type": "thinking", "thinking": "hm", "signature": "x"},)])
def test_an_assistant_message_without_text_and_calls_has_an_empty_text(blocks):
    """Null stands only beside calls."""
    assert json.loads(encoded(Message("assistant", blocks))) == {"role": "assistant", "content": ""}
