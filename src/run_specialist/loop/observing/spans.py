"""An OpenTelemetry span whose failures cannot harm the traced work, and the tracer that starts it.

OpenTelemetry is imported only if the program has imported it, or if the environment names a tracer provider.
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
PROVIDER_VARIABLE = "OTEL_PYTHON_TRACER_PROVIDER"
"""Environment variable that enables spans in a program that does not import OpenTelemetry."""

_log = logging.getLogger(__name__)
_current: ContextVar["Span | None"] = ContextVar("run_specialist_span", default=None)


def find_tracer() -> "Tracer | None":
    """Return the tracer; None unless the program or the environment has set up a tracer provider."""
    if "opentelemetry.trace" not in sys.modules and not os.environ.get(PROVIDER_VARIABLE):
        return None
    try:
        from opentelemetry import trace  # noqa: PLC0415 - see the module's docstring

        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            return None
        from run_specialist.version import release  # noqa: PLC0415 - only needed when tracing

        tracer = provider.get_tracer(SCOPE, release())
    except Exception:  # noqa: BLE001 - a provider is foreign code
        _log.debug("there is no tracer", exc_info=True)
        return None
    # The tracer of a provider that does nothing, or is disabled.
    return None if isinstance(tracer, trace.NoOpTracer) else tracer


class Span:
    """A span as a context manager, current inside its block; does nothing without a tracer."""

    kind = "INTERNAL"

    def __init__(self, tracer: "Tracer | None", name: str, attributes: Mapping[str, "AttributeValue | None"]) -> None:
        self._tracer = tracer
        self._name = name
        self._attributes = attributes
        self._span: OtelSpan | None = None
        self._token: Token[Context] | None = None
        self._variable_token: Token[Span | None] | None = None
        self._has_status = False
        """True once the result of the work is recorded."""

    def __enter__(self) -> Self:
        if self._tracer is None:
            return self
        try:
            from opentelemetry import context, trace  # noqa: PLC0415 - the tracer has already imported it

            known = {key: value for key, value in self._attributes.items() if value is not None}
            self._span = self._tracer.start_span(self._name, kind=trace.SpanKind[self.kind], attributes=known)
            self._token = context.attach(trace.set_span_in_context(self._span))
            self._variable_token = _current.set(self)
        except Exception:  # noqa: BLE001 - processors and samplers are foreign code
            _log.debug("a span could not be started", exc_info=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if error is not None and not self._has_status:
            self.failed(type(error).__name__)
        span, self._span = self._span, None
        if span is None:
            return
        try:
            if self._token is not None and self._restore_current():
                from opentelemetry import context  # noqa: PLC0415 - as above

                context.detach(self._token)
            span.end()
        except Exception:  # noqa: BLE001 - as above
            _log.debug("a span could not be ended", exc_info=True)

    def _restore_current(self) -> bool:
        """Restore the previous span; return False in another context, where OpenTelemetry would log an error."""
        try:
            if self._variable_token is not None:
                _current.reset(self._variable_token)
        except ValueError:
            return False
        return True

    def set(self, attributes: Mapping[str, "AttributeValue | None"]) -> None:
        """Set attributes; those that are None are omitted."""
        if self._span is None:
            return
        try:
            self._span.set_attributes({key: value for key, value in attributes.items() if value is not None})
        except Exception:  # noqa: BLE001 - as above
            _log.debug("the attributes of a span could not be set", exc_info=True)

    def failed(self, kind: str, description: str | None = None) -> None:
        """Mark the span as failed.

        kind: the `error.type`, of low cardinality.
        description: one line without content of the conversation.
        """
        self._has_status = True
        if self._span is None:
            return
        self.set({"error.type": kind})
        try:
            from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - as above

            self._span.set_status(Status(StatusCode.ERROR, description))
        except Exception:  # noqa: BLE001 - as above
            _log.debug("the status of a span could not be set", exc_info=True)
