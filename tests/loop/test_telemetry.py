"""Spans of complete runs, as the OpenTelemetry SDK exports them."""

import json

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from run_specialist.api.runner import Runner
from run_specialist.loop.observing import CONTENT
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.tools.base import Tool
from tests.loop.traced_replies import ANSWER, LOOKS
from tests.loop_jobs import LOOK, job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls
from tests.scripted_specialists import ScriptedSpecialists, write
from tests.stored_runs import StoredRunHarness

pytestmark = pytest.mark.anyio


async def test_a_run_is_a_tree_of_spans(spans):
    """A run has one span, with a child span for each request and each executed call except `respond`."""
    await outcome_of(job(ScriptedProvider([LOOKS, ANSWER]), 4))
    assert [(span.name, spans.parent(span)) for span in spans.all] == [
        ("chat scripted", "invoke_agent looker"),
        ("execute_tool look", "invoke_agent looker"),
        ("chat scripted", "invoke_agent looker"),
        ("invoke_agent looker", None),
    ]
    kinds = {span.name: span.kind for span in spans.all}
    assert kinds == {
        "chat scripted": SpanKind.CLIENT,
        "execute_tool look": SpanKind.INTERNAL,
        "invoke_agent looker": SpanKind.INTERNAL,
    }
    assert {span.status.status_code for span in spans.all} == {StatusCode.UNSET}
    assert {span.instrumentation_scope.name for span in spans.all} == {"run_specialist"}


async def test_spans_have_only_the_attributes_of_the_conventions(spans):
    """Spans have exactly the attributes of the conventions, without questions, answers, arguments or results."""
    await outcome_of(job(ScriptedProvider([LOOKS, ANSWER]), 4))
    run = {"gen_ai.provider.name": "scripted", "gen_ai.conversation.id": "run-1", "gen_ai.request.model": "scripted"}
    used = {"gen_ai.usage.cache_read.input_tokens": 0, "gen_ai.usage.cache_write.input_tokens": 0}
    assert dict(spans.one("invoke_agent").attributes) == {
        **run,
        **used,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "looker",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
        "run_specialist.status": "answered",
        "run_specialist.tool_calls.used": 1,
        "run_specialist.tool_calls.limit": 4,
        "run_specialist.tool_calls.failed": 0,
        "run_specialist.tool_calls.skipped": 0,
    }
    assert dict(spans.named("chat")[0].attributes) == {
        **run,
        **used,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.max_tokens": 16_000,
        "gen_ai.response.finish_reasons": ("wants_tools",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
    }
    assert dict(spans.one("execute_tool").attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.type": "function",
    }


async def test_input_tokens_include_cached_tokens(spans):
    """Input tokens include cached ones, as the conventions define, and cache reads and writes have own attributes."""
    reply = Reply(Stop.ANSWERED, ({"type": "text", "text": "mice"},), Usage(1, 20, 300, 4000), "end_turn", model="one")
    await outcome_of(job(ScriptedProvider([reply]), 4))
    assert spans.usage("chat") == spans.usage("invoke_agent") == [321, 4000, 20, 300]
    for name in ("chat", "invoke_agent"):
        assert spans.one(name).attributes["gen_ai.response.model"] == "one"
    assert spans.one("chat").attributes["gen_ai.response.finish_reasons"] == ("end_turn",)


async def test_the_span_of_a_landed_run_describes_the_landing(spans):
    """The span of a landed run has the reason, the rung and the number of requests."""
    await outcome_of(job(ScriptedProvider([LOOKS, ANSWER]), 1))
    told = spans.one("invoke_agent").attributes
    assert told["run_specialist.status"] == "landed"
    assert [told[f"run_specialist.landing.{key}"] for key in ("reason", "how", "requests")] == [
        "tool_calls",
        "force",
        1,
    ]


async def test_s4_5_a_resumed_run_has_its_own_span_in_the_same_conversation(spans, tmp_path):
    """A resumed run has its own span in the same conversation, with the usage of its own segment only."""
    desk = StoredRunHarness(tmp_path)
    await desk.ask(LOOKS, ANSWER, tool_calls_limit=1)
    going = await desk.go_on(calls(("look", {"query": "b"}), first_id=2), ANSWER, tool_calls_limit=5)
    first, second = spans.named("invoke_agent")
    assert first.attributes["gen_ai.conversation.id"] == second.attributes["gen_ai.conversation.id"]
    assert ("run_specialist.resumed" in first.attributes, second.attributes["run_specialist.resumed"]) == (False, True)
    for span in (first, second):
        assert span.attributes["gen_ai.usage.input_tokens"] == 20
    assert spans.usage("invoke_agent") == spans.usage("chat") == [40, 20, 0, 0]
    assert going.outcome.usage.total_tokens == 60


async def test_x_11_the_span_of_a_child_is_below_its_delegate_call(spans, tmp_path, monkeypatch):
    """A child's run is below the delegate call, and its usage is counted once in runs, requests and outcome."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lead", "agents: [finder]", "tool_calls_limit: 10")
    write(tmp_path, "finder", "tool_calls_limit: 6")
    asks = calls(("delegate", {"specialist": "finder", "query": "What?"}), ("look", {"query": "b"}))
    cast = ScriptedSpecialists(
        lead=[[asks, ANSWER]], finder=[[calls(("look", {"query": "c"})), calls(("look", {}), first_id=5), ANSWER]]
    )
    async with Runner(provider=cast, tools=[LOOK]) as runner:
        outcome = await runner.run("lead", "What is known?")
    lead, finder = spans.one("invoke_agent lead"), spans.one("invoke_agent finder")
    assert spans.parent(finder) == "execute_tool delegate"
    assert finder.attributes["run_specialist.parent_run_id"] == outcome.run_id
    below = [span for span in spans.all if span.parent and span.parent.span_id == finder.context.span_id]
    assert sorted(span.name for span in below) == ["chat scripted"] * 3 + ["execute_tool look"] * 2
    assert {span.context.trace_id for span in spans.all} == {lead.context.trace_id}
    assert [span.attributes["gen_ai.usage.input_tokens"] for span in (lead, finder)] == [20, 30]
    assert spans.usage("invoke_agent") == spans.usage("chat")
    assert sum(spans.usage("chat")[:2]) == outcome.usage.total_tokens == 75


@pytest.mark.parametrize("kind", ["thread", "task"])
async def test_spans_of_a_tool_are_below_its_call(spans, kind):
    """Spans made by a tool are below its call, also from threads and tasks, and a run is below its caller's span."""
    tracer = trace.get_tracer("host")

    def look(query: str) -> str:
        with tracer.start_as_current_span("inside"):
            return query

    async def look_on(query: str) -> str:
        return look(query)

    tool = Tool("look", "Looks.", look if kind == "thread" else look_on)
    with tracer.start_as_current_span("host"):
        await outcome_of(job(ScriptedProvider([LOOKS, ANSWER]), 4, tools=[tool]))
        after = trace.get_current_span()
    assert spans.parent(spans.one("inside")) == "execute_tool look"
    assert spans.parent(spans.one("invoke_agent")) == "host"
    assert after.name == "host"


@pytest.mark.parametrize("switch", ["true", "SPAN_ONLY"])
async def test_content_is_recorded_only_if_enabled_and_masked(spans, monkeypatch, switch):
    """With the environment variable set, spans hold question, answer, arguments and results, with secrets masked."""
    monkeypatch.setenv(CONTENT, switch)
    secret = f"sk-{'a1' * 20}"
    script = [calls(("look", {"query": secret})), calls(("respond", {"answer": f"mice {secret}"}), first_id=9)]
    await outcome_of(job(ScriptedProvider(script), 4, question=f"What of {secret}?"))
    run, call = spans.one("invoke_agent").attributes, spans.one("execute_tool").attributes
    assert json.loads(run["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "What of [redacted]?"}]}
    ]
    assert json.loads(run["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "mice [redacted]"}], "finish_reason": "stop"}
    ]
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"query": "[redacted]"}
    assert call["gen_ai.tool.call.result"] == "note on '[redacted]', part 0"
    assert not any(secret in span.to_json() for span in spans.all)
