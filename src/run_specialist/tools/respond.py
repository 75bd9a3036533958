"""The `respond` tool, with which a specialist returns its answer to its parent."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Self

from pydantic import BaseModel, Field

from run_specialist.errors import ToolError
from run_specialist.record.messages import ToolCall
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.specialist.tool_names import RESPOND
from run_specialist.tools.base import Tool

MOST_EVIDENCE = 20

# Written by hand to be short, because every request includes it.
_SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {
            "type": "string",
            "description": "The whole answer. End each sentence with the number of the evidence it rests on: [1].",
        },
        "evidence": {
            "type": "array",
            "description": (
                "Lines that results showed: `source` is `path:line` or `path:first-last`, or `r3:12` for line 12 of "
                "result r3. `quote` only for other texts, verbatim."
            ),
            "maxItems": MOST_EVIDENCE,
            "items": {"type": "object", "properties": {"source": {"type": "string"}, "quote": {"type": "string"}}},
        },
        "gaps": {"type": "array", "items": {"type": "string"}, "description": "Not found."},
        "question": {"type": "string", "description": "Only if you cannot go on without the asker's reply to it."},
    },
    "required": ["answer"],
}
_STRUCTURED = "The whole answer. It must match this schema: give it as it is, not as JSON in a string."
_STRUCTURED_AS_TEXT = "The whole answer, as it is and not as JSON in a string. It must match this JSON Schema: "

PLACE = re.compile(r"[\[`]*(\S+?):(\d{1,9})(?: ?[-–] ?(\d{1,9}))?[\]`]*")
"""A reference to lines: path or name of a result, first line, and last line if there are several."""
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
# Within a sentence, a square bracket is more often a remark than a JSON array.
_JSON_START = re.compile(r"\{|^[ \t]*\[", re.MULTILINE)


class Citation(BaseModel):
    """A quote and its source."""

    source: str = ""
    """Source as `path:line` or `path:first-last`."""
    quote: str = ""
    """Verbatim quote; empty if the source names lines that a result showed."""

    @classmethod
    def parse(cls, value: object) -> Self | None:
        """Parse one piece of evidence, whatever its form; return None if it is empty."""
        if isinstance(value, Mapping):
            source, quote = (_as_text(value.get(key)) for key in ("source", "quote"))
        else:
            text = _as_text(value)
            source, quote = (text, "") if PLACE.fullmatch(text) else ("", text)
        return cls(source=source, quote=quote) if source or quote else None


class Response(BaseModel):
    """Parsed arguments of a `respond` call."""

    answer: str = ""
    """Answer; empty if the model gave none."""
    evidence: list[Citation] = []
    """At most 20 pieces of evidence."""
    gaps: list[str] = []
    """Open points that were not found."""
    question: str | None = None
    """What the specialist must know to go on; None if it needs nothing."""
    output: Any = Field(default=None, exclude=True)
    """Answer as a JSON value if it matches the requested schema; `answer` is then its text."""
    reason: str | None = Field(default=None, exclude=True)
    """Reason why the answer does not match the requested schema; None if it matches or there is no schema."""

    @classmethod
    def among(cls, calls: Iterable[ToolCall], schema: AnswerSchema | None = None) -> Self | None:
        """Return the response among some calls; None if `respond` was not called.

        Of several, the first that matches the schema wins, else the first that is not empty.
        """
        responses = (cls.parse(call.arguments, schema) for call in calls if call.name == RESPOND)
        return min(responses, key=lambda one: (one.reason is not None, not one.answer.strip()), default=None)

    @classmethod
    def of_text(cls, text: str, schema: AnswerSchema | None = None) -> Self:
        """Parse an answer given as plain text; JSON in it may match the schema."""
        response = cls(answer=text)
        if schema is None:
            return response
        interpretations = list(_interpretations(text))
        # Some models write the `respond` call as text.
        calls = (cls.parse(one, schema) for one in interpretations if isinstance(one, dict) and "answer" in one)
        response = response._matched(interpretations, schema)
        return next((call for call in calls if call.reason is None), response) if response.reason else response

    @classmethod
    def parse(cls, arguments: Mapping[str, Any] | None, schema: AnswerSchema | None = None) -> Self:
        """Parse the arguments of a call leniently; never raises."""
        given = arguments or {}
        answer = given.get("answer")
        evidence = [Citation.parse(item) for item in _as_list(given.get("evidence"))]
        question = _as_text(given.get("question")) if schema is None else ""
        text = answer if isinstance(answer, str) else _as_text(answer)
        response = cls(
            # Some models only ask.
            answer=text if text.strip() else question or text,
            evidence=[item for item in evidence if item][:MOST_EVIDENCE],
            gaps=[text for item in _as_list(given.get("gaps")) if (text := _as_text(item))],
            question=question or None,
        )
        return response if schema is None else response._matched(_candidates(given), schema)

    def _matched(self, candidates: Iterable[object], schema: AnswerSchema) -> Self:
        """Return a copy with the first matching candidate as its output, else with a reason."""
        reasons = []
        for value in candidates:
            reason = schema.reason(value)
            if reason is None:
                answer = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
                return self.model_copy(update={"answer": answer, "output": value})
            reasons.append(reason)
        return self.model_copy(update={"reason": reasons[0] if reasons else "there is no answer"})


def _candidates(arguments: Mapping[str, Any]) -> Iterator[object]:
    """Yield the parts of a call's arguments that may be the answer, likeliest first."""
    for key in ("answer", "output"):
        if key in arguments:
            value = arguments[key]
            yield from _interpretations(value) if isinstance(value, str) else (value,)
    # A model that forgets to wrap its answer passes the fields at the top level, without `answer`.
    fields = {key: value for key, value in arguments.items() if key not in {"evidence", "gaps"}}
    if fields.keys() - {"answer", "output"}:
        yield fields


def _interpretations(text: str) -> Iterator[object]:
    """Yield the possible values of a text, likeliest first: JSON, fenced JSON, the text itself, embedded JSON."""
    if not text.strip():
        return
    whole = list(_decoded(text))
    fenced = [value for match in _FENCED.finditer(text) for value in _decoded(match[1])]
    yield from (value for value in (*whole, *fenced) if isinstance(value, dict | list))
    yield text
    yield from whole
    end = 0
    # Those within a value that was decoded are passed over.
    starts = (start for start in _JSON_START.finditer(text) if start.start() >= end)
    for start in islice(starts, 100):
        with suppress(ValueError, RecursionError):
            value, end = json.JSONDecoder().raw_decode(text, start.end() - 1)
            yield value


def _decoded(text: str) -> Iterator[object]:
    with suppress(ValueError, RecursionError):
        yield json.loads(text)


def _as_list(value: object) -> list[object]:
    """Return a list, also from JSON in a string or from a single item."""
    if isinstance(value, str):
        decoded = next(_decoded(value), None)
        value = decoded if isinstance(decoded, list | dict) else value
    if value is None or value == "":
        return []
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    with suppress(ValueError, RecursionError):
        return json.dumps(value, ensure_ascii=False, default=str)
    return ""


def without_question(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input schema of `respond` without `question`, which constrained decoding would make models invent."""
    return {**schema, "properties": {key: one for key, one in schema["properties"].items() if key != "question"}}


def respond_tool(schema: AnswerSchema | None = None, *, may_ask: bool = False) -> Tool:
    """Return the tool; the loop ends the run with its arguments and never calls its function.

    schema: JSON Schema that `answer` must match; None for text.
    may_ask: whether it can end with a question to the asker, for an answer in text.
    """
    if schema is None:
        return _PLAIN if may_ask else _WITHOUT_QUESTION
    answer = schema.embedded("/properties/answer")
    if answer is None:  # an older dialect, some of whose keywords model APIs reject
        answer = {"description": _STRUCTURED_AS_TEXT + json.dumps(schema.schema, ensure_ascii=False)}
    else:
        answer = {**answer, "description": f"{_STRUCTURED} {answer.get('description', '')}".rstrip()}
    properties = {**_WITHOUT_QUESTION.input_schema["properties"], "answer": answer}
    return replace(_PLAIN, schema={**_PLAIN.input_schema, "properties": properties})


def _respond(**_: object) -> str:
    raise ToolError("the loop reads the arguments of `respond`; there is nothing to run")


_PLAIN = Tool(RESPOND, "Ends your work: call it as soon as you know enough.", _respond, schema=_SCHEMA)
_WITHOUT_QUESTION = replace(_PLAIN, schema=without_question(_SCHEMA))
