"""The policy of a gate: which requests may begin, by begins, ends, refusals and time."""

import gc
import math

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from run_specialist.errors import UsageError
from run_specialist.providers import admission as gate_module
from run_specialist.providers import anthropic
from run_specialist.providers.admission import GATES, GENEROUS, LONGEST_CLOSING, MINUTE, VARIABLE, Gate, Gates, ceiling
from run_specialist.providers.errors import Fault


def refusal(status=529, wait=None):
    """Return a refusal."""
    return Fault(f"the API answered {status}", status=status, wait=wait)


class Request:
    """A request without a run."""

    def __init__(self, model="m", ceiling=None):
        self.model, self.ceiling, self.begun_at, self.is_lost = model, ceiling, 0.0, False

    def wake(self):
        """Do nothing: the tests look again themselves."""


class TimedGate(Gate):
    """A gate with a clock of its own."""

    def __init__(self, now=0.0):
        super().__init__()
        self.now = now

    def clock(self):
        """Return the time that the test has set."""
        return self.now

    def begin(self, count=1, model="m"):
        """Begin requests, which must be possible."""
        requests = [Request(model) for _ in range(count)]
        assert [self.enter(request) for request in requests] == [None] * count
        return requests

    def obstacle(self, model="m", ceiling=None):
        """Return why one more request would have to wait; it leaves again."""
        request = Request(model, ceiling)
        found = self.enter(request)
        if found is None:
            self.under_way.discard(request)
            closing = self.closings.get(model)
            if closing is not None and closing.probe is request:
                closing.probe = None
        self.leave_queue(request)
        return found

    def is_probed(self):
        """Return whether one more request would wait for a probe."""
        obstacle = self.obstacle()
        return obstacle is not None and obstacle.is_probed


def closed(wait, now=100.0, status=429):
    """Return a gate whose only request was refused with a wait."""
    gate = TimedGate(now)
    (request,) = gate.begin()
    gate.end(request, refusal(status, wait))
    return gate


def test_r2_one_burst_halves_once():
    """All requests of a burst are refused, which halves the limit once; a later one halves it again."""
    gate = TimedGate(1.0)
    requests = gate.begin(100)
    gate.now = 2.0
    for request in requests:
        gate.end(request, refusal())
    assert gate.limit() == 50
    gate.now = 3.0
    (late,) = gate.begin()
    gate.now = 4.0
    gate.end(late, refusal())
    assert gate.limit() == 25


def test_r2_each_quiet_minute_allows_one_more():
    """The limit grows with time; any refusal, even one of the same burst, restarts the minute."""
    gate = TimedGate(1.0)
    requests = gate.begin(40)
    for refused_at, *limits in (
        (0, (0, 20), (0.99, 20), (1, 21), (2.5, 22), (60, 80)),
        (1.5, (1.5, 21), (2.4, 21), (2.5, 22)),
    ):
        gate.now = 10 + MINUTE * refused_at
        gate.end(requests.pop(), refusal())
        for minutes, limit in limits:
            gate.now = 10 + MINUTE * minutes
            assert gate.limit() == limit


def test_r3_the_ceiling_holds_whatever_the_api_takes():
    """A ceiling is not a starting point: it applies without refusals, and the smaller of both limits counts."""
    gate = TimedGate()
    gate.begin(3)
    assert gate.obstacle(ceiling=3) == ("at most 3 requests at once (requests_at_once)", None, None, False)
    assert gate.obstacle(ceiling=4) is None


@pytest.mark.parametrize(
    ("status", "wait", "holds", "probes"),
    [
        (429, None, 0, False),
        (429, 60, 60, False),
        (429, 61, 61, True),
        (429, math.inf, LONGEST_CLOSING, True),
        (529, 20, 0, False),
        (503, 90, 90, True),
    ],
)
def test_r5_a_requested_wait_closes_the_gate(status, wait, holds, probes):
    """Short waits count with 429 only, long ones always, and none for longer than an hour."""
    gate = closed(wait, 100.0, status)
    assert [(one.until, one.needs_probe) for one in gate.closings.values()] == [(100 + holds, probes)][: bool(holds)]
    if holds:
        gate.now = 100 + holds - 0.001
        assert gate.obstacle().until == 100 + holds
    gate.now = 100.0 + holds
    assert gate.obstacle() is None


def test_r5_a_shorter_wait_does_not_open_a_closed_gate():
    """If several requests are refused at the same time, the longest requested wait applies."""
    gate = TimedGate()
    first, second = gate.begin(2)
    gate.end(first, refusal(429, 300))
    gate.now = 2.0
    gate.end(second, refusal(429, 5))
    assert gate.closings["m"].until == 300


def test_r6_a_probe_that_is_refused_is_repeated_after_a_pause():
    """A refused probe leaves the others waiting; one that was cancelled lets the next one begin."""
    gate = closed(300, 0.0)
    gate.now = 300.0
    (probe,) = gate.begin()
    gate.end(probe)
    assert not gate.is_probed()
    (probe,) = gate.begin()
    gate.end(probe, refusal())
    found = []
    for gate.now in (301.0, 309.9, 310.0):
        found.append(gate.is_probed())
    assert found == [True, True, False]


def test_r6_requests_from_before_the_closing_prove_nothing():
    """A reply to a request that began before the gate was closed does not open it to all."""
    gate = TimedGate()
    old, refused = gate.begin(2)
    gate.end(refused, refusal(429, 300))
    gate.accepted(old)
    gate.now = 301.0
    gate.begin()
    assert gate.is_probed()


class AnyOrder(RuleBasedStateMachine):
    """Begin, end, cancel, accept and refuse requests in any order, at any time."""

    def __init__(self):
        super().__init__()
        self.gate, self.under_way = TimedGate(1000.0), []

    @rule(seconds=st.floats(0, 200), ceiling=st.none() | st.integers(1, 5), model=st.sampled_from("mn"))
    def attempt(self, seconds, ceiling, model):
        """Begin a request if it may."""
        gate, request = self.gate, Request(model, ceiling)
        gate.now += seconds
        if gate.enter(request) is None:
            assert ceiling is None or len(self.under_way) < ceiling
            limit = gate.limit()
            assert limit is None or len(self.under_way) < limit
            self.under_way.append(request)
        else:
            gate.leave_queue(request)

    @precondition(lambda self: self.under_way)
    @rule(place=st.integers(0, 10**6), status=st.sampled_from([429, 503, 529]), wait=st.none() | st.floats(0, 10**6))
    def refuse(self, place, status, wait):
        """Refuse a request; the limit is halved at most."""
        before = self.gate.limit() or max(len(self.under_way), GENEROUS)
        self.gate.end(self.under_way.pop(place % len(self.under_way)), refusal(status, wait))
        assert self.gate.limit() in {before, max(before // 2, 1)}

    @precondition(lambda self: self.under_way)
    @rule(place=st.integers(0, 10**6), answers=st.booleans())
    def end(self, place, answers):
        """End a request, with or without a reply."""
        request = self.under_way.pop(place % len(self.under_way))
        if answers:
            self.gate.accepted(request)
        self.gate.end(request)

    @invariant()
    def holds(self):
        """No place is lost, the limit is at least one, and with nothing under way every wait ends."""
        assert self.gate.under_way == set(self.under_way)
        limit = self.gate.limit()
        assert limit is None or limit >= 1
        if not self.under_way:
            self.gate.now, now = self.gate.now + LONGEST_CLOSING + MINUTE, self.gate.now
            assert self.gate.obstacle(ceiling=1) is None
            self.gate.now = now


TestAnyOrder = AnyOrder.TestCase


KEY = "sk-ant-very-secret-key-123456"


@pytest.fixture
def client():
    """Return a function that makes a client for an address and a key."""

    def make(url="http://127.0.0.1:9", key=KEY):
        return anthropic.make_client(base_url=url, api_key=key)

    return make


def test_r1_a_gate_belongs_to_an_address_and_a_key(client):
    """Clients with the same address and key share a gate; another key, address or path has its own."""
    first = GATES.of(client())
    assert GATES.of(client("http://127.0.0.1:9/")) is first
    others = [GATES.of(client(key="another")), GATES.of(client("http://127.0.0.1:8"))]
    others.append(GATES.of(client("http://127.0.0.1:9/v1")))
    assert len({id(gate) for gate in (first, *others)}) == 4


def test_r1_the_key_is_not_kept(client):
    """Neither the gates nor what they refer to contain the key."""
    gates = Gates()
    gates.of(client())
    seen, todo = set(), [gates]
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, type):
            seen.add(id(one))
            assert not (isinstance(one, str | bytes) and KEY in str(one))
            todo += [each for each in gc.get_referents(one) if not callable(each) and type(each).__name__ != "module"]
    assert len(seen) > 5


def test_r1_gates_that_are_not_in_use_are_forgotten(client, monkeypatch):
    """A program with many keys keeps only the gates with state."""
    monkeypatch.setattr(gate_module, "MOST_GATES", 3)
    gates = Gates()
    busy = gates.of(client(key="busy"))
    busy.under_way.add(object())
    for number in range(10):
        gates.of(client(key=f"key {number}"))
    assert len(gates._gates) <= 3
    assert gates.of(client(key="busy")) is busy


@pytest.mark.parametrize(("text", "number"), [("", None), (" ", None), ("4", 4), (" 12 ", 12)])
def test_r3_the_environment_sets_the_ceiling(monkeypatch, text, number):
    """The variable counts if the caller gives no number."""
    monkeypatch.setenv(VARIABLE, text)
    assert ceiling(None) == number
    assert ceiling(7) == 7


def test_r3_a_number_that_is_none_is_refused(monkeypatch):
    """The error names the variable or the argument, and what it must be."""
    for text in ("0", "-1", "1.5", "many", "٣", "9" * 30):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(UsageError, match=f"{VARIABLE}: must be an integer of at least 1, got '"):
            ceiling(None)
    for given in (0, -3, True, 1.0, "4"):
        with pytest.raises(UsageError, match="requests_at_once: must be an integer of at least 1, got"):
            ceiling(given)
