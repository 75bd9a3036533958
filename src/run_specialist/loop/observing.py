"""Pass events to listeners and to OpenTelemetry spans; their failures cannot harm a run.

Without a tracer provider nothing is imported and no span is started; errors in a span never reach the run.
docs/python.md lists the attributes of each span.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from run_specialist.providers.base import Delta, Provider, Watch
from run_specialist.record.events import Event, FileChanged, Listener, Warned
from run_specialist.record.journal import EventLogged, Journal, Record
from run_specialist.record.messages import Reply, Stop, ToolCall, Usage
from run_specialist.record.outcome import FileChange, Outcome
from run_specialist.safety.redact import redact

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue


# OpenTelemetry is imported only if the program has imported it, or if the environment names a tracer provider.

SCOPE = "run_specialist"
PROVIDER_VARIABLE = "OTEL_PYTHON_TRACER_PROVIDER"
"""Environment variable that enables spans in a program that does not import OpenTelemetry."""
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable that includes the content of messages and tool calls in the spans."""
# Values of this variable that enable it.
_CONTENT_ENABLED = {"true", "span_only", "span_and_event"}

_log = logging.getLogger(__name__)
_current: ContextVar["Span | None"] = ContextVar("run_specialist_span", default=None)


@contextmanager
def _harmless() -> Iterator[None]:
    """Log errors of tracers, whose processors and samplers are foreign code."""
    try:
        yield
    except Exception:  # noqa: BLE001 - as the docstring says
        _log.debug("tracing failed", exc_info=True)


def find_tracer() -> "Tracer | None":
    """Return the tracer; None unless the program or the environment has set up a tracer provider."""
    if "opentelemetry.trace" not in sys.modules and not os.environ.get(PROVIDER_VARIABLE):
        return None
    with _harmless():
        from opentelemetry import trace  # noqa: PLC0415 - see the module's docstring

        from run_specialist.version import release  # noqa: PLC0415 - only needed when tracing

        provider = trace.get_tracer_provider()
        if not isinstance(provider, trace.ProxyTracerProvider):
            tracer = provider.get_tracer(SCOPE, release())
            # The tracer of a provider that does nothing, or is disabled.
            return None if isinstance(tracer, trace.NoOpTracer) else tracer
    return None


# Attributes of a span; those that are None are omitted.
_Attributes = Mapping[str, "AttributeValue | None"]


class Span:
    """The span of a run, a request or a tool call: a context manager, in whose block it is current.

    It never raises, and does nothing without a tracer.
    """

    def __init__(
        self,
        tracer: "Tracer | None" = None,
        name: str = "",
        attributes: _Attributes = MappingProxyType({}),
        *,
        kind: str = "INTERNAL",
        agent: "Span | None" = None,
    ) -> None:
        """Prepare the span; it starts with its block.

        agent: the span of the run that it belongs to; None for the run itself.
        """
        self.tracer = tracer
        self._name, self._attributes, self._kind = name, attributes, kind
        self.agent = agent or self
        self.shared = {key: attributes.get(key) for key in ("gen_ai.provider.name", "gen_ai.conversation.id")}
        """Attributes of a run that the spans of its requests repeat."""
        self.with_content = tracer is not None and _with_content()
        self._span: OtelSpan | None = None
        self._token: Token[Context] | None = None
        self._variable_token: Token[Span | None] | None = None
        self.usage = Usage()
        """Usage of the requests of a run; the spans of children report their own."""
        # True once the result of the work is recorded.
        self._has_status = False

    def __enter__(self) -> Self:
        if self.tracer is None:
            return self
        self._variable_token = _current.set(self)
        with _harmless():
            from opentelemetry import context, trace  # noqa: PLC0415 - the tracer has already imported it

            kind = trace.SpanKind[self._kind]
            self._span = self.tracer.start_span(self._name, kind=kind, attributes=_known(self._attributes))
            self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._variable_token is None:
            return
        if error is not None and not self._has_status:
            self.failed(type(error).__name__)
        if self.agent is self:
            self.set(_of_usage(self.usage))
        try:
            _current.reset(self._variable_token)
        except ValueError:
            # The garbage collector closes an abandoned run in another context, where `detach` would log an error.
            self._token = None
        span, self._span = self._span, None
        with _harmless():
            from opentelemetry import context  # noqa: PLC0415 - as above

            if self._token is not None:
                context.detach(self._token)
            if span is not None:
                span.end()

    def set(self, attributes: _Attributes) -> None:
        """Set attributes."""
        if self._span is not None:
            with _harmless():
                self._span.set_attributes(_known(attributes))

    def failed(self, kind: str, description: str | None = None) -> None:
        """Mark the span as failed.

        kind: the `error.type`, of low cardinality.
        description: one line without content of the conversation.
        """
        if self._span is None:
            return
        self._has_status = True
        self.set({"error.type": kind})
        with _harmless():
            from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - as above

            self._span.set_status(Status(StatusCode.ERROR, description))

    def replied(self, reply: Reply, usage: Usage) -> None:
        """Record the reply to a request.

        usage: charged to the run, estimated if the server reports none.
        """
        if self.tracer is None:
            return
        self.agent.usage += usage
        response_model = {"gen_ai.response.model": reply.model or None}
        self.agent.set(response_model)
        # The reason of a refusal may be text of the model.
        reason = reply.stop.value if reply.stop is Stop.REFUSED else reply.reason or reply.stop.value
        self.set({**response_model, "gen_ai.response.finish_reasons": [reason], **_of_usage(usage)})

    def returned(self, text: str, error: BaseException | None, *, is_error: bool) -> None:
        """Record the result of a tool call.

        text: the result that the model reads, redacted.
        error: the exception that the tool raised, if any.
        """
        if self.with_content:
            self.set({"gen_ai.tool.call.result": text})
        if is_error:
            self.failed("tool_error" if error is None else type(error).__name__)

    def ended(self, outcome: Outcome) -> None:
        """Record the outcome of a run; an aborted run is not an error."""
        if self.tracer is None:
            return
        self._has_status = True
        calls, landing = outcome.tool_calls, outcome.landing
        self.set(
            {
                "run_specialist.status": outcome.status,
                "run_specialist.tool_calls.used": calls.used,
                "run_specialist.tool_calls.limit": calls.limit,
                "run_specialist.tool_calls.failed": calls.failed,
                "run_specialist.tool_calls.skipped": calls.skipped,
                "run_specialist.landing.reason": landing.reason if landing else None,
                "run_specialist.landing.how": landing.how if landing else None,
                "run_specialist.landing.requests": landing.requests if landing else None,
                "gen_ai.output.messages": _message("assistant", outcome.answer) if self.with_content else None,
            }
        )
        if outcome.status == "failed":
            self.failed(outcome.exit_code.name.lower(), redact(outcome.error or ""))


NO_SPAN = Span()
"""Replaces each span when tracing is disabled."""


def invoke_agent(  # noqa: PLR0913 - the attributes that identify a run
    name: str, run_id: str, provider: Provider, question: str, *, parent_id: str | None, resumed: bool
) -> Span:
    """Return the span of a run, from its start or resumption to its outcome.

    parent_id: run whose tool call started this run.
    """
    tracer = find_tracer()
    if tracer is None:
        return NO_SPAN
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider.capabilities.vendor,
        "gen_ai.agent.name": name,
        "gen_ai.conversation.id": run_id,
        "gen_ai.request.model": _model(provider),
        "gen_ai.input.messages": _message("user", question) if _with_content() else None,
        "run_specialist.parent_run_id": parent_id,
        "run_specialist.resumed": resumed or None,
    }
    return Span(tracer, f"invoke_agent {name}", attributes)


def chat(provider: Provider, max_tokens: int) -> Span:
    """Return the span of a request of the current run."""
    current = _current.get()
    if current is None:
        return NO_SPAN
    agent, model = current.agent, _model(provider)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": max_tokens,
        **agent.shared,
        # The vendor may be another one than at the beginning of the run.
        "gen_ai.provider.name": provider.capabilities.vendor,
    }
    return Span(agent.tracer, f"chat {model}", attributes, kind="CLIENT", agent=agent)


def execute_tool(call: ToolCall) -> Span:
    """Return the span of a tool call of the current run."""
    current = _current.get()
    if current is None:
        return NO_SPAN
    agent = current.agent
    arguments = json.dumps(call.arguments, ensure_ascii=False, default=str) if agent.with_content else ""
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": redact(arguments) or None,
    }
    return Span(agent.tracer, f"execute_tool {call.name}", attributes, agent=agent)


def _with_content() -> bool:
    return os.environ.get(CONTENT, "").strip().lower() in _CONTENT_ENABLED


def _model(provider: Provider) -> str:
    return provider.model.removeprefix(f"{provider.capabilities.vendor}:")


def _message(role: str, text: str) -> str:
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": redact(text)}]}
    if role == "assistant":
        message["finish_reason"] = "stop"
    return json.dumps([message], ensure_ascii=False)


def _known(attributes: _Attributes) -> dict[str, "AttributeValue"]:
    return {key: value for key, value in attributes.items() if value is not None}


def _of_usage(usage: Usage) -> _Attributes:
    """Return usage as attributes; by the conventions, the input includes tokens read from and written to a cache."""
    return {
        "gen_ai.usage.input_tokens": usage.total_tokens - usage.output_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_input_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_creation_input_tokens,
    }


Mask = Callable[[str], str]
"""Masks credentials in a text."""


class Observers:
    """Notifies listeners and writes the journal. A listener that raises is dropped; errors of a watcher are ignored."""

    def __init__(
        self, listener: Listener | None, watch: Watch | None, journal: Journal | None, hide: Mask = redact
    ) -> None:
        self._listeners = [] if listener is None else [listener]
        self.watch = watch
        """Wants the pieces of replies, so that requests are streamed; None = they are not."""
        self._hide = hide
        self.journal = journal
        """Records every event; None if the run is not stored."""
        self.warnings: list[str] = []
        """The text of every warning so far."""
        self.changes: list[FileChange] = []
        """What the tools of the run have done to files so far, oldest first."""

    @property
    def are_any(self) -> bool:
        """Whether anybody hears of events."""
        return bool(self._listeners) or self.journal is not None

    def notify(self, event: Event) -> None:
        """Record an event and notify the listeners; secrets are masked in a warning, which may quote foreign code."""
        if isinstance(event, Warned):
            event = Warned(self._hide(event.text))
            self.warnings.append(event.text)
        if self.journal is not None:
            self.journal.write(EventLogged(event))
        if isinstance(event, FileChanged) and not event.dry_run:
            self.changes.append(event.of_file)
        if self._listeners:
            self.pass_on(event)

    def warn(self, text: str) -> None:
        """Report a warning, unless it was reported before."""
        if text not in self.warnings:
            self.notify(Warned(text))

    def record(self, record: Record) -> None:
        """Write a record that is not an event."""
        if self.journal is not None:
            self.journal.write(record)

    def pass_on(self, event: Event) -> None:
        """Notify the listeners of an event that is recorded elsewhere."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - foreign code
                self._listeners.remove(listener)
                self.warnings.append(f"the listener failed and was dropped: {self._hide(repr(error))}")

    def add(self, listener: Listener) -> None:
        """Add a listener for the events from now on."""
        self._listeners.append(listener)

    def show(self, delta: Delta) -> None:
        """Pass a piece of a streamed reply to the watcher."""
        try:
            if self.watch:
                self.watch(delta)
        except Exception:  # noqa: BLE001 - foreign code
            _log.debug("the watcher failed", exc_info=True)
