"""Build the spans of a stored run, its requests and its calls, in the OpenTelemetry form that pydantic-evals reads."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pydantic_evals.otel import SpanNode, SpanTree

if TYPE_CHECKING:
    from run_specialist.store.run_steps import CallStep, RequestStep, RunSteps

_TRACE = 1
_RUN = 1
_REQUESTS = 1_000_000
"""First span id of requests, above the number of any call."""


def span_tree(run: "RunSteps") -> SpanTree:
    """Return the spans that the run has made, with the names and attributes of docs/python.md."""
    tree = SpanTree()
    tree.add_spans([*_spans(run)])
    return tree


def _spans(run: "RunSteps") -> Iterator[SpanNode]:
    ended = run.started_at if run.ended_at is None else run.ended_at
    yield _node(
        f"invoke_agent {run.specialist}",
        _RUN,
        None,
        (run.started_at, ended),
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": run.specialist,
            "gen_ai.conversation.id": run.run_id,
            "run_specialist.status": run.status,
        },
        is_error=run.status == "failed",
    )
    for request in run.requests:
        yield _request(run, request)
    for call in run.calls:
        yield _call(call)


def _request(run: "RunSteps", request: "RequestStep") -> SpanNode:
    usage = request.usage
    return _node(
        f"chat {run.model}",
        _REQUESTS + request.number,
        _RUN,
        (request.at - request.seconds, request.at),
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": run.model,
            "gen_ai.usage.input_tokens": usage.total_tokens - usage.output_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
        },
    )


def _call(call: "CallStep") -> SpanNode:
    return _node(
        f"execute_tool {call.name}",
        _RUN + call.number,
        _RUN,
        (call.at - call.seconds, call.at),
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.call_id,
            "gen_ai.tool.call.arguments": json.dumps(call.arguments, ensure_ascii=False),
        },
        is_error=call.is_error,
    )


def _node(  # noqa: PLR0913, PLR0917 - the parts of a span
    name: str,
    number: int,
    parent: int | None,
    times: tuple[float, float],
    attributes: dict[str, str | int],
    is_error: bool = False,  # noqa: FBT001, FBT002 - as above
) -> SpanNode:
    start = datetime.fromtimestamp(times[0], UTC)
    return SpanNode(
        name=name,
        trace_id=_TRACE,
        span_id=number,
        parent_span_id=parent,
        start_timestamp=start,
        # The clock may have been set back meanwhile.
        end_timestamp=start + timedelta(seconds=max(times[1] - times[0], 0.0)),
        attributes=dict(attributes),
        status="error" if is_error else "unset",
    )
