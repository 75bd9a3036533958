"""Measure what spans cost a run: CPU a tool call, with and without somebody who traces.

Run it from the top of the repository, in an environment with the `test` group:

    python -m bench.telemetry_cost

The model is a script, a tool call is a coroutine that returns at once, and spans go to the SDK's batch processor, whose
exporter drops them. Of each kind the quickest of 7 runs of 300 calls, one call a turn, is told: whatever else the
machine does only makes a run slower.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from run_specialist.loop.observing import telemetry
from run_specialist.providers.scripted import ScriptedProvider, calls
from run_specialist.tools.base import Tool
from tests.loop_jobs import job, outcome_of

CALLS = 300
RUNS = 7


class Dropped(SpanExporter):
    """Takes spans and keeps none."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - they go nowhere
        """Let them go."""
        return SpanExportResult.SUCCESS


async def look(query: str) -> str:
    """Return at once."""
    return query


@contextmanager
def traced() -> Iterator[None]:
    """Let a provider of the SDK take the spans."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Dropped(), max_queue_size=100_000))
    with patch("opentelemetry.trace._TRACER_PROVIDER", provider):
        yield
    provider.shutdown()


@contextmanager
def stubbed() -> Iterator[None]:
    """Take out even the question whether somebody traces: what is left is the run without any telemetry."""
    silent = telemetry.AgentSpan(None, "", {})
    nothing = telemetry.Silence()
    with (
        patch.object(telemetry, "invoke_agent", lambda *_, **__: silent),
        patch.object(telemetry, "chat", lambda *_: nothing),
        patch.object(telemetry, "execute_tool", lambda *_: nothing),
    ):
        yield


def once() -> float:
    """Return the CPU time that one call of a run takes [s]."""
    script = [calls(("look", {"query": str(number)}), first_id=number) for number in range(CALLS)]
    answer = calls(("respond", {"answer": "done"}), first_id=CALLS)
    one = job(ScriptedProvider([*script, answer]), CALLS + 1, tools=[Tool("look", "Look.", look)])
    begun = time.process_time()
    asyncio.run(outcome_of(one))
    return (time.process_time() - begun) / CALLS


def main() -> None:
    """Print the table of docs/telemetry.md."""
    print("| | CPU a call | more |\n|---|---|---|")
    base = 0.0
    for name, how in (
        ("no telemetry at all", stubbed),
        ("nobody traces", nullcontext),
        ("every span exported", traced),
    ):
        with how():
            quickest = min(once() for _ in range(RUNS))
        base = base or quickest
        print(f"| {name} | {quickest * 1e6:.0f} µs | {(quickest - base) * 1e6:.0f} µs |")


if __name__ == "__main__":
    sys.exit(main())
