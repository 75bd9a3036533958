"""Choose the provider of each run; runs with the same model share one."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from run_specialist.errors import UsageError
from run_specialist.providers import choose
from run_specialist.providers.admission import ceiling
from run_specialist.providers.base import Provider
from run_specialist.providers.knowledge import InformedProvider, Knowledge
from run_specialist.providers.local_servers import WEIGHTS, prefix_of
from run_specialist.providers.models import check_spelling
from run_specialist.record.outcome import OFFLINE
from run_specialist.spawning.availability import ModelRule
from run_specialist.spawning.trust import RunContext, Trust, check_model
from run_specialist.specialist.checks import split_models
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.origins import OriginKind, ValueOrigins

if TYPE_CHECKING:
    from run_specialist.providers.local import ModelFiles


class ProviderPool:
    """Creates providers on demand; runs with the same model in the same event loop share a connection pool."""

    def __init__(self, requests_at_once: int | None = None) -> None:
        """Create an empty pool.

        requests_at_once: as in `Runner`.
        Raises UsageError if it, or the environment variable in its place, is not an integer of at least 1.
        """
        self._requests_at_once = ceiling(requests_at_once)
        self._files: ModelFiles | None = None
        # Guards the local servers, which several event loops may share.
        self._lock = threading.Lock()
        self._providers: dict[tuple[asyncio.AbstractEventLoop, str], Provider] = {}
        self._knowledge: dict[tuple[str, str], Knowledge] = {}
        # Avoids a ResourceWarning for each connection if the program never calls `aclose`.
        weakref.finalize(self, _close_without_loop, self._providers)

    async def provider(self, model: str, report: Callable[[str], None] | None = None) -> Provider:
        """Return the provider of a model for the running event loop; create it on first use.

        report: called with a line while the weights of a model are loaded.
        Raises UsageError if the model is unknown, its credentials are missing, or its local server does not answer.
        """
        key = (asyncio.get_running_loop(), model)
        if key not in self._providers or _has_ended(self._providers[key]):
            ended = self._providers.pop(key, None)
            provider = await self._local(model, report) if prefix_of(model) else choose.make_provider(model)
            if ended:
                await ended.aclose()
            if key in self._providers:
                # Another run has created one while this one waited for the server.
                await provider.aclose()
            else:
                self._providers[key] = self._with_knowledge(provider)
        return self._providers[key]

    def _with_knowledge(self, provider: Provider) -> Provider:
        """Return a provider that shares what providers in other event loops have learned about the endpoint."""
        if isinstance(provider, InformedProvider):
            known = self._knowledge.setdefault(provider.address, provider.knowledge)
            # The server may have another context since it was started again.
            told = provider.capabilities
            names = ("context_tokens", "context_note", "max_output_tokens")
            known.capabilities = replace(known.capabilities, **{name: getattr(told, name) for name in names})
            provider.knowledge = known
        return self.limited(provider)

    def limited(self, provider: Provider) -> Provider:
        """Return a provider that makes only as many concurrent requests as this pool allows."""
        if isinstance(provider, InformedProvider) and self._requests_at_once is not None:
            provider.requests_at_once = self._requests_at_once
        return provider

    async def aclose(self) -> None:
        """Close all connections; connections of event loops that have ended are dropped."""
        async with AsyncExitStack() as parts:
            for provider in self._providers.values():
                parts.push_async_callback(provider.aclose)
            self._providers.clear()
            if self._files is not None:
                # First, so that no connection waits for a server that is still calculating.
                await self._files.aclose()
                self._files = None

    async def _local(self, model: str, report: Callable[[str], None] | None) -> Provider:
        if prefix_of(model) != WEIGHTS:
            from run_specialist.providers.local_servers import local_provider  # noqa: PLC0415 - on demand

            return await local_provider(model)
        from run_specialist.providers.local import ModelFiles  # noqa: PLC0415 - on demand

        with self._lock:
            files = self._files = self._files or ModelFiles()
        return await files.provider(model, report)


def _has_ended(provider: Provider) -> bool:
    """Return whether the server that was started for a provider has ended."""
    failure = getattr(provider, "failure_of_server", None)
    return failure is not None and bool(failure(0))


def _close_without_loop(providers: dict[tuple[asyncio.AbstractEventLoop, str], Provider]) -> None:
    """Start closing each provider; without an event loop, nothing can wait for the end."""
    for provider in providers.values():
        closing = provider.aclose()
        with suppress(BaseException):
            closing.send(None)
        closing.close()


NO_LANGUAGE_MODEL = "its provider is not a language model; choose one with `model`"


@dataclass(frozen=True)
class ModelChoice:
    """The models of a `Runner`: one model for all runs, or the model that each file names."""

    model: str | None
    """The model of all runs; None = the one of the file or of the environment."""
    fixed: Provider | None
    """Used in place of any model."""
    pool: ProviderPool
    """Makes the providers of models on first use."""
    rule: ModelRule
    trust: Trust
    report: Callable[[str], None]
    """Called with a line while the weights of a model are loaded."""
    root: Path
    """The folder that the file tools can read."""
    default: str | None
    """The model of a config file, after that of the environment."""

    async def provider(
        self, file: SpecialistFile, settings: Specialist, asked: str | None, origins: ValueOrigins | None = None
    ) -> Provider:
        """Return the provider of a new run.

        asked: the model of the call; None = the one of the file or of the environment.
        origins: those of the settings; None = all are those of the file.
        Raises UsageError, before anything is sent, if the run needs a language model and there is none.
        """
        if self.fixed is not None:
            return self._checked(file, settings, self.fixed)
        if why := choose.why_offline(asked, settings.model, self.default):
            self.rule.check(file, settings, why)
        context = RunContext(file, settings, self.root, self.trust, origins)
        return await self._chosen(asked, settings.model, settings.fallback_models, context)

    async def provider_for_resumed(
        self, current: SpecialistFile, settings: Specialist, root: Path, models: Sequence[str], asked: str | None = None
    ) -> Provider:
        """Return the provider of a run that is resumed or forked.

        current: the file as it is now, which may require a model that the stored settings do not.
        models: the model of the run so far, and its remaining fallbacks.
        asked: the model of the call; None = that of the runner, else that of the run.
        Raises UsageError as `provider` does.
        """
        if current.specialist is not None and current.specialist.offline == "refuse":
            settings = settings.model_copy(update={"offline": "refuse"})
        if self.fixed is not None:
            return self._checked(current, settings, self.fixed)
        asked = asked or self.model
        model, *following = models
        if choose.choose_model(asked, model) == OFFLINE:
            why = choose.why_offline(asked, model) if asked else f"the run is {OFFLINE}; name a model to resume it"
            self.rule.check(current, settings, why)
        # Others may have written to the store: what the file does not name is data.
        of_file = current.specialist
        known = {of_file.model, *of_file.fallback_models} if of_file else set[str | None]()
        kinds: dict[str, OriginKind] = {
            "model": current.origin if model in known else "data",
            "fallback_models": current.origin if known.issuperset(following) else "data",
        }
        context = RunContext(current, settings, root, self.trust, ValueOrigins(kinds), resumed=True)
        return await self._chosen(asked, model, following, context)

    async def provider_for_child(self, file: SpecialistFile, settings: Specialist, parents: Provider) -> Provider:
        """Return the provider of a child; a child without a model inherits that of its parent.

        Raises UsageError as `provider` does.
        """
        if self._inherits(settings):
            return self._checked(file, settings, parents)
        return await self.provider(file, settings, self.model)

    @property
    def allowed(self) -> frozenset[str]:
        """The models that the caller, the environment and the config files name; `offline` sends nothing."""
        named = () if self.model is None else split_models(self.model)
        return frozenset([*named, *choose.choose_models(None, None, self.default).names, OFFLINE])

    def why_offline(self, settings: Specialist, parents: Provider | None = None, asked: str | None = None) -> str:
        """Return why a specialist has no language model, and how to get one; empty if it has one.

        parents: the provider of the run that would ask it; None for a run without a parent.
        asked: the model of the call; None = that of the runner, of the file or of the environment.
        """
        provider = parents if parents is not None and self._inherits(settings) else self.fixed
        if provider is not None:
            return "" if provider.capabilities.is_language_model else NO_LANGUAGE_MODEL
        return choose.why_offline(asked or self.model, settings.model, self.default)

    def model_id(self, settings: Specialist, asked: str | None = None) -> str:
        """Return the id of the model that a new run would use; contacts nothing.

        asked: the model of the call; None = that of the runner, of the file or of the environment.
        Raises UsageError if its name is misspelt.
        """
        if self.fixed is not None:
            return self.fixed.model
        named = choose.choose_model(asked or self.model, settings.model, self.default, settings.fallback_models)
        return choose.described(named).provider.model

    def obstacle(self, settings: Specialist, parents: Provider | None = None, asked: str | None = None) -> str:
        """Return why a specialist that needs a model cannot be asked, in one clause; empty if it can.

        parents, asked: as for `why_offline`.
        """
        why = self.why_offline(settings, parents, asked)
        return self.rule.refusal(settings, why) if why else ""

    def check_any(self, settings: Sequence[Specialist]) -> None:
        """Raise UsageError if models are required and none of these specialists has one (without any: the default)."""
        default = Specialist(name="", description="", prompt="")
        found = [self.why_offline(one) for one in settings or [default]]
        if self.rule.is_required and all(found):
            raise UsageError(self.rule.refusal(default, found[0]))

    def _inherits(self, settings: Specialist) -> bool:
        return self.fixed is not None or settings.model in {None, "inherit"}

    def _checked(self, file: SpecialistFile, settings: Specialist, provider: Provider) -> Provider:
        if not provider.capabilities.is_language_model:
            self.rule.check(file, settings, NO_LANGUAGE_MODEL)
        # A run changes its model without its parent and without other runs.
        return provider.renewed() if isinstance(provider, choose.ModelChain) else provider

    async def _chosen(
        self, asked: str | None, named: str | None, following: Sequence[str], context: RunContext
    ) -> Provider:
        """Return the provider of the models given with the call, otherwise of those that a file names.

        context: its file needs trust for a local model that it names, unless it was made in Python.
        """
        chosen = choose.choose_models(asked, named, self.default, following)
        by_program = context.file.given_origin == "caller" and not context.resumed
        if not (by_program or asked):
            for key, model in [("model", named), *(("fallback_models", one) for one in following)]:
                if model is not None and model in chosen.names:
                    await check_model(context, model, key)
        first, *others = chosen.names
        for other in others:
            check_spelling(other)
        provider = await self.pool.provider(first, self.report)
        if not (others or chosen.left_out):
            return provider
        models = {choose.described(other).provider.model: other for other in others}
        return choose.ModelChain(
            provider,
            [choose.described(other).provider for other in models.values()],
            lambda model: self.pool.provider(models[model], self.report),
            chosen.left_out,
        )
