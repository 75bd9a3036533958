"""What a request costs, as the price list of genai-prices knows it."""

from run_specialist.messages import Usage


def cost(usage: Usage, model: str, vendor: str) -> float | None:
    """Return the price of one request [USD]; None for a model that is not on the list, never a guess.

    usage: of one request only, for some prices depend on its size.
    model: full id.
    vendor: whose model it is, `anthropic` or `openai`.
    """
    import genai_prices  # noqa: PLC0415 - 0.15 s of CPU, paid on the way to a request only

    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    counted = genai_prices.Usage(
        input_tokens=usage.input_tokens + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(genai_prices.calc_price(counted, model, provider_id=vendor).total_price)
    except LookupError:
        return None
