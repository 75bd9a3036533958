"""Settings for all specialists whose files do not contain them, e.g. from a config file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Scope = Literal["project", "user"]
"""Whom a config file belongs to: the project, which may come from somebody else, or the user."""


@dataclass(frozen=True, slots=True)
class Default:
    """One value with its place."""

    value: Any
    """Value as in a specialist file, already checked."""
    scope: Scope
    path: Path
    line: int


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings that apply if neither the call nor the specialist's file contains them."""

    settings: Mapping[str, Default] = field(default_factory=dict)
    """By key of a specialist file, `preset` included."""
    model: str | None = None
    """Used after the environment variable with the model."""


NO_DEFAULTS = Defaults()
