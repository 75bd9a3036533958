"""Property tests: a run interrupted anywhere, any number of times, resumes without repeated work or missing costs.

EXAMPLES in the environment sets how many scripts are tried. A script that once broke a rule stays here as a test.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.budget import Kind
from run_specialist.loop.compaction import archived_placeholder
from run_specialist.record.events import Called, Finished, Resumed, Started
from run_specialist.record.journal import Opened, Received, Record, Returned
from run_specialist.record.messages import Usage
from run_specialist.spawning.resuming import ResumeRequest, resume
from run_specialist.store.stored import StoredRun
from tests.any_script.rules import every_call_has_one_result
from tests.any_script.run_script import ScriptedRun, around, go, model_of, start
from tests.any_script.scripts import SCRIPTS, Script
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


@dataclass(frozen=True, eq=False)
class Case:
    """A resumed run that the rules check."""

    whole: list[Record]
    """All records before the resume, including those that the interruption discarded."""
    kept: list[Record]
    past: StoredRun
    wish: ResumeRequest
    before: ScriptedRun
    segment: ScriptedRun

    @property
    def after(self) -> StoredRun:
        """The stored run after the resumed segment."""
        return stored([*self.kept, *self.segment.notebook.records])

    summarised: bool
    """Whether this or an earlier segment requested a summary."""


def of(kind: type, records: Sequence[Record]) -> list[Any]:
    """Return the records of one type."""
    return [record for record in records if isinstance(record, kind)]


def was_cut_off(call: Returned) -> bool:
    """Return whether the call's result is the error for calls that were running when the process ended."""
    return call.is_error and call.whole.startswith("Not finished: the process ended before")


def calls_have_results(case: Case) -> None:
    """Check that each call has its result in all requests and in the final transcript, which equals the stored one."""
    every_call_has_one_result(case.segment)
    assert case.after.transcript == case.segment.transcript


def history_is_continued(case: Case) -> None:
    """Check that system prompt and tools are unchanged, and that the next request starts with the last answered one."""
    first, again = (of(Opened, records)[0].frozen for records in (case.kept, case.segment.notebook.records))
    assert all(again[key] == first[key] for key in ("system", "tools", "effort"))
    received = of(Received, case.kept)
    answered = [asked for asked in case.before.requests if asked.reply is not None]
    begun = len(of(Received, case.whole)) - len(of(Received, case.before.notebook.records))
    if case.summarised or not case.segment.requests or len(received) <= begun:
        return
    last, next_ = answered[len(received) - begun - 1], case.segment.requests[0]
    if len(next_.messages) > len(last.messages):
        assert next_.encoded[: len(last.encoded)] == last.encoded
    else:
        assert next_.encoded[: len(last.encoded) - 1] == last.encoded[:-1]


def new_limits_include_earlier_use(case: Case) -> None:
    """Check that the new limits apply, that earlier usage counts toward them, and that a question refreshes them."""
    end = case.segment.end
    limit, before = end.tool_calls.limit, case.past.frozen["settings"]["tool_calls_limit"]
    used = (case.past.snapshot.used if case.past.snapshot else {}).get("tool_calls", 0)
    recalled = sum(map(was_cut_off, of(Returned, case.segment.notebook.records)))
    first = case.past.frozen.get("begun_limits", {}).get("tool_calls_limit", before)
    is_granted = case.wish.question is not None and before is not None and first is not None
    fresh = max(before, first + used + recalled) if is_granted else before
    assert limit == case.wish.limits.get("tool_calls_limit", fresh)
    assert limit is None or end.tool_calls.used <= limit
    started = sum(isinstance(event, Called) and event.phase == "started" for event in case.segment.events)
    assert used + started + recalled <= end.tool_calls.used
    assert len(case.segment.done) <= started


def no_call_runs_twice(case: Case) -> None:
    """Check that no call runs again that had returned or may have been running when the process ended."""
    kept = {one.number for one in of(Returned, case.kept)}
    may_have_run = {(one.number, one.turn): one for one in of(Returned, case.whole)}
    again = of(Returned, case.segment.notebook.records)
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


def usage_covers_all_segments(case: Case) -> None:
    """Check that each reply is billed exactly once, before or after the interruption."""
    end = case.segment.end
    replies = [one.reply.usage for one in of(Received, case.kept)]
    assert end.limits["turns"].used == len(replies) + len(of(Received, case.segment.notebook.records))
    assert end.usage.total_tokens == end.limits["tokens"].used
    used = case.segment.model.used
    if not case.summarised and all(one.total_tokens for one in used):
        assert end.usage == sum([*replies, *used], Usage())
        assert abs(end.cost_usd - end.usage.total_tokens * 1e-5) < 1e-6


def archived_outputs_are_readable(case: Case) -> None:
    """Check that the archive holds the output of every placeholder in the transcript."""
    for message in case.segment.transcript:
        for block in message.blocks:
            if block.get("content") == archived_placeholder(str(block.get("tool_use_id"))):
                assert block["tool_use_id"] in case.segment.job.archive


def events_follow_the_segments(case: Case) -> None:
    """Check that `Started` is first, `Finished` last, and `Resumed` before the first request, each at most once."""
    kinds = Counter(type(event) for event in case.segment.events)
    assert isinstance(case.segment.events[0], Started)
    assert isinstance(case.segment.events[-1], Finished)
    assert (kinds[Started], kinds[Finished]) == (1, 1)
    assert kinds[Resumed] <= 1
    if case.segment.requests:
        assert kinds[Resumed] == 1
        assert any(isinstance(event, Resumed) for event in case.segment.events[: case.segment.requests[0].events])


RULES = (
    calls_have_results,
    history_is_continued,
    new_limits_include_earlier_use,
    no_call_runs_twice,
    usage_covers_all_segments,
    archived_outputs_are_readable,
    events_follow_the_segments,
)


def resume_request(run: StoredRun, wanted: Next) -> ResumeRequest:
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
    return ResumeRequest(question, raised)


def resumed_again_and_again(script: Script, goings: Sequence[Next]) -> None:
    """Run a script, interrupt and resume it repeatedly, and check the rules after each resume."""
    before = go(start(script))
    records, summarised = before.notebook.records, before.model.summarised > 0
    for number, wanted in enumerate(goings, 1):
        # Without its first record a run does not exist.
        kept = records[: 1 + int(wanted.cut * (len(records) - 1))]
        past = stored(kept)
        wish = resume_request(past, wanted)
        model = model_of(wanted.then, ids=AFRESH * number)
        segment = go(ScriptedRun(wanted.then, model, resume(past, wish, around(model))))
        summarised = summarised or model.summarised > 0
        for rule in RULES:
            rule(Case(records, kept, past, wish, before, segment, summarised))
        records, before = [*kept, *segment.notebook.records], segment


TAMED = SCRIPTS.map(
    lambda script: replace(script, model={**script.model, "priced": True}, deaf_at=None, cancel_at=None)
)
NEXT = st.builds(
    Next,
    st.one_of(st.just(1.0), st.floats(0, 1)),
    st.sampled_from([None, 0, 1, 3, 6]),
    st.sampled_from([None, None, "And what else?"]),
    TAMED,
)


@settings(max_examples=examples(25))
@given(TAMED, st.lists(NEXT, min_size=1, max_size=3))
def test_x_10_a_run_interrupted_anywhere_can_be_resumed(script, goings):
    """Any script, interrupted at any record and resumed up to three times, follows the rules."""
    resumed_again_and_again(script, goings)
