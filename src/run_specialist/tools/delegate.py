"""The `delegate` tool, with which a specialist asks another one at the cost of one call."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from run_specialist.budget import Kind
from run_specialist.errors import UsageError
from run_specialist.prompts import listed
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.tool_names import DELEGATE
from run_specialist.tools.base import ChildContext, Output, Tool

SPECIALIST = "Which specialist to ask."
QUERY = "The question; it knows nothing else of your work."
# Hint on how to learn more if the same run cannot be resumed.
_NARROWER = "It was cut short. To learn more, ask for what is missing, in a narrower question."


# Runs a specialist on a question as part of a call; raises UsageError if it cannot be run.
_RunChild = Callable[[str, str, ChildContext], Awaitable[Outcome]]


def delegate_tool(specialists: Mapping[str, str], run_child: _RunChild) -> Tool:
    """Return the tool that lets a run ask these specialists.

    specialists: at least one, by name, with its description.
    """
    names = tuple(specialists)

    async def delegate(
        specialist: Annotated[Literal[names], Field(description=SPECIALIST)],  # type: ignore[valid-type] # known at run time
        query: Annotated[str, Field(description=QUERY)],
        context: ChildContext,
    ) -> Output:
        try:
            outcome = await run_child(specialist, query, context)
        except UsageError as error:
            why = failure_text(specialist, error)
            # A model cannot fix an invalid or untrusted file; a person can.
            context.lender.warn(why)
            return Output(why, is_error=True)
        return Output(outcome_text(outcome), is_error=has_failed(outcome))

    return Tool(DELEGATE, description(specialists), delegate, timeout=float("inf"), runs_child=True)


def description(specialists: Mapping[str, str]) -> str:
    """Return the description of the tool, given the description of each specialist by its name."""
    listed = "\n".join(f"- {name}: {' '.join(text.split())}" for name, text in specialists.items())
    return (
        "Ask a specialist, who works on the question alone and gives back an answer with evidence. Put everything that "
        f"it needs to know into the query.\n{listed}"
    )


def outcome_text(outcome: Outcome, more: str = "") -> str:
    """Return an outcome as text for the calling model: answer, status, evidence, gaps and calls used.

    more: hint on how to ask the same run for more, if that is possible.
    """
    calls, landing = outcome.tool_calls, outcome.landing
    used = f"{calls.used}{'' if calls.limit is None else f' of {calls.limit}'} tool calls"
    if landing is not None and landing.reason != Kind.TOOL_CALLS:
        used += f", at its limit of {Kind(landing.reason).label}"
    unjudged = ", offline: no model judged" if outcome.is_offline else ""
    parts = [f"[{outcome.specialist}: {outcome.status} after {used}{unjudged}]"]
    if outcome.question:
        parts.append(f"It asks: {outcome.question}" + ("" if more else "\nAsk again, with the reply in the query."))
    parts.append(outcome.answer)
    if outcome.error:
        parts.append(f"[{outcome.error}]")
    if outcome.evidence:
        quotes = ["Evidence:"]
        for one in outcome.evidence:
            checked = "" if one.verified is None else f" ({'verified' if one.verified else 'not verified'})"
            quotes.append(f"- {one.source}: {one.quote}{checked}")
        parts.append("\n".join(quotes))
    if outcome.gaps:
        parts.append("\n".join(["Gaps:", *(f"- {gap}" for gap in outcome.gaps)]))
    if more or outcome.status in {"landed", "partial"}:
        parts.append(f"[{more or _NARROWER}]")
    if not_found := [one.quote or one.source for one in outcome.evidence if one.verified is False]:
        found = len(outcome.evidence) - len(not_found)
        parts.append(
            f"[{found} of {len(outcome.evidence)} quotes found in what it read. Do not rely on: {listed(not_found)}]"
        )
    if outcome.doubtful:
        parts.append("\n".join(["Not borne out by what was read:", *(f"- {one}" for one in outcome.doubtful)]))
    return "\n\n".join(part for part in parts if part)


def failure_text(specialist: str, why: object) -> str:
    """Return the error text for the model if a specialist could not be run."""
    return f"{specialist} could not be asked: {why}"


def has_failed(outcome: Outcome) -> bool:
    """Return whether the calling model should see an outcome as an error.

    An aborted outcome with an answer is not an error: the caller's salvaged answer skips errors, but should include it.
    """
    return not outcome.answer or outcome.status == "failed"
