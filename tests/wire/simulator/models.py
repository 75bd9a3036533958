"""The features that each model family accepts or refuses, as far as they are documented."""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """Describe one model id and the API's differences for it."""

    id: str
    takes_forced_choice: bool = True
    """Whether `tool_choice` any / tool is accepted."""
    always_thinks: bool = False
    """Whether thinking cannot be switched off: `disabled` is refused, `between_tools` is taken."""
    append_only: bool = False
    """Whether nothing may change in front of a replayed thinking block."""
    context_window: int = 1_000_000
    """Largest input [tokens]. Only the window of Opus 5.5 is documented, the others are assumed."""
    max_output: int = 128_000
    """Largest `max_tokens` [tokens]. Only that of Opus 5.5 is documented, the others are assumed."""
    cache_minimum: int = 1_024
    """Shortest prefix that is cached [tokens]; really 512 to 4,096 by model."""
    cache_read_price: float = 0.1
    """Price of a token that is read from the cache, in plain input tokens."""


def _newest(name: str, read_price: float = 0.1) -> Model:
    return Model(name, takes_forced_choice=False, always_thinks=True, append_only=True, cache_read_price=read_price)


MODELS: tuple[Model, ...] = (
    _newest("claude-opus-5-5", read_price=0.05),
    _newest("claude-sonnet-5-5", read_price=0.05),
    _newest("claude-fable-5-2"),
    _newest("claude-fable-5-1"),
    _newest("claude-mythos-5-2"),
    _newest("claude-mythos-5-1"),
    _newest("claude-mythos-5"),
    _newest("claude-mythos-preview"),
    # Assumption: forcing works. As a model of the newest generation it is append-only, to be strict.
    Model("claude-haiku-5-5", append_only=True, context_window=200_000, max_output=64_000),
    # The docs name "Fable 5.1 and later" and Opus 5, but not Fable 5: assume it is like Opus 5 and Sonnet 5.
    Model("claude-fable-5"),
    Model("claude-opus-5"),
    Model("claude-sonnet-5"),
    Model("claude-opus-4-8", context_window=200_000),
    Model("claude-opus-4-7", context_window=200_000),
    Model("claude-opus-4-6", context_window=200_000),
    Model("claude-sonnet-4-6", context_window=200_000, max_output=64_000),
    Model("claude-haiku-4-5", context_window=200_000, max_output=64_000),
)


def find_model(name: object, models: Sequence[Model] = MODELS) -> Model | None:
    """Return the model of that id, a dated id (`...-20261021`) included, or None."""
    if not isinstance(name, str):
        return None
    plain = re.sub(r"-\d{8}$", "", name)
    return next((model for model in models if model.id in (name, plain)), None)
