"""Usage and cost reported for runs that reach a limit, over the wire."""

import json

import pytest

from run_specialist.errors import UsageError
from run_specialist.record.messages import Usage
from tests.wire.limited_runs import LONG
from tests.wire.simulator import faults, policies
from tests.wire.specialists import DONE, FORCED, batches, looks
from tests.wire.usage import KEYS, price, used

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("lines", "settings", "place"), [(["cost_limit: 0.5"], {}, r"\S+looker\.md:5:1: "), ([], {"cost_limit": 0.5}, "")]
)
async def test_x_14_a_cost_limit_without_a_price_is_refused(ask_once, lines, settings, place):
    """A cost limit for a model without a price is refused in one line with place, reason and remedy."""
    why = f"^{place}cost_limit: the price of my-own-model is unknown.*total_tokens_limit[^\n]*$"
    with pytest.raises(UsageError, match=why):
        await ask_once([], *lines, model="my-own-model", api={"models": ()}, **settings)
    assert ask_once.started[-1].requests == []


async def test_x_14_the_landing_reports_its_own_usage_and_cost(ask):
    """The landing reports the usage and cost of its own requests, besides the total."""
    told = await ask(policies.always_tool("look"), "tool_calls_limit: 4", tools=[LONG])
    (landing,) = used(told.requests[-1:])
    outcome = json.loads(json.dumps(told.outcome.as_json()))
    billed = {key: told.requests[-1].usage[key] for key in KEYS}
    assert outcome["landing"]["usage"] == {**billed, "web_search_requests": 0}
    assert outcome["landing"]["cost_usd"] == pytest.approx(price(landing), abs=1e-8)
    assert told.outcome.usage == sum(used(told.requests), Usage())
    assert outcome["cost_usd"] == pytest.approx(sum(map(price, used(told.requests))), abs=1e-8)


async def test_x_14_a_landing_reports_the_sum_of_its_requests(ask_once):
    """If force, order and none are ignored, the landing reports the sum of three requests and no call is run."""
    told = await ask_once(policies.ignores_everything("look"), "tool_calls_limit: 2", tools=[LONG])
    rungs = used(told.requests[2:])
    assert told.outcome.landing.requests == len(rungs) == 3
    assert told.outcome.landing.usage == sum(rungs, Usage())
    assert told.outcome.landing.cost_usd == pytest.approx(sum(map(price, rungs)), abs=1e-8)


async def test_x_14_a_refused_request_is_not_billed(ask_once):
    """A request refused with a 400 on forcing is neither counted nor billed."""
    refusal = faults.invalid('tool_choice: type "tool" and "any" are not supported for this model.')
    told = await ask_once([*batches(1), refusal, DONE], "tool_calls_limit: 1", tools=[LONG])
    assert told.outcome.landing.requests == 1
    assert told.outcome.landing.usage == used(told.requests[2:])[0]
    assert told.outcome.limits["turns"].used == 2


async def test_x_14_exceeding_a_limit_is_a_warning(ask_once):
    """If a reply unforeseeably exceeds a limit, `limits` shows the real figure and a warning reports it."""
    huge = {"input_tokens": 50_000, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    told = await ask_once([looks("a", usage=huge), DONE], "total_tokens_limit: 30000")
    assert told.choices == [None, FORCED]
    assert told.outcome.limits["tokens"].used > 50_000
    assert any(" tokens used, more than the limit of 30,000 tokens: " in warning for warning in told.outcome.warnings)
    assert told.outcome.status == "landed"
