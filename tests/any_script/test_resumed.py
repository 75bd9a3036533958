"""Wherever a run is cut off, and however often: it goes on, nothing is done twice, and the bill is that of all of it.

EXAMPLES in the environment says how many scripts are tried. A script that once broke a rule stays here as a test.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.budget.budget import Kind
from run_specialist.loop.compaction.turns import archived_placeholder
from run_specialist.loop.job import Job
from run_specialist.loop.run import Run
from run_specialist.record.events import Called, Event, Finished, Resumed, Started
from run_specialist.record.journal import Opened, Received, Record, Returned
from run_specialist.record.messages import Message, Usage
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.resuming import ResumeRequest as Asked
from run_specialist.spawning.resuming import resume
from run_specialist.spawning.spawner import RunEnvironment, spawn
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.store.stored import StoredRun
from run_specialist.tools.archive import Archive
from tests.any_script.puppet_tools import HANDS, TOOLS, Hands
from tests.any_script.puppets import Puppet
from tests.any_script.rules import every_call_has_one_result
from tests.any_script.scripts import SCHEMA, SCRIPTS, Script
from tests.any_script.virtual_time import run
from tests.journals import Notebook, stored
from tests.plugins.tiers import examples

AFRESH = 1_000
"""Ids of calls in a later going begin here, for an endpoint gives none twice."""


@dataclass(eq=False)
class Going:
    """A run from where it began, or was taken up, to its end."""

    puppet: Puppet
    archive: Archive | None
    notebook: Notebook = field(default_factory=Notebook)
    events: list[Event] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """What the tools were told to do, in the order in which they began."""
    transcript: tuple[Message, ...] = ()

    @property
    def asked(self) -> Sequence[Any]:
        """Its requests."""
        return self.puppet.asked

    @property
    def end(self) -> Outcome:
        """Its outcome."""
        (finished,) = (event for event in self.events if isinstance(event, Finished))
        return finished.outcome


@dataclass(frozen=True)
class Next:
    """How a run is cut off and taken up."""

    cut: float
    """The share of its records that are kept."""
    more: int | None
    """So many tool calls and turns more; None where nothing is raised."""
    question: str | None
    then: Script
    """What happens from then on; its limits do not count."""


def puppet_of(script: Script, going: int) -> Puppet:
    """Make the model of one going."""
    puppet = Puppet(
        script.lines,
        script.afterwards,
        script.summaries,
        most=len(script.lines) + 60,
        refuses_force=script.refuses_force,
        forced_choice=script.forced_choice,
    )
    puppet._ids = AFRESH * going
    return puppet


def first_job(script: Script, puppet: Puppet) -> Job:
    """Make a job as a specialist's file does, so that it can be made once more."""
    limits: dict[str, Any] = {kind.key: script.limits.get(kind) for kind in Kind}
    for key in ("cost_limit", "time_limit"):
        limits[key] = None if limits[key] is None else float(limits[key])
    own = Specialist(
        name="puppet",
        description="",
        prompt="You look things up.",
        tools=(),
        landing=script.landing,
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
    return spawn(SpecialistFile(Path("<puppet>"), "puppet", "", specialist=own), own, "What is known?", around(puppet))


def around(puppet: Puppet) -> RunEnvironment:
    """Return where a run works."""
    return RunEnvironment(Path("/"), puppet, tools=TOOLS)


def go(job: Job, puppet: Puppet, script: Script) -> Going:
    """Work on a job to its end."""
    going = Going(puppet, job.archive)
    puppet.events = going.events
    run(_gone(job, going, script))
    return going


async def _gone(job: Job, going: Going, script: Script) -> None:
    HANDS.set(Hands(going.puppet.clock, going.done))

    def listen(event: Event) -> None:
        going.events.append(event)
        if len(going.events) - 1 == script.abort_at:
            running.abort()

    running = Run(job, listen, clock=going.puppet.clock, journal=going.notebook)
    if script.abort_after is not None:
        asyncio.get_running_loop().call_later(script.abort_after, running.abort)
    await running.outcome()
    await asyncio.sleep(100_000)
    going.transcript = running.transcript


def wish_for(run: StoredRun, wanted: Next) -> Asked:
    """Return what is asked for, so that it is not refused."""
    raised = {}
    used = {} if run.standing is None else run.standing.used
    for kind in (Kind.TOOL_CALLS, Kind.TURNS):
        limit = run.frozen["settings"][kind.key]
        if wanted.more is not None and limit is not None:
            raised[kind.key] = max(limit, int(used.get(kind, 0))) + wanted.more
    question = wanted.question
    if run.status == "answered" or (run.status == "landed" and not wanted.more):
        question = question or "And what else?"
    return Asked(question, raised)


def resumed_again_and_again(script: Script, goings: Sequence[Next]) -> None:
    """Play a run, cut it off, take it up, and hold what comes of it against the rules."""
    puppet = puppet_of(script, 0)
    before = go(first_job(script, puppet), puppet, script)
    records, summarised = before.notebook.records, puppet._summarised > 0
    for number, wanted in enumerate(goings, 1):
        # Without its first record there is no run.
        kept = records[: 1 + int(wanted.cut * (len(records) - 1))]
        past = stored(kept)
        wish = wish_for(past, wanted)
        puppet = puppet_of(wanted.then, number)
        job = resume(past, wish, around(puppet))
        going = go(job, puppet, wanted.then)
        summarised = summarised or puppet._summarised > 0
        for rule in RULES:
            rule(Case(records, kept, past, wish, before, going, summarised))
        records, before = [*kept, *going.notebook.records], going


@dataclass(frozen=True, eq=False)
class Case:
    """A run that was taken up, to be held against the rules."""

    whole: list[Record]
    """What it would have kept, had it not been cut off."""
    kept: list[Record]
    past: StoredRun
    wish: Asked
    before: Going
    going: Going

    @property
    def after(self) -> StoredRun:
        """The run as it stands at the end."""
        return stored([*self.kept, *self.going.notebook.records])

    summarised: bool
    """True where a summary was asked for, before or since."""


def of(kind: type, records: Sequence[Record]) -> list[Any]:
    """Return the records of a kind."""
    return [record for record in records if isinstance(record, kind)]


def was_cut_off(call: Returned) -> bool:
    """Tell whether a call is answered with what became of it; to read such an answer again is no error."""
    return call.is_error and call.whole.startswith("Not finished: the process ended before")


def calls_have_results(case: Case) -> None:
    """In every request and at the end, in the run and in the store."""
    every_call_has_one_result(case.going)
    assert case.after.transcript == case.going.transcript


def history_goes_on(case: Case) -> None:
    """The same system prompt and tools, and what was answered once is the beginning of what is asked next."""
    first, again = (of(Opened, records)[0].frozen for records in (case.kept, case.going.notebook.records))
    assert all(again[key] == first[key] for key in ("system", "tools", "effort"))
    received = of(Received, case.kept)
    answered = [asked for asked in case.before.asked if asked.reply is not None]
    begun = len(of(Received, case.whole)) - len(of(Received, case.before.notebook.records))
    if case.summarised or not case.going.asked or len(received) <= begun:
        return
    last, next_ = answered[len(received) - begun - 1], case.going.asked[0]
    if len(next_.messages) > len(last.messages):
        assert next_.encoded[: len(last.encoded)] == last.encoded
    else:
        assert next_.encoded[: len(last.encoded) - 1] == last.encoded[:-1]


def limits_are_kept(case: Case) -> None:
    """The new ones, with all that was used before counted in."""
    end = case.going.end
    limit = end.tool_calls.limit
    assert limit == case.wish.limits.get("tool_calls_limit", case.past.frozen["settings"]["tool_calls_limit"])
    assert limit is None or end.tool_calls.used <= limit
    used = (case.past.standing.used if case.past.standing else {}).get("tool_calls", 0)
    started = sum(isinstance(event, Called) and event.phase == "started" for event in case.going.events)
    recalled = sum(map(was_cut_off, of(Returned, case.going.notebook.records)))
    assert used + started + recalled <= end.tool_calls.used
    assert len(case.going.done) <= started


def nothing_is_run_twice(case: Case) -> None:
    """Not what had returned, and not what may have been under way when the process ended."""
    kept = {one.number for one in of(Returned, case.kept)}
    may_have_run = {(one.number, one.turn): one for one in of(Returned, case.whole)}
    again = of(Returned, case.going.notebook.records)
    assert len({one.number for one in again}) == len(again)
    assert not kept & {one.number for one in again}
    for one in again:
        same = may_have_run.get((one.number, one.turn))
        if case.past.pending and one.turn == case.past.pending.number and same:
            assert was_cut_off(one)
            assert one.call == same.call
        if was_cut_off(one):
            assert case.past.pending
            assert one.turn == case.past.pending.number


def the_bill_is_that_of_all_of_it(case: Case) -> None:
    """What was paid before is counted once, and so is what is paid now."""
    end = case.going.end
    replies = [one.reply.usage for one in of(Received, case.kept)]
    assert end.limits["turns"].used == len(replies) + len(of(Received, case.going.notebook.records))
    assert end.usage.total_tokens == end.limits["tokens"].used
    used = case.going.puppet.used
    if not case.summarised and all(one.total_tokens for one in used):
        assert end.usage == sum([*replies, *used], Usage())
        assert abs(end.cost_usd - end.usage.total_tokens * 1e-5) < 1e-6


def what_is_archived_can_be_read(case: Case) -> None:
    """Whatever stands in the transcript by its id alone, also what was archived before."""
    for message in case.going.transcript:
        for block in message.blocks:
            if block.get("content") == archived_placeholder(str(block.get("tool_use_id"))):
                assert block["tool_use_id"] in case.going.archive


def events_tell_the_story(case: Case) -> None:
    """Started, then resumed before anything is asked, finished at the end; each once."""
    kinds = Counter(type(event) for event in case.going.events)
    assert isinstance(case.going.events[0], Started)
    assert isinstance(case.going.events[-1], Finished)
    assert (kinds[Started], kinds[Finished]) == (1, 1)
    assert kinds[Resumed] <= 1
    if case.going.asked:
        assert kinds[Resumed] == 1
        assert any(isinstance(event, Resumed) for event in case.going.events[: case.going.asked[0].events])


RULES = (
    calls_have_results,
    history_goes_on,
    limits_are_kept,
    nothing_is_run_twice,
    the_bill_is_that_of_all_of_it,
    what_is_archived_can_be_read,
    events_tell_the_story,
)

TAMED = SCRIPTS.map(lambda script: replace(script, priced=True, deaf_at=None, cancel_at=None))
NEXT = st.builds(
    Next,
    st.one_of(st.just(1.0), st.floats(0, 1)),
    st.sampled_from([None, 0, 1, 3, 6]),
    st.sampled_from([None, None, "And what else?"]),
    TAMED,
)


@settings(max_examples=examples(150))
@given(TAMED, st.lists(NEXT, min_size=1, max_size=3))
def test_x_10_wherever_it_is_cut_off_a_run_goes_on(script, goings):
    """Any script, cut off at any record, taken up to three times."""
    resumed_again_and_again(script, goings)
