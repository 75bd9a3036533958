"""Results of tool calls: an outcome as text for the model and as structured content, and error results."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import TypeAdapter

from run_specialist.budget import units
from run_specialist.budget.budget import Kind
from run_specialist.record.outcome import NO_MODEL, Outcome
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.tools.delegate_tool import outcome_text

NO_ANSWER = ("failed", "aborted")
"""With these statuses, `answer` contains only partial findings."""
_HIDDEN = ("error", "exit_code")


def outcome_result(outcome: Outcome, *, stored: bool) -> CallToolResult:
    """Return the result of a call whose run has ended.

    stored: whether the run is stored and can be resumed.
    """
    return result(text_for_model(outcome, stored=stored), outcome.as_json(), is_error=outcome.status in NO_ANSWER)


def result(text: str, structured: Mapping[str, Any], *, is_error: bool = False) -> CallToolResult:
    """Return a result with the same content as text and as structured content."""
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=dict(structured), is_error=is_error
    )


def error_result(text: str) -> CallToolResult:
    """Return an error result; the text gives the reason and the fix."""
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def output_schema(answer: AnswerSchema | None) -> dict[str, Any]:
    """Return the JSON Schema of an outcome.

    answer: the schema of a non-null `output`; None for a specialist that answers in text only.
    """
    schema = {**_outcome_schema()}
    output: dict[str, Any] = {"type": "null"}
    if answer is not None:
        embedded = answer.embedded("/$defs/Output")
        # Omit a schema that cannot be embedded; the run validates the answer in any case.
        output = {} if embedded is None else {"anyOf": [{"$ref": "#/$defs/Output"}, {"type": "null"}]}
        schema["$defs"] = schema["$defs"] | ({} if embedded is None else {"Output": dict(embedded)})
    schema["properties"] = schema["properties"] | {"output": output}
    return schema


@cache
def _outcome_schema() -> dict[str, Any]:
    full = TypeAdapter(Outcome).json_schema(mode="serialization")
    del full["$defs"]["Exit"]
    schema: dict[str, Any] = _without_titles(full)
    schema["properties"] = {key: value for key, value in schema["properties"].items() if key not in _HIDDEN}
    schema["required"] = [*schema["properties"]]
    schema["description"] = "How the run ended."
    return schema


def _without_titles(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a schema without titles, which repeat the names."""
    if isinstance(value, list):
        return [_without_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_titles(item) for key, item in value.items() if not (key == "title" and isinstance(item, str))}


def text_for_model(outcome: Outcome, *, stored: bool) -> str:
    """Return the text for the model: the outcome, and how to continue if a limit ended the run."""
    more = ""
    if outcome.landing is not None:
        kind = Kind(outcome.landing.reason)
        limit = outcome.limits[kind].limit
        reached = kind.label if limit is None else units.amount(kind, limit)
        again = "ask again with a larger one" if kind in {Kind.TOOL_CALLS, Kind.TIME} else "ask for less at a time"
        on = f", or go on from here on the command line: specialists resume {outcome.run_id}" if stored else ""
        more = f"the limit of {reached} was reached; {again}{on}"
    elif outcome.status in NO_ANSWER and stored:
        more = f"to go on from here on the command line: specialists resume {outcome.run_id}"
    parts = [outcome_text(outcome, more)]
    # The first line says already that no model judged.
    if warnings := [f"- {warning}" for warning in outcome.warnings if warning != NO_MODEL]:
        parts.append("\n".join(["Warnings:", *warnings]))
    return "\n\n".join(parts)
