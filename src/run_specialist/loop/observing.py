"""Pass events to listeners and to OpenTelemetry spans; their failures cannot harm a run.

Without a tracer provider nothing is imported and no span is started; errors in a span never reach the run.
docs/python.md lists the attributes of each span.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Self

from run_specialist.providers.base import Delta, Provider, Watch
from run_specialist.record.events import Event, FileChanged, Listener, Warned
from run_specialist.record.journal import EventLogged, Journal, Record
from run_specialist.record.messages import Reply, Stop, ToolCall, Usage
from run_specialist.record.outcome import FileChange, Outcome
from run_specialist.safety.redact import redact

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue


# An OpenTelemetry span whose failures cannot harm the traced work, and the tracer that starts it.
#
# OpenTelemetry is imported only if the program has imported it, or if the environment names a tracer provider.

SCOPE = "run_specialist"
PROVIDER_VARIABLE = "OTEL_PYTHON_TRACER_PROVIDER"
"""Environment variable that enables spans in a program that does not import OpenTelemetry."""

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


CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Environment variable that includes the content of messages and tool calls in the spans."""
CONTENT_ENABLED = {"true", "span_only", "span_and_event"}
"""Values of this variable that enable it."""


class AgentSpan(Span):
    """The span of a run, from its start or resumption to its outcome."""

    def __init__(self, tracer: "Tracer | None", name: str, attributes: Mapping[str, "AttributeValue | None"]) -> None:
        super().__init__(tracer, name, attributes)
        self.tracer = tracer
        """Starts the spans of the run; None without tracing."""
        self.shared = {key: attributes.get(key) for key in ("gen_ai.provider.name", "gen_ai.conversation.id")}
        """Attributes repeated in the spans of its requests."""
        self.with_content = tracer is not None and _with_content()
        self._usage = Usage()
        self._outer_token: Token[AgentSpan | None] | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        self._outer_token = _current_agent.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if self._outer_token is not None:
            # The garbage collector closes an abandoned run in another context.
            with suppress(ValueError):
                _current_agent.reset(self._outer_token)
        self.set(_of_usage(self._usage))
        super().__exit__(kind, error, trace)

    def spent(self, usage: Usage) -> None:
        """Add the usage of one request of this run; the spans of children report their own."""
        self._usage += usage

    def ended(self, outcome: Outcome) -> None:
        """Record the outcome; an aborted run is not an error."""
        self._has_status = True
        if self.tracer is None:
            return
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


class ChatSpan(Span):
    """The span of one request to a model."""

    kind = "CLIENT"

    def __init__(self, agent: AgentSpan, provider: Provider, max_tokens: int) -> None:
        model = _model(provider)
        # The vendor may be another one than at the beginning of the run.
        shared = {**agent.shared, "gen_ai.provider.name": provider.capabilities.vendor}
        attributes = {"gen_ai.request.model": model, "gen_ai.request.max_tokens": max_tokens, **shared}
        super().__init__(agent.tracer, f"chat {model}", {"gen_ai.operation.name": "chat", **attributes})
        self._agent = agent

    def replied(self, reply: Reply, usage: Usage) -> None:
        """Record the reply.

        usage: charged to the run, estimated if the server reports none.
        """
        self._agent.spent(usage)
        response_model = {"gen_ai.response.model": reply.model or None}
        self._agent.set(response_model)
        # The reason of a refusal may be text of the model.
        reason = reply.stop.value if reply.stop is Stop.REFUSED else reply.reason or reply.stop.value
        self.set({**response_model, "gen_ai.response.finish_reasons": [reason], **_of_usage(usage)})


class ToolSpan(Span):
    """The span of one executed tool call."""

    def __init__(self, agent: AgentSpan, call: ToolCall) -> None:
        self._with_content = agent.with_content
        arguments = json.dumps(call.arguments, ensure_ascii=False, default=str) if self._with_content else ""
        super().__init__(
            agent.tracer,
            f"execute_tool {call.name}",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.name,
                "gen_ai.tool.call.id": call.id,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.arguments": redact(arguments) or None,
            },
        )

    def returned(self, text: str, error: BaseException | None, *, is_error: bool) -> None:
        """Record the result of the call.

        text: the result that the model reads, redacted.
        error: the exception that the tool raised, if any.
        """
        if self._with_content:
            self.set({"gen_ai.tool.call.result": text})
        if is_error:
            self.failed("tool_error" if error is None else type(error).__name__)


class NoSpan:
    """Replaces a span when tracing is disabled."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def replied(self, reply: Reply, usage: Usage) -> None:
        """Do nothing."""

    def returned(self, text: str, error: BaseException | None, *, is_error: bool) -> None:
        """Do nothing."""

    def failed(self, kind: str) -> None:
        """Do nothing."""


_NO_SPAN = NoSpan()
_current_agent: ContextVar[AgentSpan | None] = ContextVar("run_specialist_agent_span", default=None)


def invoke_agent(  # noqa: PLR0913 - the attributes that identify a run
    name: str, run_id: str, provider: Provider, question: str, *, parent_id: str | None, resumed: bool
) -> AgentSpan:
    """Return the span of a run; the spans of its requests and tool calls become its children.

    parent_id: run whose tool call started this run.
    """
    tracer = find_tracer()
    if tracer is None:
        return AgentSpan(None, "", {})
    return AgentSpan(
        tracer,
        f"invoke_agent {name}",
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": provider.capabilities.vendor,
            "gen_ai.agent.name": name,
            "gen_ai.conversation.id": run_id,
            "gen_ai.request.model": _model(provider),
            "gen_ai.input.messages": _message("user", question) if _with_content() else None,
            "run_specialist.parent_run_id": parent_id,
            "run_specialist.resumed": resumed or None,
        },
    )


def chat(provider: Provider, max_tokens: int) -> ChatSpan | NoSpan:
    """Return the span of a request of the current run."""
    agent = _current_agent.get()
    return _NO_SPAN if agent is None or agent.tracer is None else ChatSpan(agent, provider, max_tokens)


def execute_tool(call: ToolCall) -> ToolSpan | NoSpan:
    """Return the span of a tool call of the current run."""
    agent = _current_agent.get()
    return _NO_SPAN if agent is None or agent.tracer is None else ToolSpan(agent, call)


def _with_content() -> bool:
    return os.environ.get(CONTENT, "").strip().lower() in CONTENT_ENABLED


def _model(provider: Provider) -> str:
    return provider.model.removeprefix(f"{provider.capabilities.vendor}:")


def _message(role: str, text: str) -> str:
    message: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": redact(text)}]}
    if role == "assistant":
        message["finish_reason"] = "stop"
    return json.dumps([message], ensure_ascii=False)


def _of_usage(usage: Usage) -> dict[str, "AttributeValue | None"]:
    """Return usage as attributes; by the conventions, the input includes tokens read from and written to a cache."""
    return {
        "gen_ai.usage.input_tokens": usage.total_tokens - usage.output_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_input_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_creation_input_tokens,
    }


_log = logging.getLogger(__name__)


class Observers:
    """Notifies listeners and writes the journal. A listener that raises is dropped; errors of a watcher are ignored."""

    def __init__(  # noqa: PLR0913, PLR0917 - who observes, and what was before the run was resumed
        self,
        listener: Listener | None,
        watch: Watch | None,
        journal: Journal | None,
        warnings: Sequence[str] = (),
        hide: Callable[[str], str] = redact,
        changes: Sequence[FileChange] = (),
    ) -> None:
        self._listeners = [] if listener is None else [listener]
        self._watch = watch
        self._hide = hide
        self.journal = journal
        """Records every event; None if the run is not stored."""
        self.warnings = [*warnings]
        """The text of every warning so far."""
        self.changes = [*changes]
        """What the tools of the run have done to files so far, oldest first."""

    def notify(self, event: Event) -> None:
        """Record an event and notify the listeners; secrets are masked in a warning, which may quote foreign code."""
        if isinstance(event, Warned):
            event = Warned(self._hide(event.text))
        if self.journal is not None:
            self.journal.write(EventLogged(event))
        if isinstance(event, Warned):
            self.warnings.append(event.text)
        if isinstance(event, FileChanged) and not event.dry_run:
            self.changes.append(event.of_file)
        if self._listeners:
            self.pass_on(event)

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

    @property
    def is_watching(self) -> bool:
        """True if a watcher wants the pieces of replies, so that requests are streamed."""
        return self._watch is not None

    def show(self, delta: Delta) -> None:
        """Pass a piece of a streamed reply to the watcher."""
        try:
            if self._watch:
                self._watch(delta)
        except Exception:  # noqa: BLE001 - foreign code
            _log.debug("the watcher failed", exc_info=True)
