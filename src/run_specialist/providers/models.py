"""Model aliases and capabilities, which no endpoint reports."""

import re

from run_specialist.providers.base import Capabilities

ALIASES = {
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}
"""Full model ids by alias."""

UNFORCEABLE_SINCE = {"opus": (5, 5), "sonnet": (5, 5), "fable": (5, 1), "mythos": (0, 0)}
"""First version of each model family that refuses a `tool_choice` of type `tool` or `any`."""

MAX_OUTPUT_TOKENS = {"opus": 128_000, "sonnet": 64_000, "haiku": 64_000, "fable": 128_000, "mythos": 128_000}
"""Maximum `max_tokens` by model family; a low estimate if no figure is published."""
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
    if found is None:
        return Capabilities(
            forced_choice=True,
            max_output_tokens=UNKNOWN_MAX_OUTPUT_TOKENS,
            schema=True,
            server_tools=True,
            vendor=VENDOR,
        )
    family, version = found[1], (int(found[2] or 0), int(found[3] or 0))
    since = UNFORCEABLE_SINCE.get(family)
    always_thinks = since is not None and version >= since
    return Capabilities(
        # A model that always thinks cannot be forced.
        forced_choice=not always_thinks,
        max_output_tokens=MAX_OUTPUT_TOKENS[family],
        schema=True,
        thinks=always_thinks,
        server_tools=True,
        vendor=VENDOR,
    )
