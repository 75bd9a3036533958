"""The cost of a request."""

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.providers.models import cost
from run_specialist.record.messages import Usage
from tests.plugins.tiers import examples

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "usage", "dollars"),
    [
        ("claude-opus-5-5", Usage(MILLION), 4),
        ("claude-opus-5-5", Usage(0, 0, 0, MILLION), 20),
        ("claude-sonnet-5-5", Usage(MILLION, 0, 0, MILLION), 12),
        ("claude-sonnet-5-5", Usage(0, MILLION, 0, 0), 0.10),
        ("claude-sonnet-5-5", Usage(0, 0, MILLION, 0), 2.50),
        ("claude-fable-5-2", Usage(MILLION, 0, 0, MILLION), 48),
    ],
)
def test_each_kind_of_token_has_its_price(model, usage, dollars):
    """Plain input, cache reads, cache writes and output are priced separately."""
    assert cost(usage, model, "anthropic") == pytest.approx(dollars)


def test_a_price_may_depend_on_the_size_of_the_request():
    """A price may depend on the request's size, so usages must not be summed before pricing.

    Haiku costs five times as much above 100,000 tokens.
    """
    small, large = (cost(Usage(tokens), "claude-haiku-5-5", "anthropic") for tokens in (100_000, 200_000))
    assert small == pytest.approx(0.01)
    assert large == pytest.approx(0.10)


def test_an_unknown_model_has_no_price():
    """An unknown model has no price; none is guessed."""
    assert cost(Usage(1_000), "my-own-model", "anthropic") is None
    assert cost(Usage(1_000), "gpt-5", "anthropic") is None


LISTED = [(vendor.id, model.id) for vendor in get_snapshot().providers for model in vendor.models]
TOKENS = st.integers(0, 2 * MILLION)


@settings(max_examples=examples(200))
@given(st.sampled_from([one for one in LISTED if one[0] in {"anthropic", "openai"}]), TOKENS, TOKENS, TOKENS, TOKENS)
def test_every_price_equals_that_of_the_price_list(listed, plain, read, written, output):
    """For every model and size the cost equals what the price list's own arithmetic gives."""
    vendor, model = listed
    usage = genai_prices.Usage(
        input_tokens=plain + read + written, cache_read_tokens=read, cache_write_tokens=written, output_tokens=output
    )
    try:
        expected = float(genai_prices.calc_price(usage, model, provider_id=vendor).total_price)
    except LookupError:  # some entries of the list are patterns, and no models
        expected = None
    found = cost(Usage(plain, read, written, output), model, vendor)
    assert found == (expected if expected is None else pytest.approx(expected, rel=1e-9))
