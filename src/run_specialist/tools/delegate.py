"""The tool `delegate`: a specialist asks another one, which is one call for it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from run_specialist.errors import UsageError
from run_specialist.outcome import Outcome
from run_specialist.tools.base import Output, Tool
from run_specialist.tools.context import Context

NAME = "delegate"


@dataclass(frozen=True, slots=True)
class Described:
    """A specialist as one is told of it who may ask it."""

    name: str
    description: str


RunChild = Callable[[str, str, Context], Awaitable[Outcome]]
"""Puts a question to a specialist for the call of a run; raises UsageError where that cannot be done."""


def delegate_tool(specialists: Sequence[Described], run_child: RunChild) -> Tool:
    """Return the tool with which a run asks these specialists.

    specialists: at least one.
    """
    names = tuple(one.name for one in specialists)

    async def delegate(
        specialist: Annotated[Literal[names], Field(description="Which specialist to ask.")],  # type: ignore[valid-type] # known at run time
        query: Annotated[str, Field(description="The question; it knows nothing else of your work.")],
        context: Context,
    ) -> Output:
        try:
            outcome = await run_child(specialist, query, context)
        except UsageError as error:
            return Output(f"{specialist} could not be asked: {error}", is_error=True)
        return Output(told(outcome), is_error=not outcome.answer or outcome.status == "failed")

    return Tool(NAME, description(specialists), delegate, timeout=float("inf"), runs_child=True)


def description(specialists: Sequence[Described]) -> str:
    """Return what a model reads of the tool."""
    listed = "\n".join(f"- {one.name}: {' '.join(one.description.split())}" for one in specialists)
    return (
        "Ask a specialist, who works on the question alone and gives back an answer with evidence. Put everything that "
        f"it needs to know into the query.\n{listed}"
    )


def told(outcome: Outcome) -> str:
    """Return an outcome as the model reads it that asked: the answer, its status, evidence, gaps and calls used."""
    calls = outcome.tool_calls
    of = "" if calls.limit is None else f" of {calls.limit}"
    parts = [f"[{outcome.specialist}: {outcome.status} after {calls.used}{of} tool calls]", outcome.answer]
    if outcome.error:
        parts.append(f"[{outcome.error}]")
    if outcome.evidence:
        quotes = (f"- {one.source}: {one.quote}{'' if one.verified else ' (not verified)'}" for one in outcome.evidence)
        parts.append("\n".join(["Evidence:", *quotes]))
    if outcome.gaps:
        parts.append("\n".join(["Gaps:", *(f"- {gap}" for gap in outcome.gaps)]))
    return "\n\n".join(part for part in parts if part)
