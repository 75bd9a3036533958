"""A span of OpenTelemetry that cannot harm what it stands for, and the tracer that makes it, if there is one.

Nothing of OpenTelemetry is imported unless the program has done so, or the environment asks for it.
"""

import logging
import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue

SCOPE = "run_specialist"
PROVIDER = "OTEL_PYTHON_TRACER_PROVIDER"
"""The variable with which a program that imports nothing of OpenTelemetry has its spans exported."""

_log = logging.getLogger(__name__)
_open: ContextVar["Span | None"] = ContextVar("run_specialist_span", default=None)


def find_tracer() -> "Tracer | None":
    """Return what makes spans; None unless the program, or the environment, has set up a tracer provider."""
    if "opentelemetry.trace" not in sys.modules and not os.environ.get(PROVIDER):
        return None
    try:
        from opentelemetry import trace  # noqa: PLC0415 - see above

        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            return None
        from run_specialist.version import release  # noqa: PLC0415 - only where somebody traces

        tracer = provider.get_tracer(SCOPE, release())
    except Exception:  # noqa: BLE001 - a provider is foreign code
        _log.debug("there is no tracer", exc_info=True)
        return None
    # What a provider gives that does nothing, or is switched off.
    return None if isinstance(tracer, trace.NoOpTracer) else tracer


class Span:
    """A span while it is open, current for all that is done inside; nothing at all where nobody traces."""

    kind = "INTERNAL"

    def __init__(self, tracer: "Tracer | None", name: str, attributes: Mapping[str, "AttributeValue | None"]) -> None:
        self._tracer = tracer
        self._name = name
        self._attributes = attributes
        self._span: OtelSpan | None = None
        self._token: Token[Context] | None = None
        self._home: Token[Span | None] | None = None
        self._settled = False
        """True once it is told how the work ended."""

    def __enter__(self) -> Self:
        if self._tracer is None:
            return self
        try:
            from opentelemetry import context, trace  # noqa: PLC0415 - whoever made the tracer has paid for it

            known = {key: value for key, value in self._attributes.items() if value is not None}
            self._span = self._tracer.start_span(self._name, kind=trace.SpanKind[self.kind], attributes=known)
            self._token = context.attach(trace.set_span_in_context(self._span))
            self._home = _open.set(self)
        except Exception:  # noqa: BLE001 - processors and samplers are foreign code
            _log.debug("a span could not be begun", exc_info=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if error is not None and not self._settled:
            self.failed(type(error).__name__)
        span, self._span = self._span, None
        if span is None:
            return
        try:
            if self._token is not None and self._is_at_home():
                from opentelemetry import context  # noqa: PLC0415 - as above

                context.detach(self._token)
            span.end()
        except Exception:  # noqa: BLE001 - as above
            _log.debug("a span could not be ended", exc_info=True)

    def _is_at_home(self) -> bool:
        """Leave the context that it was opened in; False in another one, which OpenTelemetry would complain of."""
        try:
            if self._home is not None:
                _open.reset(self._home)
        except ValueError:
            return False
        return True

    def set(self, attributes: Mapping[str, "AttributeValue | None"]) -> None:
        """Add attributes; those that are None are left out."""
        if self._span is None:
            return
        try:
            self._span.set_attributes({key: value for key, value in attributes.items() if value is not None})
        except Exception:  # noqa: BLE001 - as above
            _log.debug("a span could not be told", exc_info=True)

    def failed(self, kind: str, words: str | None = None) -> None:
        """Mark what the span stands for as failed.

        kind: one of few words.
        words: in one line; nothing of what was said.
        """
        self._settled = True
        if self._span is None:
            return
        self.set({"error.type": kind})
        try:
            from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - as above

            self._span.set_status(Status(StatusCode.ERROR, words))
        except Exception:  # noqa: BLE001 - as above
            _log.debug("the status of a span could not be set", exc_info=True)
