"""Check, before a run that shares a cost limit, that its cost can be computed."""

from run_specialist.errors import UsageError
from run_specialist.providers.base import Provider
from run_specialist.providers.model_chain import models_of
from run_specialist.record.messages import Usage


class PriceUnknown(UsageError):
    """A cost limit cannot be enforced because the price of the model is unknown."""


def check_price(provider: Provider) -> None:
    """Raise PriceUnknown if the price of any model that the run may use is unknown."""
    for one in models_of(provider):
        if one.cost(Usage(1)) is None:
            raise PriceUnknown(
                f"cost_limit: the price of {one.model} is unknown, so its cost cannot be limited; remove "
                "cost_limit, or set total_tokens_limit instead"
            )
