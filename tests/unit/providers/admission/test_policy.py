"""The policy of a gate: pure transitions on begins, ends, refusals and time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from run_specialist.providers.admission import (
    GENEROUS,
    LONGEST_CLOSING,
    MINUTE,
    PROBE_SPACING,
    Cause,
    GateState,
    RateLimitRefusal,
)

BUSY = RateLimitRefusal(529, None, "busy")


def begun(state, now, count=1):
    """Return the state after some requests began, and the requests."""
    requests = []
    for _ in range(count):
        state, request = state.begin(now, "m")
        requests.append(request)
    return state, requests


def cause(state, now, ceiling=None):
    """Return why a request has to wait; None if it may begin."""
    obstacle = state.obstacle(now, "m", ceiling)
    return obstacle and obstacle.cause


def closed(wait, now=100.0, status=429):
    """Return the state after the only request was refused with a wait."""
    state, (request,) = begun(GateState(), now)
    return state.refused(now, request, RateLimitRefusal(status, wait, "the API answered 429")).ended(
        request, was_refused=True
    )


def test_r2_without_a_refusal_nothing_waits():
    """Ten thousand requests may be under way at the same time as long as none is refused."""
    state, _ = begun(GateState(), 0.0, 10_000)
    assert cause(state, 0.0) is None


def test_r2_one_burst_halves_once():
    """All requests of a burst are refused, which halves the limit once; a later one halves it again."""
    state, requests = begun(GateState(), 1.0, 100)
    for request in requests:
        state = state.refused(2.0, request, BUSY).ended(request, was_refused=True)
    assert state.limit(2.0) == 50
    state, (late,) = begun(state, 3.0)
    assert state.refused(4.0, late, BUSY).limit(4.0) == 25


def test_r2_a_single_refused_request_still_leaves_a_generous_number():
    """One overload while a single request is under way does not make a later crowd wait for one another."""
    state, (request,) = begun(GateState(), 1.0)
    assert state.refused(2.0, request, BUSY).limit(2.0) == GENEROUS // 2


def test_r2_the_limit_never_falls_below_one():
    """However often requests are refused, one at a time is allowed."""
    state, now = GateState(), 0.0
    for _ in range(20):
        now += 1
        state, (request,) = begun(state, now)
        state = state.refused(now, request, BUSY).ended(request, was_refused=True)
    assert state.limit(now) == 1
    assert cause(state, now) is None
    assert cause(begun(state, now)[0], now) is Cause.AT_ONCE


def test_r2_each_quiet_minute_allows_one_more():
    """The limit grows with time; any refusal, even one of the same burst, restarts the minute."""
    state, requests = begun(GateState(), 1.0, 40)
    state = state.refused(10.0, requests[0], BUSY)
    assert [state.limit(10 + MINUTE * minutes) for minutes in (0, 0.99, 1, 2.5, 60)] == [20, 20, 21, 22, 80]
    again = state.refused(10 + 1.5 * MINUTE, requests[1], BUSY)
    assert [again.limit(10 + MINUTE * minutes) for minutes in (1.5, 2.4, 2.5)] == [21, 21, 22]


def test_r3_the_ceiling_holds_whatever_the_api_takes():
    """A ceiling is not a starting point: it applies without refusals, and the smaller of both limits counts."""
    state, _ = begun(GateState(), 0.0, 3)
    assert cause(state, 0.0, 3) is Cause.AT_ONCE
    assert cause(state, 0.0, 4) is None
    assert state.obstacle(0.0, "m", 3).until is None


@pytest.mark.parametrize(
    ("status", "wait", "holds", "probes"),
    [
        (429, None, 0, False),
        (429, 20, 20, False),
        (429, 60, 60, False),
        (429, 61, 61, True),
        (429, math.inf, LONGEST_CLOSING, True),
        (429, 1e9, LONGEST_CLOSING, True),
        (529, 20, 0, False),
        (503, 60, 0, False),
        (529, 90, 90, True),
        (503, 90, 90, True),
    ],
)
def test_r5_a_requested_wait_closes_the_gate(status, wait, holds, probes):
    """Short waits count with 429 only, long ones always, and none for longer than an hour."""
    state = closed(wait, 100.0, status)
    assert state.closed_until == (100 + holds if holds else 0)
    assert state.needs_probe is probes
    if holds:
        assert cause(state, 100 + holds - 0.001) is Cause.CLOSED
        assert state.obstacle(100.0, "m").seconds(100.0) == holds
    assert cause(state, 100.0 + holds) is None


def test_r5_a_shorter_wait_does_not_open_a_closed_gate():
    """If several requests are refused at the same time, the longest requested wait applies."""
    state, (first, second) = begun(GateState(), 0.0, 2)
    state = state.refused(1.0, first, RateLimitRefusal(429, 300, "a")).refused(
        2.0, second, RateLimitRefusal(429, 5, "b")
    )
    assert state.closed_until == 301


def test_r6_after_a_closing_one_request_at_a_time_is_tried():
    """The first request is a probe; others wait until it is accepted, or for ten seconds."""
    state, (probe,) = begun(closed(300, 0.0), 300.0)
    assert probe.is_probe
    assert cause(state, 301.0) is Cause.PROBE
    assert cause(state.accepted(probe), 302.0) is None
    assert cause(state, 300 + PROBE_SPACING) is None


def test_r6_a_probe_that_is_refused_is_repeated_after_a_pause():
    """A refused probe leaves the others waiting; one that was cancelled lets the next one begin."""
    state, (probe,) = begun(closed(300, 0.0), 300.0)
    refused = state.refused(301.0, probe, BUSY).ended(probe, was_refused=True)
    assert [cause(refused, now) for now in (301.0, 309.9, 310.0)] == [Cause.PROBE, Cause.PROBE, None]
    assert cause(state.ended(probe), 301.0) is None


def test_r6_requests_from_before_the_closing_prove_nothing():
    """A reply to a request that began before the gate was closed does not open it to all."""
    state, (old, refused) = begun(GateState(), 0.0, 2)
    state = state.refused(1.0, refused, RateLimitRefusal(429, 300, "a")).ended(refused, was_refused=True)
    state, _ = begun(state.accepted(old), 301.0)
    assert cause(state, 302.0) is Cause.PROBE


class AnyOrder(RuleBasedStateMachine):
    """Begin, end, cancel, accept and refuse requests in any order, at any time."""

    def __init__(self):
        super().__init__()
        self.state, self.now, self.under_way, self.cuts = GateState(), 1000.0, [], 0

    @rule(seconds=st.floats(0, 200), ceiling=st.none() | st.integers(1, 5))
    def attempt(self, seconds, ceiling):
        """Begin a request if it may."""
        self.now += seconds
        if self.state.obstacle(self.now, "m", ceiling) is None:
            assert ceiling is None or len(self.under_way) < ceiling
            limit = self.state.limit(self.now)
            assert limit is None or len(self.under_way) < limit
            self.state, request = self.state.begin(self.now, "m")
            self.under_way.append(request)

    @precondition(lambda self: self.under_way)
    @rule(place=st.integers(0, 10**6), status=st.sampled_from([429, 503, 529]), wait=st.none() | st.floats(0, 10**6))
    def refuse(self, place, status, wait):
        """Refuse a request; the limit is halved at most."""
        request = self.under_way.pop(place % len(self.under_way))
        before = self.state.limit(self.now) or max(len(self.under_way) + 1, GENEROUS)
        self.state = self.state.refused(self.now, request, RateLimitRefusal(status, wait, "busy"))
        assert self.state.limit(self.now) in {before, max(before // 2, 1)}
        self.state = self.state.ended(request, was_refused=True)

    @precondition(lambda self: self.under_way)
    @rule(place=st.integers(0, 10**6))
    def answer(self, place):
        """Answer a request."""
        request = self.under_way.pop(place % len(self.under_way))
        self.state = self.state.accepted(request).ended(request)

    @precondition(lambda self: self.under_way)
    @rule(place=st.integers(0, 10**6))
    def cancel(self, place):
        """End a request without a reply."""
        self.state = self.state.ended(self.under_way.pop(place % len(self.under_way)))

    @invariant()
    def holds(self):
        """No place is lost, the limit is at least one, and with nothing under way every wait ends."""
        assert self.state.under_way == len(self.under_way)
        limit = self.state.limit(self.now)
        assert limit is None or limit >= 1
        if not self.under_way:
            assert self.state.obstacle(self.now + LONGEST_CLOSING + MINUTE, "m", 1) is None


TestAnyOrder = AnyOrder.TestCase


@given(st.integers(1, 500), st.integers(1, 500), st.floats(0, 1e6))
def test_r3_a_ceiling_is_never_exceeded(ceiling, wanted, now):
    """Requests that begin only when they may never exceed the ceiling, and reach it."""
    state = GateState()
    for _ in range(wanted):
        if state.obstacle(now, "m", ceiling) is None:
            state, _ = state.begin(now, "m")
    assert state.under_way == min(ceiling, wanted)


def test_m_8_a_gate_that_was_closed_for_one_model_lets_another_one_of_the_same_run_pass():
    """A run that has changed its model is held only by refusals of its new model; all other runs are held."""
    state = closed(900.0)

    def held(model, *, changed):
        obstacle = state.obstacle(101.0, model, has_changed_model=changed)
        return obstacle and obstacle.cause

    assert (held("m", changed=True), held("n", changed=True), held("n", changed=False)) == (
        Cause.CLOSED,
        None,
        Cause.CLOSED,
    )
    state, passing = state.begin(101.0, "n", has_changed_model=True)
    assert not passing.is_probe
    # Its reply says nothing about the model that was refused.
    accepted = state.accepted(passing)
    assert (accepted.needs_probe, accepted.closed_until) == (True, state.closed_until)
    state = state.refused(102.0, passing, RateLimitRefusal(429, 900.0, "busy")).ended(passing, was_refused=True)
    assert (held("n", changed=True), held("m", changed=True), held("o", changed=True)) == (
        Cause.CLOSED,
        Cause.CLOSED,
        None,
    )
    # After the next closing only the model of that one is held.
    state, probe = state.begin(2_000.0, "m")
    assert probe.is_probe
    state = state.accepted(probe).ended(probe)
    state, (late,) = begun(state, 2_002.0)
    state = state.refused(2_003.0, late, RateLimitRefusal(429, 900.0, "busy"))
    assert state.closed_for == {"m"}
