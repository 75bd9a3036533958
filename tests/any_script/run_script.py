"""Run a script through the complete loop and record everything that is visible from outside."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from run_specialist import prompts
from run_specialist.budget import Budget, Kind
from run_specialist.loop.job import Executed, Job
from run_specialist.loop.run import Run
from run_specialist.loop.summarizer import Summarizer
from run_specialist.loop.tool_calls import countdown, warning
from run_specialist.providers.base import Opening
from run_specialist.record.events import Event, Finished, Replied, Summarized
from run_specialist.record.messages import Message, Usage
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.answer_schema import AnswerSchema
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.archive import Archive, get_tool_response_tool
from run_specialist.tools.base import Toolset
from run_specialist.tools.respond import respond_tool
from tests.any_script.scripted_model import ModelRequest, ScriptedModel
from tests.any_script.scripted_tools import HANDS, TOOLS, Hands
from tests.any_script.scripts import SCHEMA, Script
from tests.any_script.virtual_time import run

LOADED = AnswerSchema(SCHEMA)
RESPOND, RESPOND_BY_SCHEMA = respond_tool(), respond_tool(LOADED)


@dataclass(frozen=True, slots=True)
class AugmentedCall:
    """An executed call as the augmenters saw it, and their text."""

    executed: Executed
    turn: int
    """Number of replies received so far."""
    tokens: int
    """Tokens of all replies and summaries so far, as the events report them."""
    seconds: float
    lines: tuple[str, ...]
    """Texts of the warning and the countdown, in this order."""
    warned: bool


@dataclass(eq=False)
class ScriptedRun:
    """A finished run."""

    script: Script
    model: ScriptedModel
    events: list[Event] = field(default_factory=list)
    told: list[AugmentedCall] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """Instructions that the tools received, in the order in which the calls started."""
    outcome: Outcome | None = None
    cancelled: bool = False
    """Whether the run raised CancelledError."""
    was_cancelled: bool = False
    """Whether the task accepted a cancellation from outside."""
    transcript: tuple[Message, ...] = ()
    opening: Opening | None = None
    """The opening of the job."""
    seconds: float = 0

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests of the run, without those for summaries."""
        return self.model.requests

    @property
    def end(self) -> Outcome:
        """The outcome; if the run was cancelled, the one of its last event."""
        if self.outcome is not None:
            return self.outcome
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last.outcome

    @property
    def is_aborted(self) -> bool:
        """Whether the script aborts the run, provided that the run lasts long enough."""
        return self.script.abort_at is not None or self.script.abort_after is not None

    @property
    def is_stopped(self) -> bool:
        """Whether the run was aborted."""
        return self.end.status == "aborted"

    @property
    def is_deaf(self) -> bool:
        """Whether the listener was dropped, so that later events are missing."""
        return not (self.events and isinstance(self.events[-1], Finished))

    @property
    def has_summarizer(self) -> bool:
        """Whether the run can shorten its transcript."""
        return self.script.summarize_at is not None or self.script.archive

    def replies_before(self, asked: ModelRequest) -> int:
        """Return the number of replies received before a request."""
        return sum(isinstance(event, Replied) for event in self.events[: asked.events])

    def of(self, kind: type) -> list[Any]:
        """Return all events of one type."""
        return [event for event in self.events if isinstance(event, kind)]


def play(script: Script) -> ScriptedRun:
    """Run a script; errors that no run may raise are raised here too."""
    finite = sum(int(script.limits.get(kind) or 0) for kind in (Kind.TOOL_CALLS, Kind.TURNS))
    model = ScriptedModel(
        script.lines,
        script.afterwards,
        script.summaries,
        most=len(script.lines) + finite + 12,
        refuses_force=script.refuses_force,
        price=1e-5 if script.priced else None,
        forced_choice=script.forced_choice,
        schema=script.takes_schema,
        schema_first=script.schema_first,
        refuses_schema=script.refuses_schema,
    )
    played = ScriptedRun(script, model)
    model.events = played.events
    run(_played(played))
    return played


async def _played(played: ScriptedRun) -> None:
    script, loop = played.script, asyncio.get_running_loop()
    job = _job(played)
    played.opening = job.opening
    HANDS.set(Hands(played.model.clock, played.done))
    task: asyncio.Task[Outcome] | None = None

    def listen(event: Event) -> None:
        at = len(played.events)
        played.events.append(event)
        if at == script.abort_at:
            running.abort()
        if at == script.cancel_at:
            loop.call_soon(cancel)
        # If a run is cancelled, only the events contain the outcome.
        if script.deaf_at is not None and at >= script.deaf_at and script.cancel_at is None:
            raise KeyError("deaf")

    def cancel() -> None:
        played.was_cancelled = task is not None and task.cancel()

    running = Run(job, listen, clock=played.model.clock)
    task = asyncio.create_task(running.outcome())
    if script.abort_after is not None:
        loop.call_later(script.abort_after, running.abort)
    begun = played.model.clock()
    try:
        played.outcome = await task
    except asyncio.CancelledError:
        played.cancelled = True
    told = len(played.events)
    played.seconds = played.model.clock() - begun
    await asyncio.sleep(100_000)
    assert len(played.events) == told, "something was told after the end"
    assert len(asyncio.all_tasks()) == 1, "something is still at work"
    played.transcript = running.transcript


def _job(played: ScriptedRun) -> Job:
    script, model = played.script, played.model
    budget = Budget.of(script.limits, script.countdown_from)
    archive = Archive()
    tools = list(TOOLS)
    if script.archive or script.summarize_at is not None:
        tools.append(get_tool_response_tool(archive, script.result_limit))
    tools.append(RESPOND_BY_SCHEMA if script.schema else RESPOND)
    summarizer = Summarizer(model, archive, script.summarize_at, script.context_target, script.summary_limit)
    settings = Specialist(
        name="scripted",
        description="",
        prompt="You look things up.",
        landing=script.landing,
        evidence=script.evidence,
        summarize_at=script.summarize_at,
        countdown={"style": "json"} if script.limit_fields else {},
        parallel_tools_limit=script.parallel,
        tool_timeout=script.timeout,
        tool_result_limit=script.result_limit,
    )
    return Job(
        run_id="run-1",
        settings=settings,
        question="What is known?",
        opening=Opening(prompts.system("You look things up.", budget, budget_notice=True), Toolset(tools)),
        provider=model,
        budget=budget,
        answer_schema=LOADED if script.schema else None,
        archive=archive if script.archive else None,
        summarizer=summarizer if played.has_summarizer else None,
        augmenters=(_spy(played), _breaks, *([_fields] if script.fields else [])),
    )


def _spy(played: ScriptedRun) -> Any:
    """Return an augmenter that adds the usual warning and countdown, and records what it receives."""
    script = played.script
    warn = None if script.warn_at is None else warning(script.warn_at)
    count = None if script.countdown_from is None else countdown(script.style)

    def look(executed: Executed) -> str | None:
        warned = warn(executed) if warn else None
        counted = count(executed) if count else None
        usages: Sequence[Usage] = [event.usage for event in played.events if isinstance(event, Replied | Summarized)]
        played.told.append(
            AugmentedCall(
                executed,
                len(played.of(Replied)),
                sum(usage.total_tokens for usage in usages),
                played.model.clock(),
                tuple(one for one in (warned, counted) if one),
                warned=warned is not None,
            )
        )
        return "\n".join(one for one in (warned, counted) if one) or None

    return look


def _breaks(executed: Executed) -> str | None:
    if executed.text == "one note" and executed.repeated:
        raise LookupError("a foreign augmenter")
    return None


def _fields(executed: Executed) -> Mapping[str, Any]:
    return {"extra": executed.number}
