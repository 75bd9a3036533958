"""Settings for all specialists whose files do not contain them, e.g. from a config file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Scope = Literal["project", "user"]
"""The owner of a config file: the project, which may come from somebody else, or the user."""


@dataclass(frozen=True, slots=True)
class Default:
    """A value and its place."""

    value: Any
    """Checked value, in the form of a specialist file."""
    scope: Scope
    path: Path
    line: int
    users: "Default | None" = None
    """The value of the user's own file for the same key, if the project's one is used instead."""

    @property
    def of_user(self) -> "Default | None":
        """The value of the user's own file; None if that has none."""
        return self if self.scope == "user" else self.users


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings used if neither the call nor the specialist's file sets them."""

    settings: Mapping[str, Default] = field(default_factory=dict)
    """Settings by key of a specialist file, including `preset`."""
    model: str | None = None
    """Model used if the environment variable sets none."""


NO_DEFAULTS = Defaults()
