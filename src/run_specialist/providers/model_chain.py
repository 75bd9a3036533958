"""The models of one run: the next one is asked once the current one fails; to the run they are one provider.

`loop/model_change.py` contains the effects of a change on the run itself.
"""

from collections.abc import Awaitable, Callable, Sequence

from run_specialist.errors import ProviderError, ProviderErrorKind
from run_specialist.providers.base import Capabilities, Conversation, Opening, Provider, Watch
from run_specialist.record.messages import Usage

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
        """The ids of the current model and of the remaining ones."""
        return (self.present.model, *(one.model for one in self.following))

    def left_after(self, error: ProviderError) -> tuple[Provider, ...]:
        """Return the models, as descriptions, that may answer although the present one has failed so."""
        if error.kind not in (_LEADS_ON_LATER if self._has_changed else _LEADS_ON):
            return ()
        if error.kind != "connection":
            return self.following
        # A server that cannot be reached cannot be reached for its other models either.
        vendor = self.capabilities.vendor
        return tuple(one for one in self.following if one.capabilities.vendor != vendor)

    async def advance(self) -> None:
        """Change to the next model; if it cannot be used, it is skipped.

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
        """The capabilities of the current model."""
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


def is_replaceable(provider: Provider, error: ProviderError | None = None) -> bool:
    """Return whether another model is left for a run, so that the present one is not waited for.

    error: a failure of the present model, after which the other one may answer; None = any failure.
    """
    return isinstance(provider, ModelChain) and bool(
        provider.following if error is None else provider.left_after(error)
    )
