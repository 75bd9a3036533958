"""Events that listeners receive, and the outcome of aborted runs."""

import asyncio
import json

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from run_specialist.errors import ProviderError, UsageError
from run_specialist.loop.observing import CONTENT
from run_specialist.loop.run import Run
from run_specialist.providers.base import Delta
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.tools.base import Tool
from tests.loop.replies import looks_for
from tests.loop_jobs import LOOK, job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import ScriptedSpecialists
from tests.spans import recorded

LOOKS = looks_for("a")
ANSWER = calls(("respond", {"answer": "mice"}), first_id=99)


async def test_a_second_outcome_call_is_refused_or_returns_the_same(hanging):
    """A second `outcome()` during the run is refused; after the run it returns the same outcome without a request."""
    look, reached = hanging
    provider = ScriptedProvider([LOOKS])
    run = Run(job(provider, 9, tools=[look]))
    first = asyncio.create_task(run.outcome())
    await reached.wait()
    with pytest.raises(UsageError, match="run-1 is in progress"):
        await run.outcome()
    run.abort()
    assert await first is await run.outcome()
    assert len(provider.requests) == 1


async def test_a_failing_listener_is_removed_and_the_run_continues():
    """A listener that raises is removed, the run continues, and the outcome contains a warning."""

    def listen(event):
        raise KeyError("oops")

    outcome = await Run(job(ScriptedProvider([LOOKS, says("done")]), 4), listen).outcome()
    assert (outcome.status, outcome.answer) == ("answered", "done")
    assert "the listener failed" in outcome.warnings[0]


@pytest.mark.parametrize(("event", "requests", "calls_run"), [("started", 0, 0), ("request", 0, 0), ("reply", 1, 0)])
async def test_s3_6_a_listener_may_abort(event, requests, calls_run):
    """A listener may abort the run: no more requests or calls follow, and the caller's task is not cancelled."""
    provider = ScriptedProvider([LOOKS])
    run = Run(job(provider, 4), lambda told: run.abort() if told.event == event else None)
    outcome = await run.outcome()
    await asyncio.sleep(0)
    assert (outcome.status, len(provider.requests), outcome.tool_calls.used) == ("aborted", requests, calls_run)


async def test_s3_6_an_abort_leaves_no_cancellation_on_the_task(hanging):
    """Aborting twice or inside a timeout leaves no cancellation behind on the caller's task."""
    look, reached = hanging
    run = Run(job(ScriptedProvider([LOOKS]), 9, tools=[look]))

    async def parent():
        async with asyncio.timeout(60):
            outcome = await run.outcome()
        return outcome, asyncio.current_task().cancelling()

    task = asyncio.create_task(parent())
    await reached.wait()
    run.abort()
    run.abort()
    outcome, cancelling = await task
    assert (outcome.status, cancelling) == ("aborted", 0)


async def test_s3_6_a_cancellation_beside_an_abort_propagates(hanging):
    """A cancellation of the parent propagates even if the child is aborted at the same time."""
    look, reached = hanging
    run = Run(job(ScriptedProvider([LOOKS]), 9, tools=[look]))
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    run.abort()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failing_observer_does_not_affect_the_reply():
    """An observer that fails while a reply streams does not affect the reply."""

    def watch(delta):
        raise KeyError("my view")

    class Streaming(ScriptedProvider):
        """A provider that streams a piece of each reply."""

        def open(self, opening, watch=None):
            watch(Delta("piece"))
            return super().open(opening, watch)

    outcome = await outcome_of(job(Streaming([says("done")]), 4, tools=()), watch=watch)
    assert (outcome.status, outcome.warnings) == ("answered", ())


async def test_a_run_is_a_tree_of_spans_with_the_attributes_of_the_conventions(spans):
    """A run has one span, with a child for each request and executed call, and no questions, answers or results."""
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


async def test_the_span_of_a_landed_run_describes_the_landing(spans):
    """The span of a landed run has the reason, the rung and the number of requests."""
    await outcome_of(job(ScriptedProvider([LOOKS, ANSWER]), 1))
    told = spans.one("invoke_agent").attributes
    assert told["run_specialist.status"] == "landed"
    landing = [told[f"run_specialist.landing.{key}"] for key in ("reason", "how", "requests")]
    assert landing == ["tool_calls", "force", 1]


async def test_s4_5_a_resumed_run_has_its_own_span_in_the_same_conversation(spans, desk):
    """A resumed run has its own span in the same conversation, with the usage of its own segment only."""
    await desk.ask(LOOKS, ANSWER, tool_calls_limit=1)
    going = await desk.go_on(looks_for("b", first_id=2), ANSWER, tool_calls_limit=5)
    first, second = spans.named("invoke_agent")
    assert first.attributes["gen_ai.conversation.id"] == second.attributes["gen_ai.conversation.id"]
    assert ("run_specialist.resumed" in first.attributes, second.attributes["run_specialist.resumed"]) == (False, True)
    for span in (first, second):
        assert span.attributes["gen_ai.usage.input_tokens"] == 20
    assert spans.usage("invoke_agent") == spans.usage("chat") == [40, 20, 0, 0]
    assert going.outcome.usage.total_tokens == 60


async def test_x_11_the_span_of_a_child_is_below_its_delegate_call(spans, run_lead, files):
    """A child's run is below the delegate call, and its usage is counted once in runs, requests and outcome."""
    files()
    asks = calls(("delegate", {"specialist": "finder", "query": "What?"}), ("look", {"query": "b"}))
    cast = ScriptedSpecialists(lead=[[asks, ANSWER]], finder=[[looks_for("c"), looks_for("", first_id=5), ANSWER]])
    outcome, _ = await run_lead(cast)
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
    script = [looks_for(secret), calls(("respond", {"answer": f"mice {secret}"}), first_id=9)]
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


async def test_failed_calls_are_marked_and_skipped_calls_have_no_span(spans):
    """A failed call's span has the error type without its message; repeated and skipped calls have no span."""

    def burst(query: str) -> str:
        raise KeyError(f"no {query}, secret")

    tools = [Tool("burst", "Bursts.", burst), Tool("look", "Looks.", LOOK.function, repeatable=True)]
    wanted = [("burst", {"query": "a"}), ("nowhere", {}), ("look", {"query": "b"}), ("look", {"query": "b"})]
    script = [calls(*wanted, ("look", {"query": "c"})), ANSWER]
    outcome = await outcome_of(job(ScriptedProvider(script), 4, tools=tools))
    assert (outcome.tool_calls.used, outcome.tool_calls.skipped) == (4, 1)
    told = {span.name.split()[1]: (span.status, span.attributes.get("error.type")) for span in spans.named("execute")}
    assert {name: (status.status_code, kind) for name, (status, kind) in told.items()} == {
        "burst": (StatusCode.ERROR, "KeyError"),
        "nowhere": (StatusCode.ERROR, "ToolError"),
        "look": (StatusCode.UNSET, None),
    }
    assert len(spans.named("execute_tool look")) == 1
    assert not any("secret" in str(span.to_json()) for span in spans.all)


async def test_a_failed_request_marks_the_run_span_as_failed(spans):
    """A failed request sets the error type on its span, and the run's span gets the type for its exit code."""
    outcome = await outcome_of(job(ScriptedProvider([LOOKS, ProviderError(f"the server takes no sk-{'a1' * 20}")]), 4))
    assert outcome.status == "failed"
    request, run = spans.named("chat")[1], spans.one("invoke_agent")
    assert (request.status.status_code, request.attributes["error.type"]) == (StatusCode.ERROR, "ProviderError")
    assert (run.status.status_code, run.attributes["error.type"]) == (StatusCode.ERROR, "provider")
    assert run.status.description == "the server takes no [redacted]"
    assert run.attributes["run_specialist.status"] == "failed"
    assert spans.usage("invoke_agent") == spans.usage("chat") == [10, 5, 0, 0]


async def test_the_span_of_a_refusal_omits_the_reason(spans):
    """A refusal's span omits the server's reason, which may be text of the model."""
    refused = Reply(Stop.REFUSED, (), Usage(10, 0, 0, 5), "I will not speak of owls")
    await outcome_of(job(ScriptedProvider([refused]), 4))
    assert spans.one("chat").attributes["gen_ai.response.finish_reasons"] == ("refused",)
    assert spans.one("invoke_agent").attributes["error.type"] == "no_answer"


@pytest.mark.parametrize("how", ["abort", "cancel"])
async def test_s3_6_spans_of_an_aborted_run_end(spans, hanging, how):
    """An aborted run's span ends without an error; that of the interrupted call has the error type CancelledError."""
    look, reached = hanging
    run = Run(job(ScriptedProvider([LOOKS]), 9, tools=[look]))
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    run.abort() if how == "abort" else task.cancel()
    await asyncio.wait([task])
    assert spans.names == ["chat scripted", "execute_tool look", "invoke_agent looker"]
    assert spans.one("execute_tool").attributes["error.type"] == "CancelledError"
    told = spans.one("invoke_agent")
    assert (told.attributes["run_specialist.status"], told.status.status_code) == ("aborted", StatusCode.UNSET)
    assert "error.type" not in told.attributes


class BrokenProcessor(SpanProcessor):
    """A span processor that fails in a given method."""

    def __init__(self, where):
        self.failed = 0
        setattr(self, where, self.fail)

    def fail(self, *_, **__):
        """Count the failure."""
        self.failed += 1
        raise KeyError(self.failed)


@pytest.mark.parametrize("where", ["on_start", "on_end"])
async def test_a_failing_span_processor_does_not_change_the_run(where):
    """A failing span processor does not change the run, and the caller's span is current again afterwards."""
    broken = BrokenProcessor(where)
    with recorded(broken):
        before = trace.get_current_span()
        outcome = await outcome_of(job(ScriptedProvider([LOOKS, ANSWER]), 4))
        assert trace.get_current_span() is before
    assert broken.failed == 4
    assert (outcome.status, outcome.answer, outcome.warnings) == ("answered", "mice", ())
