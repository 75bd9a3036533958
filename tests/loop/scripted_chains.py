"""Scripted models with names and prices of their own, in chains."""

from run_specialist.errors import ProviderError
from run_specialist.providers.choose import ModelChain
from tests.scripted_provider import ScriptedProvider

GONE = ProviderError("the API answered 404: no such model", kind="model_missing")


class Model(ScriptedProvider):
    """A scripted model with a name and a price of its own."""

    def __init__(self, name, script, price=1.0, **options):
        super().__init__(script, **options)
        self.model, self._price = name, price

    def cost(self, usage):
        """Return the price of so many cents a thousand tokens."""
        return self._price * usage.total_tokens / 100_000 if self.priced else None


def chained(*scripts, **options):
    """Return a chain of the models a, b, c, each twice as expensive as the one before."""
    first, *others = (
        Model(name, script, 2.0**number, **options)
        for number, (name, script) in enumerate(zip("abc", scripts, strict=False))
    )
    return ModelChain(first, others), [first, *others]
