"""Rules that interrupted and resumed runs must satisfy."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from run_specialist.loop.compaction import archived_placeholder
from run_specialist.record.events import Called, Event, Finished, Resumed, Started
from run_specialist.record.journal import Opened, Received, Record, Returned
from run_specialist.record.messages import Message, Usage
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.resuming import ResumeRequest as Asked
from run_specialist.store.stored import StoredRun
from run_specialist.tools.archive import Archive
from tests.any_script.run_rules import every_call_has_one_result
from tests.any_script.scripted_model import ScriptedModel
from tests.journals import Notebook, stored


@dataclass(eq=False)
class RunSegment:
    """One segment of a run, from its start or a resume to its end."""

    model: ScriptedModel
    archive: Archive | None
    notebook: Notebook = field(default_factory=Notebook)
    events: list[Event] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    """The instructions that the tools received, in the order in which the calls started."""
    transcript: tuple[Message, ...] = ()

    @property
    def requests(self) -> Sequence[Any]:
        """The requests of the segment."""
        return self.model.requests

    @property
    def end(self) -> Outcome:
        """The outcome of the segment."""
        (finished,) = (event for event in self.events if isinstance(event, Finished))
        return finished.outcome


@dataclass(frozen=True, eq=False)
class Case:
    """A resumed run that the rules check."""

    whole: list[Record]
    """All records before the resume, including those that the interruption discarded."""
    kept: list[Record]
    past: StoredRun
    wish: Asked
    before: RunSegment
    segment: RunSegment

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
    """Check that the new limits apply and that earlier usage counts toward them."""
    end = case.segment.end
    limit = end.tool_calls.limit
    assert limit == case.wish.limits.get("tool_calls_limit", case.past.frozen["settings"]["tool_calls_limit"])
    assert limit is None or end.tool_calls.used <= limit
    used = (case.past.snapshot.used if case.past.snapshot else {}).get("tool_calls", 0)
    started = sum(isinstance(event, Called) and event.phase == "started" for event in case.segment.events)
    recalled = sum(map(was_cut_off, of(Returned, case.segment.notebook.records)))
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
                assert block["tool_use_id"] in case.segment.archive


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
