"""A gate that the API has closed: who waits for how long, who fails instead, and what is reported."""

import asyncio

import pytest

from run_specialist.errors import Unavailable
from run_specialist.providers.admission import Gate
from run_specialist.providers.base import Queueing
from tests.unit.providers.admission.gated_requests import Refused, hold, refuse, settle, turn

pytestmark = pytest.mark.anyio


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


async def test_r9_patience_counts_anew_after_the_api_was_open(time):
    """While only the ceiling holds a request, the API refuses nothing: a later refusal is not added to an earlier."""
    gate, begun, release = Gate(), [], asyncio.Event()
    late = turn(gate)
    await late.__aenter__()
    await refuse(gate, wait=20)
    patient = asyncio.create_task(hold(gate, begun, "a", release, ceiling=1, queueing=Queueing(patience=30)))
    await settle(gate, 1)
    await time.advance(20)
    await time.advance(5)
    await late.__aexit__(None, Refused(429, 20), None)
    await time.advance(19)
    assert (patient.done(), begun) == (False, [])
    release.set()
    await time.advance(2)
    await patient
    assert begun == ["a"]


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
