"""What is left of rate limits: reported, reduced by what begins, corrected by usage, full again after the reset."""

from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.admission.windows import LONGEST_RESET, Cost, ModelUse, Quota

SMALL = Cost(1, 100, 90, 10)


def use(*quotas, now=0.0):
    """Return the use after one small request whose reply reported some limits."""
    begun = ModelUse("m").with_begun(now, 1, SMALL)
    return begun.reported(now, 1, begun.begun, quotas)


def left(one, kind="tokens"):
    """Return what is left of a limit."""
    return next(window.remaining for window in one.windows if window.kind == kind)


def test_r4_what_begins_is_subtracted_as_estimated():
    """Two requests of 400 tokens fit into 1,000; a third one waits until the reset, and then may begin."""
    one = use(Quota("tokens", 1000, 1000, 20))
    large = Cost(1, 400, 400, 0)
    one = one.with_begun(1.0, 2, large).with_begun(2.0, 3, large)
    assert left(one) == 200
    assert one.obstacle(3.0, large).resets_at == 20
    assert one.obstacle(3.0, SMALL) is None
    assert one.obstacle(20.0, large) is None


def test_r4_after_the_reset_no_more_begin_than_the_limit_has():
    """Requests that waited for the reset do not all begin at the same time."""
    one, large = use(Quota("tokens", 1000, 0, 20)), Cost(1, 400, 400, 0)
    one = one.with_begun(21.0, 2, large).with_begun(21.0, 3, large)
    assert one.obstacle(21.0, large).resets_at == 21 + LONGEST_RESET


def test_r4_the_usage_settles_an_estimate():
    """A request that used less than estimated gives the rest back, unless the API has counted it already."""
    one = use(Quota("tokens", 1000, 1000, 20)).with_begun(1.0, 2, Cost(1, 900, 900, 0))
    settled = one.settled(2.0, 2, Cost(1, 900, 900, 0), Cost(1, 150, 100, 50))
    assert (left(one), left(settled)) == (100, 850)
    counted = one.without(1).reported(2.0, 2, one.begun, [Quota("tokens", 1000, 700, 20)])
    assert left(counted.settled(3.0, 2, Cost(1, 900, 900, 0), Cost(1, 150, 100, 50))) == 700


def test_r4_later_requests_are_subtracted_from_a_report():
    """A report is older than the requests that began while it was on its way."""
    first = ModelUse("m").with_begun(0.0, 1, SMALL)
    one = first.with_begun(1.0, 2, Cost(1, 400, 400, 0)).reported(2.0, 1, first.begun, [Quota("tokens", 1000, 900, 20)])
    assert left(one) == 500


def test_r4_an_older_report_does_not_replace_a_newer_one():
    """The reply to a long request may arrive after those to later ones; once its window is over it counts."""
    first = ModelUse("m").with_begun(0.0, 1, SMALL)
    second = first.with_begun(5.0, 2, SMALL)
    one = second.reported(6.0, 2, second.begun, [Quota("tokens", 1000, 10, 20)])
    assert left(one.reported(7.0, 1, first.begun, [Quota("tokens", 1000, 1000, 20)])) == 10
    assert left(one.reported(30.0, 1, first.begun, [Quota("tokens", 1000, 1000, 20)])) == 900


def test_r4_requests_that_may_arrive_in_another_order_are_subtracted():
    """A reply may report what is left before the requests that began shortly before it have arrived."""
    one = ModelUse("m").with_begun(0.0, 1, SMALL).with_begun(5.0, 2, SMALL).with_begun(5.5, 3, SMALL)
    assert left(one.reported(6.0, 3, one.begun, [Quota("tokens", 1000, 900, 20)])) == 800
    assert left(one.without(2).reported(6.0, 3, one.begun, [Quota("tokens", 1000, 900, 20)])) == 900


def test_r4_a_request_larger_than_the_limit_is_estimated_without_its_reply():
    """An input that is larger than the limit needs a full window; it may be fewer tokens than estimated."""
    long, huge = Cost(1, 5000, 400, 4600), Cost(1, 5000, 5000, 0)
    assert use(Quota("tokens", 1000, 400, 20)).obstacle(1.0, long) is None
    assert use(Quota("tokens", 1000, 399, 20)).obstacle(1.0, long).resets_at == 20
    assert use(Quota("tokens", 1000, 1000, 20)).obstacle(1.0, huge) is None
    assert use(Quota("tokens", 1000, 999, 20)).obstacle(1.0, huge).resets_at == 20


def test_r4_a_limit_that_is_used_up_holds_requests_that_cost_nothing():
    """Output that is not counted in advance waits only for a limit of which nothing is left."""
    cost = Cost(1, 10, 10, 0)
    assert use(Quota("output_tokens", 1000, 1, 20)).obstacle(1.0, cost) is None
    assert use(Quota("output_tokens", 1000, 0, 20)).obstacle(1.0, cost).kind == "output_tokens"


def test_r4_no_reset_is_waited_for_longer_than_a_minute():
    """A header that names a reset in an hour, or in a thousand years, holds a request for a minute."""
    for seconds in (3600, 1e12, float("inf")):
        assert use(Quota("requests", 50, 0, seconds)).obstacle(1.0, SMALL).resets_at == LONGEST_RESET


def test_r4_the_longest_of_several_waits_counts():
    """A request needs all kinds of limits."""
    one = use(Quota("requests", 50, 0, 5), Quota("tokens", 1000, 0, 40), Quota("input_tokens", 1000, 900, 50))
    assert one.obstacle(1.0, SMALL).kind == "tokens"


@given(
    st.lists(st.tuples(st.integers(0, 500), st.floats(0, 30), st.booleans()), max_size=40),
    st.integers(1, 1000),
)
def test_r4_requests_that_wait_never_take_more_than_a_window_has(requests, limit):
    """Within one window, the requests that may begin are estimated at no more than the limit, but for a single one."""
    one, now, spent, window = use(Quota("tokens", limit, limit, 30)), 0.0, 0, 0.0
    for number, (size, seconds, settles) in enumerate(requests, 2):
        now, cost = now + seconds, Cost(1, size, size, 0)
        if (current := next(w for w in one.windows).at(now)).resets_at != window:
            spent, window = 0, current.resets_at
        if one.obstacle(now, cost) is None:
            assert spent + min(max(size, 1), limit) <= limit
            one = one.with_begun(now, number, cost)
            spent += size
            window = next(w for w in one.windows).resets_at
            if settles:
                one = one.settled(now, 99, cost, Cost(1, size // 2, size // 2, 0))
                spent -= size - size // 2
