"""Measure the cost of telemetry spans: CPU time per tool call, with and without a tracer provider.

Run it from the top of the repository, in an environment with the `test` group:

    python -m bench.telemetry_cost

The model is a script, a tool call is a coroutine that returns immediately, and the SDK's batch processor sends spans to
an exporter that drops them. Each figure is the fastest of 7 runs of 300 calls, one per turn, because other load on the
machine only makes runs slower.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from run_specialist.loop import observing
from run_specialist.tools.base import Tool
from tests.loop_jobs import job, outcome_of
from tests.scripted_provider import ScriptedProvider, calls

CALLS = 300
RUNS = 7


class Dropped(SpanExporter):
    """Exporter that drops all spans."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - dropped
        """Drop the spans."""
        return SpanExportResult.SUCCESS


async def look(query: str) -> str:
    """Return immediately."""
    return query


@contextmanager
def traced() -> Iterator[None]:
    """Install a tracer provider of the SDK."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Dropped(), max_queue_size=100_000))
    with patch("opentelemetry.trace._TRACER_PROVIDER", provider):
        yield
    provider.shutdown()


@contextmanager
def stubbed() -> Iterator[None]:
    """Replace the telemetry code, including the check for a tracer provider."""
    nothing = observing.NO_SPAN
    with (
        patch.object(observing, "invoke_agent", lambda *_, **__: nothing),
        patch.object(observing, "chat", lambda *_: nothing),
        patch.object(observing, "execute_tool", lambda *_: nothing),
    ):
        yield


def once() -> float:
    """Return the CPU time per call of one run [s]."""
    script = [calls(("look", {"query": str(number)}), first_id=number) for number in range(CALLS)]
    answer = calls(("respond", {"answer": "done"}), first_id=CALLS)
    one = job(ScriptedProvider([*script, answer]), CALLS + 1, tools=[Tool("look", "Look.", look)])
    begun = time.process_time()
    asyncio.run(outcome_of(one))
    return (time.process_time() - begun) / CALLS


def main() -> None:
    """Print a table of the CPU time of spans."""
    print("| | CPU per call | more |\n|---|---|---|")
    base = 0.0
    for name, how in (
        ("no telemetry code", stubbed),
        ("no tracer provider", nullcontext),
        ("every span exported", traced),
    ):
        with how():
            fastest = min(once() for _ in range(RUNS))
        base = base or fastest
        print(f"| {name} | {fastest * 1e6:.0f} µs | {(fastest - base) * 1e6:.0f} µs |")


if __name__ == "__main__":
    sys.exit(main())
