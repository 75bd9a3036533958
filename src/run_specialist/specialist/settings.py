"""Settings of a specialist and their origins, formatted as text or JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from run_specialist.specialist.keys import CANONICAL
from run_specialist.specialist.mcp_servers.servers import without_secrets
from run_specialist.specialist.problems import shown
from run_specialist.specialist.resolve import Origin, ResolvedSettings

_SHOWN_SEPARATELY = ("name", "description")
_UNSET = {"tools": "all", "paths": "all", "summarize_at": "none", "summary_limit": "-", "patience": "none"}
_PRECEDENCE = ("flag", "file", "preset", "project", "user", "default")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Setting:
    """One key."""

    key: str
    value: object
    """Value as JSON types; None = no limit, or not set."""
    origin: Origin
    """Origin of the value; for a countdown, the one with the highest precedence among its parts."""
    elsewhere: Mapping[str, Origin] = field(default_factory=dict)
    """Parts of a countdown with another origin, except defaults."""

    @property
    def shown(self) -> str:
        """Value on one line, as written in a file."""
        value = self.value
        if value is None:
            return _UNSET.get(self.key, "none" if self.key.endswith("_limit") else "-")
        if self.key == "countdown" and isinstance(value, dict):
            return self._countdown(value)
        if isinstance(value, list):
            return shown(", ".join(map(str, value)), _LONGEST) or "[]"
        if isinstance(value, dict):
            return shown(", ".join(f"{key}: {item}" for key, item in value.items()), _LONGEST)
        if isinstance(value, float):
            return f"{value:.15g}"
        return str(value).lower() if isinstance(value, bool) else shown(str(value), _LONGEST)

    def as_json(self) -> dict[str, object]:
        """Return the object that `show --json` prints for the key."""
        path = self.origin.path
        place = {"line": self.origin.line, "path": None if path is None else str(path)}
        return {"value": self.value, "source": self.origin.source, **place}

    def _countdown(self, value: dict[str, object]) -> str:
        """Return the parts that have an effect, with their origins if these differ."""
        idle = {"from": False, "style": value["from"] is None, "warn_at": value["warn_at"] is None}
        parts = {key: "none" if part is None else part for key, part in value.items() if not idle[key]}
        if parts == {"from": "none"}:
            return "none"
        notes = {key: f" ({self.elsewhere[key]})" if key in self.elsewhere else "" for key in parts}
        return ", ".join(f"{key}: {part}{notes[key]}" for key, part in parts.items())


def settings_of(resolved: ResolvedSettings) -> list[Setting]:
    """Return every setting of a run, highest precedence first."""
    values = resolved.settings.model_dump(mode="json", by_alias=True)
    settings = [_setting(key, values[key], resolved) for key in CANONICAL if key not in _SHOWN_SEPARATELY]
    return sorted(settings, key=lambda setting: _PRECEDENCE.index(setting.origin.source))


def _setting(key: str, value: object, resolved: ResolvedSettings) -> Setting:
    if key == "mcp_servers":
        value = without_secrets(value)
    if key != "countdown" or not isinstance(value, dict):
        return Setting(key, value, resolved.origin(key))
    origins = {inner: resolved.origin(f"{key}.{inner}") for inner in value}
    highest = min(origins.values(), key=lambda origin: _PRECEDENCE.index(origin.source))
    return Setting(
        key,
        value,
        highest,
        {inner: origin for inner, origin in origins.items() if origin.source != "default" and origin != highest},
    )
