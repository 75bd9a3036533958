"""Spans collected by the real SDK for a test to inspect."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

USAGE = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
)


@dataclass
class Spans:
    """The spans exported so far, in the order in which they ended."""

    exporter: InMemorySpanExporter
    provider: TracerProvider

    @property
    def all(self) -> Sequence[ReadableSpan]:
        """All spans."""
        return self.exporter.get_finished_spans()

    @property
    def names(self) -> list[str]:
        """The names of all spans."""
        return [span.name for span in self.all]

    def named(self, beginning: str) -> list[ReadableSpan]:
        """Return the spans whose names start with a text."""
        return [span for span in self.all if span.name.startswith(beginning)]

    def one(self, beginning: str) -> ReadableSpan:
        """Return the only span whose name starts with a text."""
        (span,) = self.named(beginning)
        return span

    def parent(self, span: ReadableSpan) -> str | None:
        """Return the name of a span's parent, or None if it has none."""
        if span.parent is None:
            return None
        (name,) = [one.name for one in self.all if one.context.span_id == span.parent.span_id]
        return name

    def usage(self, beginning: str) -> list[int]:
        """Return the token counts summed over some spans: input, output, read from the cache, written to it."""
        return [sum(span.attributes.get(key, 0) for span in self.named(beginning)) for key in USAGE]


@contextmanager
def recorded(*processors: SpanProcessor) -> Iterator[Spans]:
    """Install a tracer provider of the SDK with these processors, and record its spans."""
    provider = TracerProvider(shutdown_on_exit=False)
    for processor in processors:
        provider.add_span_processor(processor)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # A program can set its provider only once, so it is patched and restored after the test.
    with patch("opentelemetry.trace._TRACER_PROVIDER", provider):
        yield Spans(exporter, provider)
    provider.shutdown()
