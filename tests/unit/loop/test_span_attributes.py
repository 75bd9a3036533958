"""Spans exist only when tracing is on; without it nothing is imported and no span is made."""

import asyncio
import contextvars
import os
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.environment_variables import OTEL_PYTHON_TRACER_PROVIDER

from run_specialist.loop import observing
from run_specialist.record.messages import Reply, Stop, ToolCall, Usage
from tests.scripted_provider import ScriptedProvider
from tests.spans import recorded

CALL = ToolCall("call_1", "look", {})
PROGRAM = """
import sys
from pathlib import Path
from run_specialist import Specialist, run_sync

Path("owls.md").write_text("Owls eat mice.")
finder = Specialist(name="finder", description="", prompt="You find.")
outcome = run_sync(finder, "What do owls eat?", model="offline", root=Path.cwd())
print(outcome.status, "opentelemetry" in sys.modules, "anthropic" in sys.modules)
"""


def agent():
    """Return the span of a run."""
    provider = ScriptedProvider([])
    return observing.invoke_agent("owls", "run-1", provider, "What?", parent_id=None, resumed=False)


def test_the_variable_has_opentelemetrys_name():
    """The variable has OpenTelemetry's name, which is copied because looking it up would be an import."""
    assert observing.PROVIDER_VARIABLE == OTEL_PYTHON_TRACER_PROVIDER


@pytest.mark.exhaustive
def test_an_offline_run_imports_nothing_of_opentelemetry(tmp_path):
    """An offline run, in its own process without provider and variable, imports nothing of OpenTelemetry."""
    told = run(tmp_path, PROGRAM)
    assert told.stdout == "answered False False\n", told.stderr


@pytest.mark.exhaustive
def test_the_variable_alone_enables_tracing(tmp_path):
    """The variable alone turns tracing on and its provider gets the spans.

    This is how `opentelemetry-instrument` and containers set it.
    """
    watch = f"""
from opentelemetry.sdk.trace import TracerProvider
begun = TracerProvider.get_tracer
TracerProvider.get_tracer = lambda *given, **more: print("traced by", given[1]) or begun(*given, **more)
{PROGRAM}"""
    told = run(tmp_path, watch, **{observing.PROVIDER_VARIABLE: "sdk_tracer_provider"})
    assert told.stdout.splitlines() == ["traced by run_specialist", "answered True False"], told.stderr


def test_an_unknown_provider_disables_tracing(tmp_path):
    """If the variable names no provider, OpenTelemetry reports the error and the run is not traced."""
    told = run(tmp_path, PROGRAM, **{observing.PROVIDER_VARIABLE: "nonsense"})
    assert told.stdout == "answered True False\n"


def run(folder, program, **environment):
    """Run a program in a separate process without telemetry settings."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**own, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


@pytest.mark.parametrize("provider", [None, trace.NoOpTracerProvider()], ids=["none", "no-op"])
def test_a_no_op_provider_makes_no_span(monkeypatch, provider):
    """With a no-op provider no span is made, even if a vendor's SDK has imported the library."""
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    monkeypatch.setattr("opentelemetry.trace.NoOpTracer.start_span", None)
    with agent() as span, observing.chat(ScriptedProvider([]), 100) as request, observing.execute_tool(CALL) as call:
        assert span is request is call is observing.NO_SPAN
        request.replied(Reply(Stop.ANSWERED, ()), Usage(1, 0, 0, 1))
        request.failed("timeout")
        call.returned("mice", None, is_error=True)
        assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_failing_provider_disables_tracing(monkeypatch):
    """If the provider raises any exception, the run continues without tracing."""

    class Broken(trace.TracerProvider):
        def get_tracer(self, *given, **more):
            raise KeyError("no tracer")

    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", Broken())
    with agent() as span:
        assert span.tracer is None


@pytest.mark.parametrize("value", ["", "false", "no_content", "event_only", "1"])
def test_content_is_not_recorded_for_unconventional_values(monkeypatch, value):
    """Content is recorded only for the values that the conventions define for spans."""
    monkeypatch.setenv(observing.CONTENT, value)
    with recorded() as seen, agent(), observing.execute_tool(CALL) as call:
        call.returned("mice", None, is_error=False)
    assert not any("mice" in span.to_json() or "What?" in span.to_json() for span in seen.all)


def test_a_refused_attribute_does_not_keep_the_span_open(monkeypatch):
    """If an attribute or a status is refused, the span still ends."""
    with recorded() as seen, agent() as span:
        monkeypatch.setattr(span._span, "set_attributes", None)
        monkeypatch.setattr(span._span, "set_status", None)
        span.set({"a": 1})
        span.failed("oops")
    assert seen.names == ["invoke_agent owls"]


def test_the_span_of_a_discarded_run_ends_without_an_error(caplog):
    """The span of a discarded run ends without an error.

    Its coroutine is closed in another context, where the context token cannot be reset.
    """

    async def work():
        with agent():
            await asyncio.Event().wait()

    async def begin():
        coroutine = work()
        contextvars.copy_context().run(coroutine.send, None)
        coroutine.close()

    with recorded() as seen:
        asyncio.run(begin())
    assert (seen.names, caplog.messages) == (["invoke_agent owls"], [])
