"""Which request begins next: at once if nothing holds it, else in order, and past requests of another model."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import Unavailable
from run_specialist.loop.retries import StopSignal
from run_specialist.providers import admission
from run_specialist.providers.admission import Gate, GatedRequest
from run_specialist.providers.base import Choice, Queueing, Request
from run_specialist.providers.errors import MESSAGES, Fault


class Refused(Exception):
    """An error that refuses a request."""

    def __init__(self, status=429, wait=None):
        super().__init__(status)
        self.refusal = Fault(f"the API answered {status}", status=status, wait=wait)


class Turn(GatedRequest):
    """A request whose errors carry their refusal, instead of being those of an SDK."""

    def _refusal(self, error):
        return getattr(error, "refusal", None)


def turn(gate, ceiling=None, queueing=None):
    """Return the turn of a request."""
    provider = SimpleNamespace(model="m", requests_at_once=ceiling)
    return Turn(gate, provider, MESSAGES, Request([], Choice.AUTO, 1, queueing=queueing))


async def refuse(gate, **refusal):
    """Let one request be refused."""
    one = turn(gate)
    await one.__aenter__()
    await one.__aexit__(None, Refused(**refusal), None)


async def hold(gate, begun, name, release, **options):
    """Hold a place until `release` is set."""
    async with turn(gate, **options):
        begun.append(name)
        await release.wait()


async def settle(gate, waiting):
    """Return once so many requests wait at a gate, and have nothing else to do."""
    while gate.waiting != waiting:  # noqa: ASYNC110 - a gate has no event for it
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)


class ManualTime:
    """A clock that a test sets; sleeping requests look at it when the test says so."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self._sleepers = []
        monkeypatch.setattr(Gate, "clock", staticmethod(lambda: self.now))
        monkeypatch.setattr(Gate, "sleep", staticmethod(self._sleep))

    async def _sleep(self, future, seconds):
        over = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, over))
        await asyncio.wait([future, over], return_when=asyncio.FIRST_COMPLETED)

    async def advance(self, seconds):
        """Let time pass, and all requests act on it."""
        self.now += seconds
        for _ in range(20):
            for until, over in self._sleepers:
                if until <= self.now and not over.done() and not over.get_loop().is_closed():
                    over.set_result(None)
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def without_pace(monkeypatch):
    """Let any number of requests start per iteration of the event loop."""
    monkeypatch.setattr(admission, "PER_TURN", 10_000)


@pytest.fixture
def time(monkeypatch):
    """A clock that the test sets."""
    return ManualTime(monkeypatch)


async def test_r2_requests_that_need_not_wait_do_not():
    """Without limits a request begins without giving the event loop a turn."""
    gate = Gate()
    for _ in range(100):
        with pytest.raises(StopIteration):
            turn(gate).__aenter__().send(None)
    assert len(gate.under_way) == 100


async def test_r3_waiting_requests_begin_in_order():
    """With one at a time, the requests begin in the order in which they came."""
    gate, begun = Gate(), []

    async def ask(name):
        async with turn(gate, 1):
            begun.append(name)
            assert len(gate.under_way) == 1
            await asyncio.sleep(0)

    await asyncio.gather(*map(ask, range(50)))
    assert begun == [*range(50)]
    assert (len(gate.under_way), gate.waiting) == (0, 0)


async def test_r3_a_request_with_a_ceiling_gets_its_turn_among_others(time):
    """A request with a ceiling of 2 gets its turn among many without one, and after it the others are free again."""
    gate, begun, release = Gate(), [], asyncio.Event()
    free = [asyncio.create_task(hold(gate, begun, f"free {n}", release)) for n in range(3)]
    await asyncio.sleep(0)
    limited, over = [], asyncio.Event()
    task = asyncio.create_task(hold(gate, limited, "limited", over, ceiling=2))
    await settle(gate, 1)
    late = asyncio.create_task(hold(gate, begun, "late", release))
    await settle(gate, 2)
    assert (begun[-1], limited) == ("free 2", [])
    release.set()
    await asyncio.gather(*free, late)
    assert limited == ["limited"]
    over.set()
    await task
    with pytest.raises(StopIteration):
        turn(gate).__aenter__().send(None)


@given(st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)), st.integers(0, 40), st.integers(1, 4))
def test_r8_no_place_is_lost(cancelled, failing, later, ceiling):
    """Requests cancelled before, during or after their wait, and failing ones, leave the gate as if they never came."""
    gate = Gate()

    async def ask(name):
        async with turn(gate, ceiling):
            assert len(gate.under_way) <= ceiling
            await asyncio.sleep(0)
            if name in failing:
                raise Refused(529)

    async def play():
        tasks = [asyncio.create_task(ask(name)) for name in range(20)]
        for _ in range(later):
            await asyncio.sleep(0)
        for name in cancelled:
            tasks[name].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(play())
    assert (len(gate.under_way), gate.waiting) == (0, 0)
    assert all(results[name] is None for name in set(range(20)) - cancelled - failing)


async def test_r8_requests_of_a_loop_that_was_closed_are_forgotten(time):
    """An event loop that ends in the middle of a request, and of a wait, does not hold up the others for ever."""
    gate, dead = Gate(), asyncio.new_event_loop()

    def die():
        tasks = [dead.create_task(hold(gate, [], name, asyncio.Event(), ceiling=1)) for name in ("held", "waits")]
        dead.run_until_complete(asyncio.sleep(0.01))
        for task in tasks:
            task._log_destroy_pending = False
        dead.close()

    await asyncio.to_thread(die)
    assert (len(gate.under_way), gate.waiting) == (1, 1)
    begun, release = [], asyncio.Event()
    task = asyncio.create_task(hold(gate, begun, "next", release, ceiling=1))
    await settle(gate, 2)
    await time.advance(30)
    assert begun == ["next"]
    release.set()
    await task


async def test_r5_a_closed_gate_holds_requests_until_it_opens(time):
    """Twenty seconds after a 429 with a `retry-after` of 20 all waiting requests begin, and not before."""
    gate, begun, release = Gate(), [], asyncio.Event()
    release.set()
    await refuse(gate, wait=20)
    tasks = [asyncio.create_task(hold(gate, begun, name, release)) for name in range(5)]
    await settle(gate, 5)
    await time.advance(19.9)
    assert begun == []
    await time.advance(0.2)
    assert begun == [*range(5)]
    await asyncio.gather(*tasks)


async def test_r6_after_a_long_closing_the_others_wait_for_the_first(time):
    """The first request is tried alone; once it is accepted, the rest begin."""
    gate, begun, release = Gate(), [], asyncio.Event()
    await refuse(gate, wait=90)
    probe = turn(gate)
    entering = asyncio.create_task(probe.__aenter__())
    await settle(gate, 1)
    tasks = [asyncio.create_task(hold(gate, begun, name, release)) for name in range(5)]
    await settle(gate, 6)
    await time.advance(90)
    assert (entering.done(), begun) == (True, [])
    probe.accepted()
    await time.advance(0)
    assert begun == [*range(5)]
    release.set()
    await asyncio.gather(*tasks)
    await probe.__aexit__(None, None, None)
    assert len(gate.under_way) == 0


@pytest.mark.parametrize(("patience", "limit"), [(50, None), (None, 50)], ids=["patience", "time limit"])
async def test_r9_a_request_that_may_not_wait_as_long_fails_at_once(time, patience, limit):
    """The error is that of the refusal, with the time that is left."""
    gate = Gate()
    await refuse(gate, wait=90)
    await time.advance(30)
    queueing = Queueing()
    queueing.patience = queueing.patience if patience is None else patience
    queueing.time_limit = queueing.time_limit if limit is None else time.now + limit
    with pytest.raises(Unavailable) as raised:
        await turn(gate, queueing=queueing).__aenter__()
    assert (raised.value.status, raised.value.wait) == (429, 60)
    assert str(raised.value) == "the API answered 429; try again in 60 seconds, as the API requests"
    assert (len(gate.under_way), gate.waiting) == (0, 0)


async def test_r9_a_closing_that_becomes_too_long_ends_the_waits(time):
    """A second refusal with a longer wait immediately fails the requests that may not wait that long."""
    gate, begun, release = Gate(), [], asyncio.Event()
    late = turn(gate)
    await late.__aenter__()
    await refuse(gate, wait=70)
    long = asyncio.create_task(hold(gate, begun, "long", release))
    await settle(gate, 1)
    short = asyncio.create_task(hold(gate, begun, "short", release, queueing=Queueing(patience=100)))
    await settle(gate, 2)
    await late.__aexit__(None, Refused(429, 300), None)
    with pytest.raises(Unavailable) as raised:
        await short
    assert (raised.value.wait, gate.waiting) == (300, 1)
    release.set()
    await time.advance(300)
    await long
    assert begun == ["long"]


async def test_r9_patience_also_ends_the_wait_for_a_probe(time):
    """One request is tried every ten seconds; those who are not yet tried at the end of their patience fail."""
    gate, begun, release = Gate(), [], asyncio.Event()
    await refuse(gate, wait=90)
    await time.advance(90)
    await refuse(gate, status=529)
    first = [asyncio.create_task(hold(gate, begun, name, release)) for name in "abc"]
    impatient = asyncio.create_task(hold(gate, begun, "d", release, queueing=Queueing(patience=25)))
    await settle(gate, 4)
    for expected in (["a"], ["a", "b"]):
        await time.advance(10)
        assert begun == expected
    await time.advance(4.9)
    assert not impatient.done()
    await time.advance(0.2)
    with pytest.raises(Unavailable, match="429") as raised:
        await impatient
    assert raised.value.wait is None
    release.set()
    await time.advance(10)
    await asyncio.gather(*first)
    assert (begun, len(gate.under_way)) == (["a", "b", "c"], 0)


async def test_r7_a_wait_of_a_second_is_reported_and_ends_with_a_report(time):
    """The first report says how long and why, the second one how long it was; shorter waits are not reported."""
    gate, told, release = Gate(), [], asyncio.Event()
    release.set()
    await refuse(gate, wait=20)
    task = asyncio.create_task(hold(gate, [], "a", release, queueing=Queueing(told.append)))
    await settle(gate, 1)
    assert told == []
    await time.advance(1)
    await time.advance(19)
    await task
    assert [(event.phase, event.seconds, event.reason) for event in told] == [
        ("started", 19, "the API answered 429"),
        ("finished", 20, "the API answered 429"),
    ]
    told.clear()
    await refuse(gate, wait=0.5)
    task = asyncio.create_task(hold(gate, [], "a", release, queueing=Queueing(told.append)))
    await settle(gate, 1)
    await time.advance(0.5)
    await task
    assert told == []


@pytest.mark.parametrize("now", [True, False])
async def test_the_wait_ends_and_the_next_request_begins(now):
    """The stopped request leaves the queue, one behind it gets the place, and one under way is not disturbed."""
    gate, stop, first = Gate(), StopSignal(), asyncio.Event()

    async def ask(until, stopping=None):
        async with turn(gate, 1, Queueing(stopping=stopping)):
            await until.wait()

    at_once = asyncio.Event()
    at_once.set()
    under_way = asyncio.create_task(ask(first, stop))
    await asyncio.sleep(0)
    stopped, behind = asyncio.create_task(ask(at_once, stop)), asyncio.create_task(ask(at_once))
    await settle(gate, 2)
    stop.request(now=now)
    with pytest.raises(Unavailable, match="was stopped while"):
        await stopped
    await settle(gate, 1)
    assert not under_way.done()
    first.set()
    await asyncio.gather(under_way, behind)
    assert (len(gate.under_way), gate.waiting) == (0, 0)
