"""The models of one run, of which the next one is asked once the present one fails; to its run they are one provider.

What a change does to the run itself is in `loop/model_change.py`.
"""

from collections.abc import Awaitable, Callable, Sequence

from run_specialist.errors import ProviderError, ProviderErrorKind
from run_specialist.providers.base import Capabilities, Conversation, Opening, Provider, Watch
from run_specialist.record.messages import Usage

PATIENCE = 10.0
"""How long one request is retried while there is another model to ask [s].

Long enough for an overload that passes in a moment, which costs less than to read the whole context again.
"""
_LEADS_ON: frozenset[ProviderErrorKind] = frozenset(
    {"model_missing", "overloaded", "quota", "rate_limited", "connection", "server_error"}
)
"""Failures that another model may not meet with; a wrong key or an invalid request must be seen by somebody."""
_LEADS_ON_LATER: frozenset[ProviderErrorKind] = _LEADS_ON | {"credentials", "invalid_request"}
"""The same for the second model and later ones, which may be of a vendor that does not take the settings of the run."""

Make = Callable[[str], Awaitable[Provider]]
"""Returns the provider of a model; raises UsageError if it cannot be asked, e.g. because its server does not run."""


class ModelChain:
    """The models of one run, in order; a provider whose model changes."""

    def __init__(
        self,
        first: Provider,
        following: Sequence[Provider] = (),
        make: Make | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        """Take the models.

        following: the other models, in order; only described, unless `make` is None.
        make: makes the provider of a model, given its id; called when the model is needed, because a local server might
            load it.
        warnings: about models that were left out.
        """
        self.present = first
        """The provider of the model that is asked now."""
        self.following = tuple(following)
        """The models that are left, as descriptions: with their ids, capabilities and prices."""
        self.warnings = tuple(warnings)
        self._make = make
        self._has_changed = False

    def renewed(self) -> "ModelChain":
        """Return a chain for another run that begins with the present model, such as that of a child."""
        return ModelChain(self.present, self.following, self._make)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the present model and of those that are left."""
        return (self.present.model, *(one.model for one in self.following))

    def leads_on(self, error: ProviderError) -> bool:
        """Return whether another model is left that may answer after this failure of the present one."""
        kinds = _LEADS_ON_LATER if self._has_changed else _LEADS_ON
        return bool(self.following) and error.kind in kinds

    async def advance(self) -> None:
        """Go on with the next model; if it cannot be asked, it is left out.

        Raises UsageError with the reason in that case; without another model the chain must not be advanced.
        """
        described, self.following = self.following[0], self.following[1:]
        self._has_changed = True
        self.present = described if self._make is None else await self._make(described.model)

    @property
    def model(self) -> str:
        """The id of the present model."""
        return self.present.model

    @property
    def capabilities(self) -> Capabilities:
        """What is known of the present model."""
        return self.present.capabilities

    def open(self, opening: Opening, watch: Watch | None = None) -> Conversation:
        """Start a conversation with the present model."""
        return self.present.open(opening, watch)

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of one request to the present model [USD]; None if the price is unknown."""
        return self.present.cost(usage)

    async def aclose(self) -> None:
        """Close the connections of the present model."""
        await self.present.aclose()


def models_of(provider: Provider) -> tuple[Provider, ...]:
    """Return the providers of all models that a run may ask; those that follow the first are only described."""
    return (provider.present, *provider.following) if isinstance(provider, ModelChain) else (provider,)


def patience_with(provider: Provider, patience: float | None) -> float | None:
    """Return how long a request of a run is retried [s]; None = without a limit.

    patience: of the run, which holds for the last model.
    """
    if not (isinstance(provider, ModelChain) and provider.following):
        return patience
    return PATIENCE if patience is None else min(patience, PATIENCE)
