"""What a request costs, as the price list of genai-prices knows it."""

from functools import cache
from typing import Any

from run_specialist.record.messages import Usage

MILLION = 1_000_000


def cost(usage: Usage, model: str, vendor: str) -> float | None:
    """Return the price of one request [USD]; None for a model that is not on the list, never a guess.

    usage: of one request only, for some prices depend on its size.
    model: full id.
    vendor: whose model it is, `anthropic` or `openai`.
    """
    prices = _prices(model, vendor)
    if prices is None:
        return None
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    whole = usage.input_tokens + read + written
    plain = _rate(prices.input_mtok, whole, 0)
    return (
        usage.input_tokens * plain
        + read * _rate(prices.cache_read_mtok, whole, plain)
        + written * _rate(prices.cache_write_mtok, whole, plain)
        + usage.output_tokens * _rate(prices.output_mtok, whole, 0)
    ) / MILLION


def _rate(price: Any, whole: int, otherwise: float) -> float:  # noqa: ANN401 - as below
    """Return the price of a kind of tokens [USD per million].

    whole: the size of the request's input, on which it may depend [tokens].
    """
    if price is None:
        return otherwise
    over = [tier.price for tier in getattr(price, "tiers", ()) if whole > tier.start]
    return float(over[-1] if over else getattr(price, "base", price))


@cache
def _prices(model: str, vendor: str) -> Any:  # noqa: ANN401 - the list's own type
    # Looked up once: the list's own arithmetic would take a tenth of the time between two requests.
    import genai_prices  # noqa: PLC0415 - 0.15 s of CPU, paid on the way to a request only

    try:
        return genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model, provider_id=vendor).model_price
    except LookupError:
        return None
