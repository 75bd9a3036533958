"""The account of a run: what it has spent, and what it reserves for its landing."""

import asyncio
import contextvars
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.budget import Budget, Kind, Phase
from run_specialist.loop import observing
from run_specialist.loop.account import SHARED_KINDS, Account, ChildBudget
from run_specialist.loop.observing import Observers
from run_specialist.loop.tool_calls import CallLog
from run_specialist.record.events import FileChanged
from run_specialist.record.journal import EventLogged, FileChanging
from run_specialist.record.messages import ToolCall, Usage
from tests.loop_jobs import Clock
from tests.scripted_provider import ScriptedProvider
from tests.spans import recorded


def account(limits, clock=None, **provider):
    """Return a started account with a scripted provider, where 1,000 tokens cost a cent."""
    opened = Account(Budget.of(limits), ScriptedProvider([], **provider), clock or Clock())
    opened.start()
    return opened


@pytest.mark.parametrize(("limit", "held"), [(600, 60), (60, 6), (20, 5), (8, 4), (1, 0.5)])
def test_x_14_a_tenth_of_the_time_is_reserved_at_least_5_s_at_most_half(limit, held):
    """Of time a tenth is reserved, at least 5 s and at most half of the limit."""
    clock = Clock()
    mine = account({Kind.TIME: limit}, clock)
    assert mine.seconds_left(in_landing=False) == pytest.approx(limit - held)
    clock.now += limit - held
    assert mine.budget.phase is Phase.SPENT
    assert mine.seconds_left(in_landing=False) == pytest.approx(0)
    assert mine.seconds_left(in_landing=True) == pytest.approx(held + limit / 10)
    clock.now += 1_000
    assert mine.seconds_left(in_landing=True) == 0


@given(
    limit=st.integers(5_500, 100_000),
    first=st.integers(1, 2_000),
    later=st.lists(st.integers(0, 2_000), max_size=200),
    output=st.integers(0, 400),
)
def test_x_14_the_landing_fits_unless_requests_grow(limit, first, later, output):
    """The limit holds, even with the longest reply, if two requests fit at all and none is larger than the first."""
    mine = account({Kind.TOKENS: limit})
    sizes = iter([first, *(min(one, first) for one in later)])
    while mine.budget.phase is not Phase.SPENT and (size := next(sizes, None)) is not None:
        mine.book(Usage(size, 0, 0, min(output, mine.max_tokens)), in_landing=False)
    mine.book(Usage(first, 0, 0, mine.max_tokens), in_landing=True)
    assert mine.budget[Kind.TOKENS].used <= limit


CALLS = st.none() | st.integers(0, 40)


def account_budget(**limits) -> Account:
    """Return an account with limits by kind."""
    return Account(Budget.of({Kind(kind): limit for kind, limit in limits.items()}), ScriptedProvider([]))


def child_budgets(one: Account, many: int, *, shared: bool = True) -> list[ChildBudget]:
    """Return the child budgets of the calls of one turn."""
    one.waiting_children = many
    return [ChildBudget(one, Observers(None, None, None), shared=shared) for _ in range(many)]


def want(calls: float | None) -> dict[Kind, float | None]:
    """Return the limits of a child with only a limit of tool calls."""
    return {**dict.fromkeys(SHARED_KINDS), Kind.TOOL_CALLS: calls}


@given(limit=st.integers(0, 40), used=st.integers(0, 40), wants=st.lists(CALLS, min_size=1, max_size=8))
def test_x_11_children_never_get_more_than_is_left(limit, used, wants):
    """However many children ask for however much, the total lent is at most what was left, in integral calls."""
    one = account_budget(tool_calls=limit)
    one.spend(min(used, limit), Kind.TOOL_CALLS)
    left = one.budget[Kind.TOOL_CALLS].remaining
    lent = [
        budget.lend(want(calls), {})[Kind.TOOL_CALLS]
        for budget, calls in zip(child_budgets(one, len(wants)), wants, strict=True)
    ]
    assert sum(lent) <= left
    assert all(amount == int(amount) for amount in lent)
    assert all(calls is None or amount <= calls for amount, calls in zip(lent, wants, strict=True))
    assert one.budget[Kind.TOOL_CALLS].remaining == left - sum(lent)


@pytest.mark.parametrize(
    ("limit", "least", "lent"), [(90, 50, [50, 20, 20]), (90, 20, [30, 30, 30]), (40, 50, [40, 0, 0])]
)
def test_x_11_a_share_that_is_too_small_is_raised_to_the_minimum(limit, least, lent):
    """A share too small to begin with is raised to the minimum while that much is left, never beyond what is left."""
    one = account_budget(tokens=limit)
    one._spent = one._spent.hold(0, Kind.TOKENS)
    some = child_budgets(one, 3)
    parts = [
        budget.lend(dict.fromkeys(SHARED_KINDS), {Kind.TOKENS: least if place == 0 else 0})
        for place, budget in enumerate(some)
    ]
    assert [part[Kind.TOKENS] for part in parts] == lent


CHANGING = FileChanging("id", "a.md", None, "new", None, ".a.tmp")


class Store:
    """A journal that keeps its records, and can be lost."""

    outage = None

    def __init__(self, *, works: bool) -> None:
        self.works, self.records = works, []

    def write(self, record) -> None:
        """Keep a record."""
        self.records.append(record)

    async def has_stored(self) -> bool:
        """Return whether it works."""
        return self.works


@pytest.mark.parametrize(("journal", "stored"), [(Store(works=True), True), (Store(works=False), False), (None, True)])
async def test_a_tool_learns_whether_its_record_is_stored(journal, stored):
    """Where nothing is stored, there is nothing to wait for."""
    log = CallLog(Observers(None, None, journal), str)
    assert await log.stored(CHANGING) is stored
    assert journal is None or journal.records == [CHANGING]


def test_credentials_in_the_texts_of_an_event_are_masked():
    """For listeners and for the store; other fields stay as they are."""
    heard, journal = [], Store(works=True)
    log = CallLog(Observers(heard.append, None, journal), lambda text: text.replace("hunter2", "***"))
    log.notify(FileChanged("call", "hunter2.md", "+hunter2\n", 1, 0))
    (record,) = journal.records
    assert heard == [FileChanged("call", "***.md", "+***\n", 1, 0)]
    assert isinstance(record, EventLogged)
    assert record.event == heard[0]


CALL = ToolCall("call_1", "look", {})
TRACED = """
from opentelemetry.sdk.trace import TracerProvider
from run_specialist import Specialist, run_sync

begun = TracerProvider.get_tracer
TracerProvider.get_tracer = lambda *given, **more: print("traced by", given[1]) or begun(*given, **more)
run_sync(Specialist(name="finder", description="", prompt="You find."), "What do owls eat?", model="offline")
"""


def agent():
    """Return the span of a run."""
    provider = ScriptedProvider([])
    return observing.invoke_agent("owls", "run-1", provider, "What?", parent_id=None, resumed=False)


@pytest.mark.exhaustive
def test_the_variable_alone_enables_tracing(tmp_path):
    """The variable, which `opentelemetry-instrument` and containers set, names the provider that gets the spans."""
    (tmp_path / "owls.md").write_text("Owls eat mice.")
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    env[observing.PROVIDER_VARIABLE] = "sdk_tracer_provider"
    command = [sys.executable, "-c", TRACED]
    told = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert told.stdout == "traced by run_specialist\n", told.stderr


@pytest.mark.parametrize("value", ["", "false", "no_content", "event_only", "1"])
def test_content_is_not_recorded_for_unconventional_values(monkeypatch, value):
    """Content is recorded only for the values that the conventions define for spans."""
    monkeypatch.setenv(observing.CONTENT, value)
    with recorded() as seen, agent(), observing.execute_tool(CALL) as call:
        call.returned("mice", None, is_error=False)
    assert not any("mice" in span.to_json() or "What?" in span.to_json() for span in seen.all)


def test_the_span_of_a_discarded_run_ends_without_an_error(caplog):
    """The span of a discarded run ends without an error.

    Its coroutine is closed in another context, where the context token cannot be reset.
    """

    async def work():
        with agent():
            await asyncio.Event().wait()

    async def begin():
        coroutine = work()
        contextvars.copy_context().run(coroutine.send, None)
        coroutine.close()

    with recorded() as seen:
        asyncio.run(begin())
    assert (seen.names, caplog.messages) == (["invoke_agent owls"], [])
