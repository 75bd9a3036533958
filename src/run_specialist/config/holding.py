"""The effective value of each key if no option is given, and its source."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from run_specialist.config.config import Config
from run_specialist.config.config_keys import KEYS, Key
from run_specialist.providers.chosen_models import choose_model
from run_specialist.specialist.fields import Specialist
from run_specialist.store.location import place, shown

ValueSource = Literal["environment", "project", "user", "default"]


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """The value of one key."""

    key: str
    value: object
    """JSON value; None = not set, or no limit."""
    source: ValueSource
    variable: str | None = None
    """Environment variable that sets it."""
    path: Path | None = None
    """Config file that sets it."""
    line: int | None = None

    @property
    def origin(self) -> str:
        """The source: file name and line, name of a variable, or `default`."""
        if self.path is not None:
            return f"{self.path.name}:{self.line}"
        return self.variable or self.source

    @property
    def shown_value(self) -> str:
        """The value as written in a file; `-` if there is none."""
        if self.value is None:
            return "none" if self.key.endswith("_limit") else "-"
        if isinstance(self.value, float):
            return f"{self.value:.15g}"
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)

    def as_json(self) -> dict[str, object]:
        """Return the object that `specialists config --json` prints for the key."""
        return {
            "value": self.value,
            "source": self.source,
            "variable": self.variable,
            "path": None if self.path is None else str(self.path),
            "line": self.line,
        }


def holdings(config: Config) -> Iterator[ConfigValue]:
    """Yield the value of each key with its source, in the order of the keys."""
    for name, key in KEYS.items():
        found = config.values.get(name)
        if key.variable and (named := os.environ.get(key.variable)):
            yield ConfigValue(name, _plain(key, named), "environment", key.variable)
        elif found is None:
            yield ConfigValue(name, _default(key), "default")
        else:
            yield ConfigValue(name, _plain(key, found.value), found.scope, None, found.path, found.line)


def _plain(key: Key, value: object) -> object:
    """Return a value as JSON; the name of a store has no password."""
    if key.kind == "store":
        return shown(place(str(value)).url)
    if key.kind == "on_lost":
        return str(value).replace("_", "-")
    return str(value) if isinstance(value, Path) else value


def _default(key: Key) -> object:
    if key.kind == "setting":
        return Specialist.model_fields[key.name].default
    if key.kind == "model":
        return choose_model(None, None)
    if key.kind == "store":
        return _plain(key, place(None).url)
    return {"folder": None, "switch": False, "on_lost": "go-on", "count": None}[key.kind]
