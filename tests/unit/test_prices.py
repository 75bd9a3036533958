"""What a request costs."""

import pytest

from run_specialist.messages import Usage
from run_specialist.prices import cost

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
    """Plain input, cache reads, cache writes and output are priced apart."""
    assert cost(usage, model, "anthropic") == pytest.approx(dollars)


def test_a_price_may_depend_on_the_size_of_the_request():
    """Haiku costs five times as much above 100,000 tokens, so usages must not be summed before they are priced."""
    small, large = (cost(Usage(tokens), "claude-haiku-5-5", "anthropic") for tokens in (100_000, 200_000))
    assert small == pytest.approx(0.01)
    assert large == pytest.approx(0.10)


def test_an_unknown_model_has_no_price():
    """It is never guessed."""
    assert cost(Usage(1_000), "my-own-model", "anthropic") is None
    assert cost(Usage(1_000), "gpt-5", "anthropic") is None
