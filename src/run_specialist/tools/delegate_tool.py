"""The tool `delegate`: a specialist asks another one, which is one call for it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from run_specialist.budget.budget import Kind
from run_specialist.errors import UsageError
from run_specialist.record.outcome import Evidence, Outcome
from run_specialist.tools.base import Output, Tool
from run_specialist.tools.context import ChildContext

NAME = "delegate"
SPECIALIST = "Which specialist to ask."
QUERY = "The question; it knows nothing else of your work."
NARROWER = "It was cut short. To learn more, ask for what is missing, in a narrower question."
"""How to ask for more where the same run cannot be gone on with."""


@dataclass(frozen=True, slots=True)
class AgentDescription:
    """A specialist as one is told of it who may ask it."""

    name: str
    description: str


RunChild = Callable[[str, str, ChildContext], Awaitable[Outcome]]
"""Puts a question to a specialist for the call of a run; raises UsageError where that cannot be done."""


def delegate_tool(specialists: Sequence[AgentDescription], run_child: RunChild) -> Tool:
    """Return the tool with which a run asks these specialists.

    specialists: at least one.
    """
    names = tuple(one.name for one in specialists)

    async def delegate(
        specialist: Annotated[Literal[names], Field(description=SPECIALIST)],  # type: ignore[valid-type] # known at run time
        query: Annotated[str, Field(description=QUERY)],
        context: ChildContext,
    ) -> Output:
        try:
            outcome = await run_child(specialist, query, context)
        except UsageError as error:
            why = not_asked(specialist, error)
            # What is wrong with a file, or not allowed yet, no model can mend.
            context.lender.warn(why)
            return Output(why, is_error=True)
        return Output(told(outcome), is_error=has_failed(outcome))

    return Tool(NAME, description(specialists), delegate, timeout=float("inf"), runs_child=True)


def description(specialists: Sequence[AgentDescription]) -> str:
    """Return what a model reads of the tool."""
    listed = "\n".join(f"- {one.name}: {' '.join(one.description.split())}" for one in specialists)
    return (
        "Ask a specialist, who works on the question alone and gives back an answer with evidence. Put everything that "
        f"it needs to know into the query.\n{listed}"
    )


def told(outcome: Outcome, more: str = "") -> str:
    """Return an outcome as the model reads it that asked: the answer, its status, evidence, gaps and calls used.

    more: how to ask the same run for more, where that is possible.
    """
    parts = [f"[{outcome.specialist}: {outcome.status} {_spent(outcome)}]", outcome.answer]
    if outcome.error:
        parts.append(f"[{outcome.error}]")
    if outcome.evidence:
        parts.append("\n".join(["Evidence:", *map(_quoted, outcome.evidence)]))
    if outcome.gaps:
        parts.append("\n".join(["Gaps:", *(f"- {gap}" for gap in outcome.gaps)]))
    if more or outcome.status in {"landed", "partial"}:
        parts.append(f"[{more or NARROWER}]")
    return "\n\n".join(part for part in parts if part)


def not_asked(specialist: str, why: object) -> str:
    """Return what the model reads where nobody could be asked."""
    return f"{specialist} could not be asked: {why}"


def has_failed(outcome: Outcome) -> bool:
    """Tell whether an outcome is no answer, for the model that asked.

    One that was aborted is not: what it gathered goes into the salvage of the run that asked, which passes errors over.
    """
    return not outcome.answer or outcome.status == "failed"


def _spent(outcome: Outcome) -> str:
    calls, landing = outcome.tool_calls, outcome.landing
    of = "" if calls.limit is None else f" of {calls.limit}"
    other = landing is not None and landing.reason != Kind.TOOL_CALLS
    reached = f", at its limit of {Kind(landing.reason).words}" if landing and other else ""
    return f"after {calls.used}{of} tool calls{reached}"


def _quoted(one: Evidence) -> str:
    return f"- {one.source}: {one.quote} ({'verified' if one.verified else 'not verified'})"
