"""The `respond` tool: how a specialist hands its answer to its parent."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field

from run_specialist.errors import ToolError
from run_specialist.messages import ToolCall
from run_specialist.tools.base import Tool

NAME = "respond"
MOST_EVIDENCE = 20

_DESCRIPTION = (
    "Deliver your answer. This is the only way to reach the one who asked: nothing else that you write is passed "
    "on, and the call ends your work. Call it as soon as you know enough, and in any case, with what you have, when "
    "you are told to finish; say in `gaps` what you could not find out."
)


class Evidence(BaseModel):
    """A quote and where it stands."""

    source: Annotated[str, Field(description="Where the quote stands, as `path:line`.")] = ""
    quote: Annotated[str, Field(description="Verbatim text from a tool result, not reworded; a sentence or two.")] = ""

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
    """What could not be found out."""

    @classmethod
    def among(cls, calls: Iterable[ToolCall]) -> Self | None:
        """Return what `respond` was given, of several the first that says something; None when it was not called."""
        given = [cls.parse(call.arguments) for call in calls if call.name == NAME]
        return next((one for one in given if one.answer.strip()), given[0] if given else None)

    @classmethod
    def parse(cls, arguments: Mapping[str, Any] | None) -> Self:
        """Read the arguments of a call as far as they make sense; never raises."""
        given = arguments or {}
        answer = given.get("answer")
        evidence = [Evidence.parse(item) for item in _items(given.get("evidence"))]
        return cls(
            answer=answer if isinstance(answer, str) else _text(answer),
            evidence=[item for item in evidence if item][:MOST_EVIDENCE],
            gaps=[text for item in _items(given.get("gaps")) if (text := _text(item))],
        )


def _items(value: object) -> list[object]:
    """Return a list that may have come as JSON in a string, or as its only item."""
    if isinstance(value, str):
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            decoded = None
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


def respond_tool() -> Tool:
    """Make the tool; the loop takes its arguments as the end of the run and never calls its function."""
    return Tool(NAME, _DESCRIPTION, _respond)


def _respond(
    answer: Annotated[
        str,
        Field(
            description="The whole answer, for someone who has seen nothing of your work; with sources as `path:line`."
        ),
    ],
    evidence: Annotated[
        tuple[Evidence, ...],
        Field(
            max_length=MOST_EVIDENCE,
            description="What the answer rests on: verbatim quotes with their `path:line`.",
        ),
    ] = (),
    gaps: Annotated[tuple[str, ...], Field(description="What was asked and could not be found out.")] = (),
) -> str:
    del answer, evidence, gaps  # they are the schema
    raise ToolError("the loop reads the arguments of `respond`; there is nothing to run")
