"""Models: aliases, capabilities, misspelt names, prices."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.providers.base import Capabilities
from run_specialist.providers.errors import CHAT
from run_specialist.record.messages import Usage
from run_specialist.specialist.dialects import unserved

ALIASES = {
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}
"""Full model ids by alias."""

# First version of each model family that refuses a `tool_choice` of type `tool` or `any`.
_UNFORCEABLE_SINCE = {"opus": (5, 5), "sonnet": (5, 5), "fable": (5, 1), "mythos": (0, 0)}

# Maximum `max_tokens` by model family; a low estimate if no figure is published.
_MAX_OUTPUT_TOKENS = {"opus": 128_000, "sonnet": 64_000, "haiku": 64_000, "fable": 128_000, "mythos": 128_000}
UNKNOWN_MAX_OUTPUT_TOKENS = 32_000
VENDOR = "anthropic"

_FAMILY = re.compile(r"(opus|sonnet|haiku|fable|mythos)(?:-(\d{1,2}))?(?:-(\d{1,2}))?(?!\d)")


def full_id(model: str) -> str:
    """Return the model id for requests."""
    return ALIASES.get(model.lower(), model)


def capabilities(model: str) -> Capabilities:
    """Return the capabilities of a model; for an unknown model the best case, which a 400 response corrects.

    model: full id.
    """
    found = _FAMILY.search(model.lower())
    family, version = (found[1], (int(found[2] or 0), int(found[3] or 0))) if found else ("", (0, 0))
    since = _UNFORCEABLE_SINCE.get(family)
    always_thinks = since is not None and version >= since
    return Capabilities(
        # A model that always thinks cannot be forced.
        forced_choice=not always_thinks,
        max_output_tokens=_MAX_OUTPUT_TOKENS.get(family, UNKNOWN_MAX_OUTPUT_TOKENS),
        schema=True,
        thinks=always_thinks,
        server_tools=True,
        vendor=VENDOR,
    )


# Find misspelt model names before a request is sent, without a list of all models, because there is none.
#
# Only words known to this program can be misspelt: aliases, prefixes, and model families in a vendor's ids. Versions
# and all other names are accepted unchanged: thoughts/shared/decisions/2026-11-23/misspelt-models.md.

FAMILIES = tuple(_MAX_OUTPUT_TOKENS)
"""Model families in the ids of the Messages API's vendor."""
CLAUDE = "claude"
# Words in the ids of the chat completions vendor that are checked for misspellings.
_CHAT_WORDS = ("gpt", "chatgpt", "mini", "nano", "turbo")
PREFIXES = ("openai", "ollama", "lmstudio", "llamacpp", "vllm", "local")
"""Prefixes of models, without the colon."""
_BARE = (*ALIASES, "offline", "inherit")
_WORD = re.compile(r"[a-z]+")


def check_spelling(model: str, place: str = "") -> None:
    """Check a model name.

    place: where the name was given, as `file:line:column: key`; empty if it was not in a file.
    Raises UsageError with the probable name if it is misspelt.
    """
    meant = _meant(model.strip().lower())
    if meant:
        raise UsageError(f"{place and f'{place}: '}no model {model!r}: did you mean {' or '.join(meant)}?")


def check_served(model: str, place: str = "") -> None:
    """Raise UsageError if no endpoint of this environment can serve a model; contacts nothing.

    place: as for `check_spelling`.
    """
    if why := unserved(model):
        raise UsageError(f"{place and f'{place}: '}{model}: {why}")


def _meant(model: str) -> Sequence[str]:
    """Return the names that a misspelt one probably means; empty if it is not misspelt."""
    prefix, colon, name = model.partition(":")
    if colon and prefix == "openai":
        # Other servers have models of any name.
        fixed = name if os.environ.get(CHAT.url, "").strip() else _corrected(name, _CHAT_WORDS)
        return [f"openai:{fixed}"] if fixed != name else []
    if colon:
        return [f"{near}:{name}"] if (near := _near(prefix, PREFIXES)) else []
    if model.isalpha() and model.isascii():
        return [near] if (near := _near(model, _BARE)) else []
    fixed = _corrected(model, (CLAUDE, *FAMILIES))
    words = _WORD.findall(fixed)
    family = next((word for word in words if word in FAMILIES), None)
    if fixed == model or CLAUDE not in words or family is None:
        return []
    newest = ALIASES.get(family)
    return [fixed] if newest in {None, fixed} else [fixed, f"{newest} ({family})"]


def _corrected(name: str, known: Sequence[str]) -> str:
    return _WORD.sub(lambda found: _near(found[0], known) or found[0], name)


def _near(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that this one misspells; None if it is known, or no misspelling."""
    return None if word in known else next((one for one in known if _misspells(word, one)), None)


def _misspells(word: str, right: str) -> bool:
    """Return whether a word has one typing error, or the same letters in another order or number.

    The first letter must match: few people mistype it, and `table` is another word than `fable`.
    """
    if word[:1] != right[:1] or abs(len(word) - len(right)) > 1:
        return False
    if set(word) == set(right):
        return True
    short, long = sorted((word, right), key=len)
    start = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    # One letter more, or one letter replaced.
    return short[start + (len(short) == len(long)) :] == long[start + 1 :]


MILLION = 1_000_000
SEARCH = 0.01
"""Price of one web search by the Messages API, which bills 10 USD per 1,000 [USD]."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model, without its reduced price for cached input."""

    input: float
    """Price of input [USD per million tokens]."""
    output: float
    """Price of output [USD per million tokens]."""
    higher_above: int | None = None
    """Size of the input above which a request costs more [tokens]; None = never."""


def price(model: str, vendor: str) -> Price | None:
    """Return the price of small requests; None if the model is not on the list.

    model, vendor: as for `cost`.
    """
    rates = _rates(model, vendor)
    if rates is None:
        return None
    given, _, _, returned = rates
    starts = [start for start, _ in (*given[1:], *returned[1:])]
    return Price(given[0][1], returned[0][1], int(min(starts)) if starts else None)


def cost(usage: Usage, model: str, vendor: str) -> float | None:
    """Return the price of one request [USD]; None if the model is not on the list.

    usage: usage of a single request, since some prices depend on its size.
    model: full id.
    vendor: `anthropic` or `openai`.
    """
    rates = _rates(model, vendor)
    if rates is None:
        return None
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    input_size = usage.input_tokens + read + written
    total = 0.0
    for tokens, tiers in zip((usage.input_tokens, read, written, usage.output_tokens), rates, strict=True):
        rate = tiers[0][1]
        for start, higher in tiers[1:]:
            rate = higher if input_size > start else rate
        total += tokens * rate
    return total / MILLION + usage.web_search_requests * SEARCH


@cache
def _rates(model: str, vendor: str) -> Sequence[Sequence[tuple[float, float]]] | None:
    """Return the prices of input, cache reads, cache writes and output; None if the model is not on the list.

    Each has one pair for each tier: the input size above which it applies [tokens], and the price [USD per million].
    """
    # Cached: a full price calculation would take a tenth of the time between two requests.
    import genai_prices  # noqa: PLC0415 - the import takes 0.15 s

    try:
        prices = genai_prices.calc_price(genai_prices.Usage(input_tokens=1), model, provider_id=vendor).model_price
    except LookupError:
        return None
    found: list[list[tuple[float, float]]] = []
    for kind in (prices.input_mtok, prices.cache_read_mtok, prices.cache_write_mtok, prices.output_mtok):
        base: Any = getattr(kind, "base", kind)
        tiers = [(tier.start, float(tier.price)) for tier in getattr(kind, "tiers", ())]
        found.append([] if base is None else [(0, float(base)), *tiers])
    # Without prices of their own, cache reads and writes cost as much as other input.
    given, read, written, returned = found
    given = given or [(0, 0.0)]
    return given, read or given, written or given, returned or [(0, 0.0)]
