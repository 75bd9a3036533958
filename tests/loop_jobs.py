"""Jobs and small tools shared by the tests of the loop."""

from collections.abc import Mapping, Sequence
from typing import Any

from run_specialist import prompts
from run_specialist.budget import Budget, Kind
from run_specialist.loop.job import Augmenter, Job
from run_specialist.loop.run import Run
from run_specialist.loop.tool_calls import countdown
from run_specialist.providers.base import Opening, Provider, Watch
from run_specialist.record.events import Event
from run_specialist.record.messages import CallFormat, Message
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Tool, Toolset
from run_specialist.tools.respond import respond_tool
from tests.scripted_provider import ScriptedProvider


def look(query: str = "", part: int = 0) -> str:
    """Return a note, as a search tool would."""
    return f"note on {query!r}, part {part}"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time that the test has set."""
        return self.now


LOOK = Tool("look", "Look something up.", look)
COUNT_DOWN = countdown("remaining")
"""The default countdown of a job."""


def job(
    provider: Provider,
    limit: int | None = 30,
    *,
    question: str = "What is known?",
    tools: Sequence[Tool] = (LOOK,),
    augmenters: Sequence[Augmenter] = (COUNT_DOWN,),
    limits: Mapping[Kind, float | None] | None = None,
    tool_calls: CallFormat = "native",
    **others: Any,
) -> Job:
    """Return a job with the defaults of a specialist file.

    limits: those other than the limit of tool calls.
    others: keys of the specialist, or fields of the job.
    """
    keys = {key: others.pop(key) for key in Specialist.model_fields if key in others}
    budget = Budget.of({Kind.TOOL_CALLS: limit, **(limits or {})})
    system = prompts.system("You look things up.", budget, budget_notice=True)
    return Job(
        run_id="run-1",
        settings=Specialist(name="looker", description="", prompt="You look things up.", **keys),
        question=question,
        opening=Opening(system, Toolset([*tools, respond_tool()]), tool_calls=tool_calls),
        provider=provider,
        budget=budget,
        augmenters=tuple(augmenters),
        **others,
    )


async def outcome_of(job: Job, events: list[Event] | None = None, watch: Watch | None = None) -> Outcome:
    """Run a job to its end and collect its events; a scripted provider must have used its whole script."""
    outcome = await Run(job, events.append if events is not None else None, watch).outcome()
    if isinstance(job.provider, ScriptedProvider):
        job.provider.assert_used_up()
    return outcome


def results(message: Message) -> list[str]:
    """Return the contents of the tool results in a message, in order."""
    return [block["content"] for block in message.content if block["type"] == "tool_result"]
