"""OpenTelemetry spans of a run, its requests and its tool calls, named by the GenAI semantic conventions.

Without a tracer provider nothing is imported and no span is started; errors in a span never reach the run.
docs/python.md lists the attributes of each span.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Self

from run_specialist.loop.observing.spans import Span, find_tracer
from run_specialist.providers.base import Provider
from run_specialist.record.messages import Reply, Stop, ToolCall, Usage
from run_specialist.record.outcome import Outcome
from run_specialist.redaction import redact

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue

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
        self._outer_token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        if self._outer_token is not None:
            # The garbage collector closes an abandoned run in another context.
            with suppress(ValueError):
                _current.reset(self._outer_token)
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
_current: ContextVar[AgentSpan | None] = ContextVar("run_specialist_agent_span", default=None)


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
    agent = _current.get()
    return _NO_SPAN if agent is None or agent.tracer is None else ChatSpan(agent, provider, max_tokens)


def execute_tool(call: ToolCall) -> ToolSpan | NoSpan:
    """Return the span of a tool call of the current run."""
    agent = _current.get()
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
