"""Which failures the gate counts as refusals, with the real SDKs of both APIs."""

from dataclasses import replace

import pytest

from run_specialist.providers import anthropic, openai_chat
from run_specialist.providers.admission import GATES, GENEROUS
from tests.loop_jobs import job, outcome_of
from tests.wire.chat import faults as chat_faults
from tests.wire.simulator import faults
from tests.wire.simulator.replies import says

pytestmark = pytest.mark.anyio
NEVER = {"x-should-retry": "false"}


def with_headers(fault, **headers):
    """Return a failure with more headers."""
    return replace(
        fault, headers={**fault.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
    )


async def state_after(api, *, watch=None, module=anthropic, **settings):
    """Return the gate after a run."""
    async with module.make_client(base_url=api.base_url, api_key="test") as client:
        kind = anthropic.AnthropicProvider if module is anthropic else openai_chat.ChatProvider
        await outcome_of(job(kind("haiku", client), **settings), watch=watch)
        return GATES.of(client)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("fault", "halves", "closes"),
    [
        (faults.rate_limited(), True, False),
        (faults.rate_limited(900), True, True),
        (faults.overloaded(), True, False),
        (faults.overloaded(900), True, True),
        (faults.ApiError(503, "api_error", "no slot"), True, False),
        (with_headers(faults.overloaded(), **NEVER), False, False),
        (with_headers(faults.rate_limited(900), **NEVER), True, True),
        (faults.server_error(), False, False),
        (faults.unauthorised(), False, False),
        (faults.ConnectionReset(), False, False),
        (faults.Raw(200, b"no JSON"), False, False),
    ],
    ids=lambda value: f"{value.status}" if hasattr(value, "status") else str(value),
)
async def test_r2_r5_only_refusals_count(messages_api, fault, halves, closes):
    """429, 503 and 529 do, unless they are final; other failures leave the gate as it is, and no place is lost."""
    state = await state_after(messages_api([fault]), patience=0)
    assert (state.most == GENEROUS // 2, state.most is None) == (halves, not halves)
    assert bool(state.closings) is closes
    assert not state.under_way


async def test_r2_an_overload_in_mid_stream_counts(messages_api):
    """An `error` event in the middle of a reply is a refusal, although its status is 200."""
    api = messages_api([faults.ErrorEvent(says("The first half of an answer."), after_events=4)])
    state = await state_after(api, watch=lambda delta: None, patience=0)
    assert (state.most, state.under_way) == (GENEROUS // 2, set())


async def test_r2_an_exhausted_quota_does_not_count(chat_api):
    """No waiting restores it, so that it neither halves nor closes anything."""
    api = chat_api([chat_faults.error(429, "You exceeded your quota.", code="insufficient_quota")])
    state = await state_after(api, module=openai_chat)
    assert (state.most, state.closings) == (None, {})
