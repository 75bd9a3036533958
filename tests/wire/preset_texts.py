"""Texts that the presets add to results and requests."""

WARNING = (
    "You have used most of your available tool calls. Please complete your research now and prepare to provide your "
    "final response. You may make one more tool call if essential, but prioritize completion."
)
ORDER = "0 tool calls remain and only a call of `respond` will be heard"


def last_lines(told):
    """Return the text after the raw result in each request, None if there is none."""
    ends = [results[-1].partition("\n")[2] for results in told.results]
    return [end or None for end in ends]


def left(number, limit):
    """Return the line of the preset `budget-notice` while calls remain."""
    return f"[budget: {number} of {limit} tool calls left — wrap up soon]"


NOW = "[budget: 0 left — finalize NOW]"
