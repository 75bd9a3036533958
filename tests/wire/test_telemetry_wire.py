"""Spans of requests over the wire, through the real SDKs: one per request, with the billed tokens."""

import asyncio

import pytest
from opentelemetry.trace import SpanKind

from run_specialist.providers import anthropic, openai_chat
from run_specialist.tools.base import Tool
from tests.loop_jobs import job, outcome_of
from tests.spans import recorded
from tests.wire.chat import faults as chat_faults
from tests.wire.chat import replies as chat_replies
from tests.wire.simulator import faults, replies
from tests.wire.simulator.replies import answers, says
from tests.wire.specialists import Asker, for_summary, looks, noting

pytestmark = pytest.mark.anyio
LONG = Tool("look", "Looks.", lambda query: f"note on {query} {'x' * 19_000}")
"""A tool whose results of nearly 5,000 tokens are large enough to be cached and soon summarized."""


@pytest.fixture
def spans():
    """Record the spans of the test."""
    with recorded() as spans:
        yield spans


def billed(requests):
    """Return the billed tokens of all requests: input in total, output, read from the cache, written to it."""
    usages = [request.usage for request in requests if request.status == 200]
    read, written = ([usage[f"cache_{key}_input_tokens"] for usage in usages] for key in ("read", "creation"))
    plain = [usage["input_tokens"] for usage in usages]
    return [
        sum(plain) + sum(read) + sum(written),
        sum(usage["output_tokens"] for usage in usages),
        sum(read),
        sum(written),
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_each_messages_api_request_has_one_span(spans, messages_api, stream):
    """Each Messages API request has one span with the billed tokens, cached ones included; the SDK adds none."""
    api = messages_api([looks("a"), looks("b"), looks("c"), answers("mice")])
    async with anthropic.make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        watch = (lambda delta: None) if stream else None
        outcome = await outcome_of(job(anthropic.AnthropicProvider("haiku", client), 3, tools=[LONG]), watch=watch)
    requests = spans.named("chat")
    assert spans.names == [
        *["chat claude-haiku-5-5", "execute_tool look"] * 3,
        "chat claude-haiku-5-5",
        "invoke_agent looker",
    ]
    assert {spans.parent(span) for span in requests} == {"invoke_agent looker"}
    assert {span.kind for span in requests} == {SpanKind.CLIENT}
    run = spans.one("invoke_agent").attributes
    for attributes in (run, *(span.attributes for span in requests)):
        assert attributes["gen_ai.provider.name"] == "anthropic"
        assert attributes["gen_ai.request.model"] == attributes["gen_ai.response.model"] == "claude-haiku-5-5"
    assert [span.attributes["gen_ai.response.finish_reasons"] for span in requests] == [("tool_use",)] * 4
    assert [span.attributes["gen_ai.request.max_tokens"] for span in requests] == [
        request.body["max_tokens"] for request in api.requests
    ]
    assert spans.usage("chat") == spans.usage("invoke_agent") == billed(api.requests)
    assert sum(spans.usage("chat")[:2]) == outcome.usage.total_tokens
    assert spans.usage("chat")[2] > 0
    assert not [name for request in api.requests for name in request.headers if name.lower() == "traceparent"]


@pytest.mark.parametrize("stream", [False, True])
async def test_each_chat_completions_request_has_one_span(spans, chat_api, stream):
    """Each Chat Completions request has one span; its model name is the server's, without the provider prefix."""
    api = chat_api([chat_replies.calls("look", {"query": "a"}), chat_replies.answers("mice")])
    async with openai_chat.make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        watch = (lambda delta: None) if stream else None
        outcome = await outcome_of(job(openai_chat.ChatProvider("some-model", client), 3), watch=watch)
    assert spans.names == ["chat some-model", "execute_tool look", "chat some-model", "invoke_agent looker"]
    for span in (*spans.named("chat"), spans.one("invoke_agent")):
        assert span.attributes["gen_ai.provider.name"] == "openai"
        assert span.attributes["gen_ai.request.model"] == span.attributes["gen_ai.response.model"] == "some-model"
    used = outcome.usage
    told = [used.total_tokens - used.output_tokens, used.output_tokens, used.cache_read_input_tokens, 0]
    assert spans.usage("chat") == spans.usage("invoke_agent") == told
    assert used.output_tokens > 0


@pytest.mark.parametrize("kind", ["messages", "chat"])
async def test_a_retried_request_has_one_span(spans, messages_api, chat_api, kind):
    """A request that the SDK retries has one span over all attempts, and no error."""
    if kind == "messages":
        api = messages_api([faults.overloaded(retry_after=0), replies.answers("mice")])
        client = anthropic.make_client(base_url=api.base_url, api_key="test", max_retries=1)
        provider = anthropic.AnthropicProvider("haiku", client)
    else:
        api = chat_api([chat_faults.rate_limited(retry_after=0), chat_replies.answers("mice")])
        client = openai_chat.make_client(base_url=api.base_url, api_key="test", max_retries=1)
        provider = openai_chat.ChatProvider("some-model", client)
    async with client:
        outcome = await outcome_of(job(provider, 3))
    assert (outcome.status, len(api.requests)) == ("answered", 2)
    assert "error.type" not in spans.one("chat").attributes


async def test_s0_10_a_refused_request_has_an_error_span_without_usage(spans, messages_api):
    """A request refused with a 400 for forcing has an error span without usage.

    The order that replaces it is a separate request.
    """
    refusal = faults.invalid("tool_choice: forcing a tool is not supported")
    api = messages_api([looks("a"), refusal, answers("mice")])
    async with anthropic.make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        outcome = await outcome_of(job(anthropic.AnthropicProvider("haiku", client), 1))
    assert outcome.status == "landed"
    assert [span.attributes.get("error.type") for span in spans.named("chat")] == [None, "ForcingRefused", None]
    assert spans.usage("chat") == spans.usage("invoke_agent") == billed(api.requests)


async def test_s2_10_summary_requests_have_spans(spans, messages_api, tmp_path):
    """Each summary request has its own span below the run; the sums match the outcome."""
    ask = Asker(messages_api, tmp_path, stream=False)
    script = noting(says("- owls eat mice (n.md:1)"), [looks("a"), looks("b"), looks("c"), answers("mice")])
    told = await ask(script, "preset: finalize", "summarize_at: 12000", tools=[LONG])
    assert told.named("summarized")
    notes = sum(for_summary(request) for request in told.api.requests)
    assert notes > 0
    assert len(spans.named("chat")) == len(told.api.requests)
    assert {spans.parent(span) for span in spans.named("chat")} == {"invoke_agent looker"}
    assert spans.usage("chat") == spans.usage("invoke_agent") == billed(told.api.requests)
    assert sum(spans.usage("chat")[:2]) == told.outcome.usage.total_tokens


async def test_s0_7_concurrent_runs_have_separate_span_trees(spans, messages_api):
    """Eight concurrent runs over one client have eight span trees, each with its own requests and tokens."""
    api = messages_api(lambda request: answers("mice") if request.results else looks("a"))
    async with anthropic.make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = anthropic.AnthropicProvider("haiku", client)
        await asyncio.gather(*(outcome_of(job(provider, 5, question=f"No. {number}?")) for number in range(8)))
    runs = {span.context.span_id: span.attributes["gen_ai.usage.input_tokens"] for span in spans.named("invoke_agent")}
    below = dict.fromkeys(runs, 0)
    for span in spans.named("chat"):
        below[span.parent.span_id] += span.attributes["gen_ai.usage.input_tokens"]
    assert len(runs) == 8
    assert below == runs
    assert len({span.context.trace_id for span in spans.all}) == 8
