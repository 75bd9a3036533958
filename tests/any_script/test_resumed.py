"""Property tests: a run interrupted anywhere, any number of times, resumes without repeated work or missing costs.

EXAMPLES in the environment sets how many scripts are tried. A script that once broke a rule stays here as a test.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.budget import Kind
from run_specialist.loop.job import Job
from run_specialist.loop.run import Run
from run_specialist.record.events import Event
from run_specialist.spawning.resuming import ResumeRequest as Asked
from run_specialist.spawning.resuming import resume
from run_specialist.spawning.spawner import RunEnvironment, spawn
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.store.stored import StoredRun
from tests.any_script.resumed_rules import RULES, Case, RunSegment
from tests.any_script.scripted_model import ScriptedModel
from tests.any_script.scripted_tools import HANDS, TOOLS, Hands
from tests.any_script.scripts import SCHEMA, SCRIPTS, Script
from tests.any_script.virtual_time import run
from tests.journals import stored
from tests.plugins.tiers import examples

AFRESH = 1_000
"""Offset of the call ids in each later segment, because an endpoint never repeats an id."""


@dataclass(frozen=True)
class Next:
    """Where a run is interrupted, and how it is resumed."""

    cut: float
    """The share of the records that are kept."""
    more: int | None
    """Tool calls and turns to add to the limits; None to leave the limits unchanged."""
    question: str | None
    then: Script
    """The script of the resumed segment; its limits are ignored."""


def model_for(script: Script, segment: int) -> ScriptedModel:
    """Return the model of one segment."""
    model = ScriptedModel(
        script.lines,
        script.afterwards,
        script.summaries,
        most=len(script.lines) + 60,
        refuses_force=script.refuses_force,
        forced_choice=script.forced_choice,
        schema=script.takes_schema,
        schema_first=script.schema_first,
        refuses_schema=script.refuses_schema,
    )
    model._ids = AFRESH * segment
    return model


def first_job(script: Script, model: ScriptedModel) -> Job:
    """Return a job as a specialist's file defines it, so that the run can be resumed."""
    limits: dict[str, Any] = {kind.key: script.limits.get(kind) for kind in Kind}
    for key in ("cost_limit", "time_limit"):
        limits[key] = None if limits[key] is None else float(limits[key])
    own = Specialist(
        name="scripted",
        description="",
        prompt="You look things up.",
        tools=(),
        landing=script.landing,
        # The schema has no place for quotes.
        evidence="check" if script.schema else script.evidence,
        countdown={"from": script.countdown_from, "style": script.style, "warn_at": script.warn_at},
        parallel_tools_limit=script.parallel,
        tool_timeout=float(script.timeout),
        tool_result_limit=script.result_limit,
        summarize_at=script.summarize_at,
        context_target=script.context_target or None,
        summary_limit=script.summary_limit,
        output_schema=SCHEMA if script.schema else None,
        **limits,
    )
    return spawn(
        SpecialistFile(Path("<scripted>"), "scripted", "", specialist=own), own, "What is known?", around(model)
    )


def around(model: ScriptedModel) -> RunEnvironment:
    """Return the environment of a run."""
    return RunEnvironment(Path("/"), model, tools=TOOLS)


def go(job: Job, model: ScriptedModel, script: Script) -> RunSegment:
    """Run a job to its end."""
    segment = RunSegment(model, job.archive)
    model.events = segment.events
    run(_play_segment(job, segment, script))
    return segment


async def _play_segment(job: Job, segment: RunSegment, script: Script) -> None:
    HANDS.set(Hands(segment.model.clock, segment.done))

    def listen(event: Event) -> None:
        segment.events.append(event)
        if len(segment.events) - 1 == script.abort_at:
            running.abort()

    running = Run(job, listen, clock=segment.model.clock, journal=segment.notebook)
    if script.abort_after is not None:
        asyncio.get_running_loop().call_later(script.abort_after, running.abort)
    await running.outcome()
    await asyncio.sleep(100_000)
    segment.transcript = running.transcript


def resume_request(run: StoredRun, wanted: Next) -> Asked:
    """Return a request to resume the run, adjusted so that it is not refused."""
    raised = {}
    used = {} if run.snapshot is None else run.snapshot.used
    for kind in (Kind.TOOL_CALLS, Kind.TURNS):
        limit = run.frozen["settings"][kind.key]
        if wanted.more is not None and limit is not None:
            raised[kind.key] = max(limit, int(used.get(kind, 0))) + wanted.more
    question = wanted.question
    if run.status == "answered" or (run.status == "landed" and not wanted.more):
        question = question or "And what else?"
    return Asked(question, raised)


def resumed_again_and_again(script: Script, goings: Sequence[Next]) -> None:
    """Run a script, interrupt and resume it repeatedly, and check the rules after each resume."""
    model = model_for(script, 0)
    before = go(first_job(script, model), model, script)
    records, summarised = before.notebook.records, model._summarised > 0
    for number, wanted in enumerate(goings, 1):
        # Without its first record a run does not exist.
        kept = records[: 1 + int(wanted.cut * (len(records) - 1))]
        past = stored(kept)
        wish = resume_request(past, wanted)
        model = model_for(wanted.then, number)
        job = resume(past, wish, around(model))
        segment = go(job, model, wanted.then)
        summarised = summarised or model._summarised > 0
        for rule in RULES:
            rule(Case(records, kept, past, wish, before, segment, summarised))
        records, before = [*kept, *segment.notebook.records], segment


TAMED = SCRIPTS.map(lambda script: replace(script, priced=True, deaf_at=None, cancel_at=None))
NEXT = st.builds(
    Next,
    st.one_of(st.just(1.0), st.floats(0, 1)),
    st.sampled_from([None, 0, 1, 3, 6]),
    st.sampled_from([None, None, "And what else?"]),
    TAMED,
)


@settings(max_examples=examples(80))
@given(TAMED, st.lists(NEXT, min_size=1, max_size=3))
def test_x_10_a_run_interrupted_anywhere_can_be_resumed(script, goings):
    """Any script, interrupted at any record and resumed up to three times, follows the rules."""
    resumed_again_and_again(script, goings)
