"""Describe the provider of a model: same id, capabilities and price, but unable to send requests."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from run_specialist.providers.anthropic import AnthropicProvider
from run_specialist.providers.base import Provider
from run_specialist.providers.choose import OPENAI
from run_specialist.providers.endpoint import CHAT, OPENAI_URL
from run_specialist.providers.local.local_servers import SERVERS, WEIGHTS_ENDPOINT, prefix_of
from run_specialist.providers.openai_chat import ChatProvider
from run_specialist.providers.prices import Price, price
from run_specialist.record.outcome import OFFLINE

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI


@dataclass(frozen=True, slots=True)
class _NoClient:
    """Placeholder for an SDK client, whose import takes a second."""

    base_url: str = ""


@dataclass(frozen=True, slots=True)
class DescribedModel:
    """A model that was not contacted."""

    provider: Provider
    """Provides only id, capabilities and price; it cannot be opened."""
    price: Price | None
    """None if the price is unknown, and for a model that costs nothing."""
    is_local: bool = False
    """Whether a local server or a file provides it; its context is then known only when a run begins."""


def described(model: str) -> DescribedModel:
    """Return a model by the name that a run would use; contacts nothing.

    model: as returned by `chosen_models`.
    """
    if model == OFFLINE:
        from run_specialist.providers.offline.provider import OfflineProvider  # noqa: PLC0415 - loaded on demand

        return DescribedModel(OfflineProvider(), None)
    prefix, _, name = model.partition(":")
    if prefix_of(model):
        server = SERVERS.get(f"{prefix}:")
        client = cast("AsyncOpenAI", _NoClient())
        return DescribedModel(
            ChatProvider(name, client, server.endpoint if server else WEIGHTS_ENDPOINT), None, is_local=True
        )
    if model.startswith(OPENAI):
        url = os.environ.get(CHAT.url, "").strip() or OPENAI_URL
        return DescribedModel(ChatProvider(name, cast("AsyncOpenAI", _NoClient(url))), price(name, "openai"))
    provider = AnthropicProvider(model, cast("AsyncAnthropic", _NoClient()))
    return DescribedModel(provider, price(provider.model, "anthropic"))
