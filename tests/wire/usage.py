"""Usage and cost of requests, as the simulated Messages API reported them."""

from collections.abc import Sequence

from run_specialist.providers.models import cost
from run_specialist.record.messages import Usage
from tests.wire.simulator import Recorded

KEYS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def used(requests: Sequence[Recorded]) -> list[Usage]:
    """Return the usage reported for each request."""
    return [Usage(*(request.usage[key] for key in KEYS)) for request in requests]


def price(usage: Usage) -> float | None:
    """Return the cost of one request to the model of these tests [USD]."""
    return cost(usage, "claude-haiku-5-5", "anthropic")
