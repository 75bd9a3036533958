"""The models of one run, tried in order when one fails; for the run they are one provider.

`loop/model_change.py` contains the effects of a change on the run itself.
"""

from collections.abc import Awaitable, Callable, Sequence

from run_specialist.errors import ProviderError, ProviderErrorKind
from run_specialist.providers.base import Capabilities, Conversation, Opening, Provider, Watch
from run_specialist.record.messages import Usage

_LEADS_ON: frozenset[ProviderErrorKind] = frozenset(
    {"model_missing", "overloaded", "quota", "rate_limited", "connection", "server_error"}
)
"""Failures after which another model is tried; a wrong key or an invalid request must be shown instead."""
_LEADS_ON_LATER: frozenset[ProviderErrorKind] = _LEADS_ON | {"credentials", "invalid_request"}
"""The same from the second model on, whose vendor may reject the settings of the run."""

Make = Callable[[str], Awaitable[Provider]]
"""Returns the provider of a model; raises UsageError if it cannot be asked, e.g. because its server does not run."""


class ModelChain:
    """The models of one run, in order: a provider whose model changes."""

    def __init__(
        self,
        first: Provider,
        following: Sequence[Provider] = (),
        make: Make | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        """Take the models.

        following: the other models, in order; only described, unless `make` is None.
        make: makes the provider of a model from its id; called only when needed, because a local server might load it.
        warnings: warnings about omitted models.
        """
        self.present = first
        """The provider of the current model."""
        self.following = tuple(following)
        """Descriptions of the remaining models: ids, capabilities and prices."""
        self.warnings = tuple(warnings)
        self._make = make
        self._has_changed = False

    def renewed(self) -> "ModelChain":
        """Return a chain that begins with the current model, for another run such as a child."""
        return ModelChain(self.present, self.following, self._make)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the current model and of the remaining ones."""
        return (self.present.model, *(one.model for one in self.following))

    def left_after(self, error: ProviderError) -> tuple[Provider, ...]:
        """Return descriptions of the models that may answer after this failure of the current one."""
        if error.kind not in (_LEADS_ON_LATER if self._has_changed else _LEADS_ON):
            return ()
        if error.kind != "connection":
            return self.following
        # A server that cannot be reached cannot be reached for its other models either.
        vendor = self.capabilities.vendor
        return tuple(one for one in self.following if one.capabilities.vendor != vendor)

    async def advance(self) -> None:
        """Switch to the next model.

        Raises UsageError with the reason if that model cannot be used; it is skipped then. There must be another model.
        """
        described, self.following = self.following[0], self.following[1:]
        self._has_changed = True
        self.present = described if self._make is None else await self._make(described.model)

    @property
    def model(self) -> str:
        """The id of the current model."""
        return self.present.model

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the current model."""
        return self.present.capabilities

    def open(self, opening: Opening, watch: Watch | None = None) -> Conversation:
        """Start a conversation with the current model."""
        return self.present.open(opening, watch)

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of one request to the current model [USD]; None if the price is unknown."""
        return self.present.cost(usage)

    async def aclose(self) -> None:
        """Close the connections of the current model."""
        await self.present.aclose()


def models_of(provider: Provider) -> tuple[Provider, ...]:
    """Return the providers of all models that a run may use; only the first can send requests."""
    return (provider.present, *provider.following) if isinstance(provider, ModelChain) else (provider,)


def is_replaceable(provider: Provider, error: ProviderError | None = None) -> bool:
    """Return whether a run has another model to change to, so that it need not wait for the current one.

    error: a failure of the current model, after which the other one may answer; None = any failure.
    """
    return isinstance(provider, ModelChain) and bool(
        provider.following if error is None else provider.left_after(error)
    )
