"""Headers that report rate limits, in the forms of both vendors; servers lie in them."""

from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.admission.rate_headers import quotas
from run_specialist.providers.admission.windows import Quota

NOW = "Wed, 21 Oct 2026 07:28:00 GMT"


def openai(reset, remaining="10", limit="100"):
    """Return the headers of one limit in the form of chat completions."""
    return {
        "x-ratelimit-limit-tokens": limit,
        "x-ratelimit-remaining-tokens": remaining,
        "x-ratelimit-reset-tokens": reset,
        "date": NOW,
    }


def test_r4_the_headers_of_the_messages_api_are_read():
    """Four kinds of limits, their resets as times by the clock of the server, in any case of the names."""
    headers = {
        "Date": NOW,
        "anthropic-ratelimit-unified-5h-status": "allowed",
        "anthropic-priority-input-tokens-limit": "1",
    }
    for kind, limit in (("requests", 50), ("tokens", 90_000), ("input-tokens", 80_000), ("output-tokens", 10_000)):
        headers |= {
            f"Anthropic-RateLimit-{kind}-Limit": str(limit),
            f"Anthropic-RateLimit-{kind}-Remaining": str(limit // 2),
            f"Anthropic-RateLimit-{kind}-Reset": "2026-10-21T07:28:42Z",
        }
    assert quotas(httpx2.Headers(headers)) == (
        Quota("requests", 50, 25, 42),
        Quota("tokens", 90_000, 45_000, 42),
        Quota("input_tokens", 80_000, 40_000, 42),
        Quota("output_tokens", 10_000, 5_000, 42),
    )


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("9ms", 0.009),
        ("1s", 1),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("1d", 86_400),
        ("59.7", 59.7),
        ("0", 0),
        ("1792567682", 2),
        ("1792567682000", 2),
        ("2026-10-21T07:28:42Z", 42),
        ("2026-10-21T09:28:42.5+02:00", 42.5),
        ("2026-10-21T07:28:42", 42),
        ("2015-10-21T07:28:42Z", 0),
        ("1792560000", 0),
    ],
)
def test_r4_the_reset_is_read_in_all_its_forms(reset, seconds):
    """Durations, seconds, times since 1970 and dates; what is over is 0."""
    (quota,) = quotas(httpx2.Headers(openai(reset)))
    assert quota.seconds == pytest.approx(seconds, abs=1e-6)


def test_r4_without_a_date_the_clock_of_this_machine_counts():
    """Not every server tells its time."""
    headers = openai((datetime.now(UTC) + timedelta(seconds=500)).isoformat())
    for date in ("yesterday", "", "Wed, 99 Oct 99999 07:28:00 GMT"):
        (quota,) = quotas({**headers, "date": date})
        assert 400 < quota.seconds <= 500


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/json", "retry-after": "3"},
        openai("soon"),
        openai(""),
        openai("-5s"),
        openai("1s", remaining="-1", limit="-1"),
        openai("1s", remaining="nan"),
        openai("1s", remaining="inf"),
        openai("1s", remaining="1e9"),
        openai("1s", remaining="9" * 400),
        openai("9" * 400),
        openai("1s", remaining="٣"),
        openai("1..5s"),
        {"x-ratelimit-remaining-tokens": "5"},
        {"x-ratelimit-remaining-tokens_usage_based": "0", "x-ratelimit-reset-tokens_usage_based": "9s"},
        {"x-ratelimit-remaining-requests-1h": "0", "x-ratelimit-reset-requests-1h": "9s"},
    ],
    ids=str,
)
def test_r4_what_makes_no_sense_is_ignored(headers):
    """Negative, missing, unreadable and unknown values report nothing."""
    assert quotas(headers) == ()


def test_r4_a_limit_that_is_missing_or_zero_is_unknown():
    """What is left counts all the same."""
    for limit in ("0", "many", ""):
        assert quotas(openai("1s", limit=limit)) == (Quota("tokens", None, 10, 1),)


@given(st.dictionaries(st.sampled_from(list(openai("1s"))), st.text(max_size=80)))
def test_r4_no_header_is_an_error(headers):
    """Whatever a server sends, each figure is a number of at least 0."""
    for quota in quotas(headers):
        assert quota.remaining >= 0
        assert quota.seconds >= 0
