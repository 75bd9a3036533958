"""The `respond` tool: how a specialist hands its answer to its parent."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from pydantic import BaseModel, Field

from run_specialist.errors import ToolError
from run_specialist.record.messages import ToolCall
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.tools.base import Tool

NAME = "respond"
MOST_EVIDENCE = 20

_DESCRIPTION = "Ends your work: call it as soon as you know enough."
_SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "description": "The whole answer."},
        "evidence": {
            "type": "array",
            "description": "Verbatim quotes, with `path:line`.",
            "maxItems": MOST_EVIDENCE,
            "items": {
                "type": "object",
                "properties": {"source": {"type": "string"}, "quote": {"type": "string"}},
            },
        },
        "gaps": {"type": "array", "items": {"type": "string"}, "description": "Not found."},
    },
    "required": ["answer"],
}
"""Written by hand, because each word of it is paid for in every request."""
_STRUCTURED = "The whole answer. It must match this schema: give it as it is, not as JSON in a string."
_STRUCTURED_IN_WORDS = "The whole answer, as it is and not as JSON in a string. It must match this JSON Schema: "

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
# A bracket in a sentence is more often a note than a list.
_OPENING = re.compile(r"\{|^[ \t]*\[", re.MULTILINE)
_MOST_OPENINGS = 100


class Evidence(BaseModel):
    """A quote and where it stands."""

    source: str = ""
    """As `path:line`."""
    quote: str = ""
    """As it stands there."""

    @classmethod
    def parse(cls, value: object) -> Self | None:
        """Read one piece of evidence however a model may have written it; None when it says nothing."""
        if isinstance(value, Mapping):
            source, quote = (_text(value.get(key)) for key in ("source", "quote"))
        else:
            source, quote = "", _text(value)
        return cls(source=source, quote=quote) if source or quote else None


class Response(BaseModel):
    """The arguments of a `respond` call."""

    answer: str = ""
    """Empty when the model gave none."""
    evidence: list[Evidence] = []
    """At most 20."""
    gaps: list[str] = []
    """What was not found."""
    output: Any = Field(default=None, exclude=True)
    """The answer as JSON where it matches the schema that was asked for; `answer` is then its text."""
    reason: str | None = Field(default=None, exclude=True)
    """Why the answer does not match the schema that was asked for; None where it does or where there is none."""

    @classmethod
    def among(cls, calls: Iterable[ToolCall], schema: AnswerSchema | None = None) -> Self | None:
        """Return what `respond` was given; None when it was not called.

        Of several the first that matches the schema, else the first that says something.
        """
        given = (cls.parse(call.arguments, schema) for call in calls if call.name == NAME)
        return min(given, key=lambda one: (one.reason is not None, not one.answer.strip()), default=None)

    @classmethod
    def of_text(cls, text: str, schema: AnswerSchema | None = None) -> Self:
        """Read an answer that was given without `respond`; JSON in it may match the schema."""
        said = cls(answer=text)
        if schema is None:
            return said
        readings = list(_readings(text))
        # Some write the call of `respond` as text.
        calls = (cls.parse(one, schema) for one in readings if isinstance(one, dict) and "answer" in one)
        said = said._fitted(readings, schema)
        return next((call for call in calls if call.reason is None), said) if said.reason else said

    @classmethod
    def parse(cls, arguments: Mapping[str, Any] | None, schema: AnswerSchema | None = None) -> Self:
        """Read the arguments of a call as far as they make sense; never raises."""
        given = arguments or {}
        answer = given.get("answer")
        evidence = [Evidence.parse(item) for item in _items(given.get("evidence"))]
        said = cls(
            answer=answer if isinstance(answer, str) else _text(answer),
            evidence=[item for item in evidence if item][:MOST_EVIDENCE],
            gaps=[text for item in _items(given.get("gaps")) if (text := _text(item))],
        )
        return said if schema is None else said._fitted(_candidates(given), schema)

    def _fitted(self, candidates: Iterable[object], schema: AnswerSchema) -> Self:
        """Return the response with the first candidate that matches as its output, else with a reason."""
        reasons = []
        for value in candidates:
            reason = schema.reason(value)
            if reason is None:
                answer = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
                return self.model_copy(update={"answer": answer, "output": value})
            reasons.append(reason)
        return self.model_copy(update={"reason": reasons[0] if reasons else "there is no answer"})


def _candidates(arguments: Mapping[str, Any]) -> Iterator[object]:
    """Yield what of a call's arguments may be the answer, the likeliest first."""
    for key in ("answer", "output"):
        if key in arguments:
            value = arguments[key]
            yield from _readings(value) if isinstance(value, str) else (value,)
    # A model that forgets to wrap its answer gives the fields of it in place of `answer`.
    fields = {key: value for key, value in arguments.items() if key not in {"evidence", "gaps"}}
    if fields.keys() - {"answer", "output"}:
        yield fields


def _readings(text: str) -> Iterator[object]:
    """Yield what a text may mean, the likeliest first: the JSON that it is or has in a fence, itself, JSON inside."""
    if not text.strip():
        return
    whole = list(_decoded(text))
    fenced = [value for match in _FENCED.finditer(text) for value in _decoded(match[1])]
    yield from (value for value in (*whole, *fenced) if isinstance(value, dict | list))
    yield text
    yield from whole
    position = 0
    for _ in range(_MOST_OPENINGS):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        position = opening.end()
        try:
            value, position = json.JSONDecoder().raw_decode(text, position - 1)
        except (ValueError, RecursionError):
            continue
        yield value


def _decoded(text: str) -> Iterator[object]:
    with suppress(ValueError, RecursionError):
        yield json.loads(text)


def _items(value: object) -> list[object]:
    """Return a list that may have come as JSON in a string, or as its only item."""
    if isinstance(value, str):
        decoded = next(_decoded(value), None)
        value = decoded if isinstance(decoded, list | dict) else value
    if value is None or value == "":
        return []
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return ""


def respond_tool(schema: AnswerSchema | None = None) -> Tool:
    """Make the tool; the loop takes its arguments as the end of the run and never calls its function.

    schema: what `answer` must match; without one it is text.
    """
    if schema is None:
        return _PLAIN
    properties = {**_PLAIN.input_schema["properties"], "answer": _answer_parameter(schema)}
    return replace(_PLAIN, schema={**_PLAIN.input_schema, "properties": properties})


def _answer_parameter(schema: AnswerSchema) -> dict[str, Any]:
    parameter = schema.embedded("/properties/answer")
    if parameter is None:  # an older dialect, of which the APIs of models would refuse some keyword
        return {"description": _STRUCTURED_IN_WORDS + json.dumps(schema.schema, ensure_ascii=False)}
    return {**parameter, "description": f"{_STRUCTURED} {parameter.get('description', '')}".rstrip()}


def _respond(**arguments: object) -> str:
    del arguments
    raise ToolError("the loop reads the arguments of `respond`; there is nothing to run")


_PLAIN = Tool(NAME, _DESCRIPTION, _respond, schema=_SCHEMA)
