"""Run a script through the complete loop and record everything that is visible from outside."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from run_specialist.budget import Kind
from run_specialist.loop.job import Executed, Job
from run_specialist.loop.run import Run
from run_specialist.loop.tool_calls import countdown, warning
from run_specialist.record.events import Event, Finished, Replied, Summarized
from run_specialist.record.messages import Message, Usage
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.spawner import RunEnvironment, spawn
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from tests.any_script.scripted_model import HANDS, TOOLS, Hands, ModelRequest, ScriptedModel
from tests.any_script.scripts import SCHEMA, Script
from tests.any_script.virtual_time import run
from tests.journals import Notebook


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
    job: Job
    notebook: Notebook = field(default_factory=Notebook)
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
        return self.job.summarizer is not None

    def replies_before(self, asked: ModelRequest) -> int:
        """Return the number of replies received before a request."""
        return sum(isinstance(event, Replied) for event in self.events[: asked.events])

    def of(self, kind: type) -> list[Any]:
        """Return all events of one type."""
        return [event for event in self.events if isinstance(event, kind)]


def specialist_of(script: Script) -> Specialist:
    """Return the specialist of a script, as a file defines it, so that its run can be resumed."""
    limits: dict[str, Any] = {kind.key: script.limits.get(kind) for kind in Kind}
    for kind in (Kind.COST, Kind.TIME):
        limits[kind.key] = None if script.limits.get(kind) is None else float(script.limits[kind])
    if not script.priced:
        limits[Kind.COST.key] = None
    # The schema has no place for quotes.
    quotes = {"evidence": "check"} if script.schema else {}
    style = "json" if script.limit_fields else script.style
    return Specialist(
        name="scripted",
        description="",
        prompt="You look things up.",
        tools=(),
        countdown={"from": script.countdown_from, "style": style, "warn_at": script.warn_at},
        output_schema=SCHEMA if script.schema else None,
        **limits,
        **(script.settings | quotes),
    )


def start(script: Script, **of_model: Any) -> ScriptedRun:
    """Return a run that begins with the first line of a script."""
    model, own = model_of(script, **of_model), specialist_of(script)
    file = SpecialistFile(Path("<scripted>"), "scripted", "", specialist=own)
    return ScriptedRun(script, model, spawn(file, own, "What is known?", around(model)))


def model_of(script: Script, **others: Any) -> ScriptedModel:
    """Return the model of a script."""
    most = len(script.lines) + 60
    return ScriptedModel(script.lines, script.afterwards, script.summaries, most, **script.model, **others)


def around(model: ScriptedModel) -> RunEnvironment:
    """Return the environment of a run."""
    return RunEnvironment(Path("/"), model, tools=TOOLS)


def play(script: Script) -> ScriptedRun:
    """Run a script, with augmenters that record what they receive."""
    played = start(script)
    augmenters = (_spy(played), _breaks, *([_fields] if script.fields else []))
    played.job = replace(played.job, augmenters=augmenters)
    if not script.archive:
        played.job = replace(played.job, archive=None)
        if script.settings.get("summarize_at") is None:
            played.job = replace(played.job, summarizer=None)
    return go(played)


def go(played: ScriptedRun) -> ScriptedRun:
    """Run a job to its end; errors that no run may raise are raised here too."""
    played.model.events = played.events
    run(_played(played))
    return played


async def _played(played: ScriptedRun) -> None:
    script, loop = played.script, asyncio.get_running_loop()
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

    running = Run(played.job, listen, clock=played.model.clock, journal=played.notebook)
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
