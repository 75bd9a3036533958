"""Presets: named sets of settings, each for one way of handling a limit."""

from collections.abc import Mapping
from typing import Any, Literal

Preset = Literal["soft-landing", "soft-warning", "finalize", "budget-notice", "openai-loop"]

PRESETS: Mapping[Preset, Mapping[str, Any]] = {
    "soft-landing": {
        "budget_notice": True,
        "countdown": {"from": 0.5, "style": "remaining", "warn_at": "none"},
        "landing": "auto",
    },
    "soft-warning": {
        "budget_notice": False,
        "countdown": {"from": "none", "warn_at": 1},
        "landing": "auto",
        "tool_chars_limit": 100_000,
    },
    "finalize": {
        "budget_notice": False,
        "countdown": "none",
        "landing": "finalize",
        "summarize_at": 150_000,
        "parallel_tools_limit": 1,
    },
    "budget-notice": {
        "budget_notice": True,
        "countdown": {"from": 3, "style": "budget", "warn_at": "none"},
        "landing": "auto",
    },
    "openai-loop": {
        "budget_notice": False,
        "countdown": {"from": 0, "style": "json", "warn_at": "none"},
        "landing": "none",
    },
}
"""Settings of each preset, as keys and values of a specialist file; a preset does not affect other keys."""
