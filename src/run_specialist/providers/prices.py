"""Calculate the cost of a request with the price list of genai-prices."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from run_specialist.record.messages import Usage

MILLION = 1_000_000
SEARCH = 0.01
"""Price of one web search by the Messages API, which bills 10 USD per 1,000 [USD]."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, without its reduced price for cached input."""

    input: float
    """Price of input [USD per million tokens]."""
    output: float
    """Price of output [USD per million tokens]."""
    higher_above: int | None = None
    """Size of the input above which a request costs more [tokens]; None = never."""


def price(model: str, vendor: str) -> Price | None:
    """Return the price of small requests; None if the model is not on the list.

    model, vendor: as for `cost`.
    """
    prices = _prices(model, vendor)
    if prices is None:
        return None
    kinds = (prices.input_mtok, prices.output_mtok)
    starts = [tier.start for kind in kinds for tier in getattr(kind, "tiers", ())]
    return Price(_rate(kinds[0], 0, 0), _rate(kinds[1], 0, 0), min(starts, default=None))


def cost(usage: Usage, model: str, vendor: str) -> float | None:
    """Return the price of one request [USD]; None if the model is not on the list.

    usage: usage of a single request, since some prices depend on its size.
    model: full id.
    vendor: `anthropic` or `openai`.
    """
    prices = _prices(model, vendor)
    if prices is None:
        return None
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    input_size = usage.input_tokens + read + written
    plain = _rate(prices.input_mtok, input_size, 0)
    return (
        usage.input_tokens * plain
        + read * _rate(prices.cache_read_mtok, input_size, plain)
        + written * _rate(prices.cache_write_mtok, input_size, plain)
        + usage.output_tokens * _rate(prices.output_mtok, input_size, 0)
    ) / MILLION + usage.web_search_requests * SEARCH


def _rate(price: Any, input_size: int, default: float) -> float:  # noqa: ANN401 - as below
    """Return the price of a kind of tokens [USD per million].

    input_size: size of the request's input, which selects the price tier [tokens].
    default: price if the list has none.
    """
    if price is None:
        return default
    over = [tier.price for tier in getattr(price, "tiers", ()) if input_size > tier.start]
    return float(over[-1] if over else getattr(price, "base", price))


@cache
def _prices(model: str, vendor: str) -> Any:  # noqa: ANN401 - a type of genai-prices
    # Cached: a full price calculation would take a tenth of the time between two requests.
    import genai_prices  # noqa: PLC0415 - the import takes 0.15 s

    try:
        return genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model, provider_id=vendor).model_price
    except LookupError:
        return None
