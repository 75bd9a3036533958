"""Headers that say whether and when to retry; servers lie in them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.errors import is_retryable, requested_wait

NOW = "Wed, 21 Oct 2026 07:28:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "3600000000"}, 3_600_000_000),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "when it suits"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "inf"}, math.inf),
        ({"retry-after": "9" * 400}, math.inf),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9),
        ({"retry-after-ms": "-1", "retry-after": "9"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:42 GMT", "date": NOW}, 42),
        ({"retry-after": "Wed, 21 Oct 2026 09:28:42 +0200", "date": NOW}, 42),
        ({"retry-after": "Wed, 21 Oct 2026 07:27:00 GMT", "date": NOW}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT", "date": "yesterday"}, None),
        ({"retry-after": "Wed, 99 Oct 99999 07:28:00 GMT"}, None),
    ],
)
def test_w3_the_requested_wait_is_read_or_ignored(headers, seconds):
    """Seconds, milliseconds and dates by the server's clock are read; values that make no sense are ignored."""
    assert requested_wait(headers) == seconds


def test_w3_a_late_date_is_measured_from_now_without_a_clock_of_the_server():
    """Without a `Date` header the own clock counts."""
    assert requested_wait({"retry-after": "Wed, 21 Oct 2400 07:28:00 GMT"}) > 365 * 86_400


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "date"]), st.text(max_size=40)))
def test_w3_any_header_gives_a_wait_above_0_or_none(headers):
    """No text is an error, and no wait is negative or no number."""
    wait = requested_wait(headers)
    assert wait is None or wait > 0


@pytest.mark.parametrize(
    ("status", "headers", "retried"),
    [
        *((status, {}, True) for status in (408, 409, 429, 500, 502, 503, 504, 529)),
        *((status, {}, False) for status in (400, 401, 402, 403, 404, 413, 418, 422)),
        (529, {"x-should-retry": "false"}, False),
        (401, {"x-should-retry": "true"}, True),
        (401, {"x-should-retry": "maybe"}, False),
    ],
)
def test_w1_the_statuses_that_are_retried_are_those_of_the_sdks(status, headers, retried):
    """Timeouts, locks, rate limits and server errors are retried, unless the server says otherwise."""
    assert is_retryable(status, headers) is retried
