"""Spans of failed or aborted runs, and failures of telemetry itself."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import StatusCode

from run_specialist.budget import Kind
from run_specialist.errors import ProviderError
from run_specialist.loop.run import Run
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.tools.base import Tool
from tests.loop.traced_replies import ANSWER, LOOKS
from tests.loop_jobs import LOOK, job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls
from tests.spans import recorded

pytestmark = pytest.mark.anyio


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
    assert (run.status.description, run.attributes["run_specialist.status"]) == (
        "the server takes no [redacted]",
        "failed",
    )
    assert spans.usage("invoke_agent") == spans.usage("chat") == [10, 5, 0, 0]


async def test_the_span_of_a_refusal_omits_the_reason(spans):
    """A refusal's span omits the server's reason, which may be text of the model."""
    refused = Reply(Stop.REFUSED, (), Usage(10, 0, 0, 5), "I will not speak of owls")
    await outcome_of(job(ScriptedProvider([refused]), 4))
    assert spans.one("chat").attributes["gen_ai.response.finish_reasons"] == ("refused",)
    assert spans.one("invoke_agent").attributes["error.type"] == "no_answer"


async def test_the_span_of_a_timed_out_request_has_an_error(spans):
    """A request that ran out of time has an error and no usage on its span."""

    class Slow(ScriptedProvider):
        async def ask(self, request):
            if not self.requests:
                self.requests.append(None)
                await asyncio.Event().wait()
            return await super().ask(request)

    await outcome_of(job(Slow([ANSWER]), 4, limits={Kind.TIME: 0.2}))
    first = spans.named("chat")[0]
    assert (first.attributes["error.type"], first.status.status_code) == ("timeout", StatusCode.ERROR)
    assert "gen_ai.usage.input_tokens" not in first.attributes


@pytest.mark.parametrize("how", ["abort", "cancel"])
async def test_s3_6_spans_of_an_aborted_run_end(spans, how):
    """An aborted run's span ends without an error; that of the interrupted call has the error type CancelledError."""
    reached = asyncio.Event()

    async def hang(query: str) -> str:
        reached.set()
        await asyncio.Event().wait()
        return query

    run = Run(job(ScriptedProvider([LOOKS]), 9, tools=[Tool("look", "Hangs.", hang)]))
    task = asyncio.create_task(run.outcome())
    await reached.wait()
    run.abort() if how == "abort" else task.cancel()
    await asyncio.wait([task])
    assert spans.names == ["chat scripted", "execute_tool look", "invoke_agent looker"]
    assert spans.one("execute_tool").attributes["error.type"] == "CancelledError"
    told = spans.one("invoke_agent")
    assert (told.attributes["run_specialist.status"], told.status.status_code) == ("aborted", StatusCode.UNSET)
    assert "error.type" not in told.attributes


class Broken(SpanProcessor):
    """A span processor that fails in a given method."""

    def __init__(self, where):
        self.where = where
        self.failed = 0

    def _fail(self, where):
        if where == self.where:
            self.failed += 1
            raise KeyError(where)

    def on_start(self, span, parent_context=None):
        """Fail at the beginning."""
        self._fail("start")

    def on_end(self, span):
        """Fail at the end."""
        self._fail("end")


@pytest.mark.parametrize("where", ["start", "end"])
async def test_a_failing_span_processor_does_not_change_the_run(where):
    """A failing span processor does not change the run, and the caller's span is current again afterwards."""
    broken = Broken(where)
    with recorded(broken):
        before = trace.get_current_span()
        outcome = await outcome_of(job(ScriptedProvider([LOOKS, ANSWER]), 4))
        assert trace.get_current_span() is before
    assert broken.failed == 4
    assert (outcome.status, outcome.answer, outcome.warnings) == ("answered", "mice", ())
