"""What a specialist's settings are, and where each comes from, as a person or a program reads them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from run_specialist.specialist.keys import CANONICAL
from run_specialist.specialist.mcp_servers.servers import without_secrets
from run_specialist.specialist.problems import shown
from run_specialist.specialist.resolve import Origin, Resolved

_TOLD_ELSEWHERE = ("name", "description")
_WITHOUT = {"tools": "all", "paths": "all", "summarize_at": "none", "summary_limit": "-"}
_STRONGEST_FIRST = ("flag", "file", "preset", "default")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Setting:
    """One key."""

    key: str
    value: object
    """In plain values, fit for JSON; None = no limit, or nothing set."""
    origin: Origin
    """Of a countdown the strongest among its parts."""
    elsewhere: Mapping[str, Origin] = field(default_factory=dict)
    """The parts of a countdown that come from somewhere else than `origin`, defaults left out."""

    @property
    def shown(self) -> str:
        """The value as it would be written in the file, on one line."""
        value = self.value
        if value is None:
            return _WITHOUT.get(self.key, "none" if self.key.endswith("_limit") else "-")
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
        """Return what `show --json` prints for the key."""
        return {"value": self.value, "source": self.origin.source, "line": self.origin.line}

    def _countdown(self, value: dict[str, object]) -> str:
        """Tell what has an effect, and of each part where it comes from if that is not where the others do."""
        idle = {"from": False, "style": value["from"] is None, "warn_at": value["warn_at"] is None}
        told = {key: "none" if part is None else part for key, part in value.items() if not idle[key]}
        if told == {"from": "none"}:
            return "none"
        notes = {key: f" ({self.elsewhere[key]})" if key in self.elsewhere else "" for key in told}
        return ", ".join(f"{key}: {part}{notes[key]}" for key, part in told.items())


def settings_of(resolved: Resolved) -> list[Setting]:
    """Return every setting of a run, what was chosen for it first."""
    values = resolved.settings.model_dump(mode="json", by_alias=True)
    settings = [_setting(key, values[key], resolved) for key in CANONICAL if key not in _TOLD_ELSEWHERE]
    return sorted(settings, key=lambda setting: _STRONGEST_FIRST.index(setting.origin.source))


def _setting(key: str, value: object, resolved: Resolved) -> Setting:
    if key == "mcp_servers":
        value = without_secrets(value)
    if key != "countdown" or not isinstance(value, dict):
        return Setting(key, value, resolved.origin(key))
    origins = {inner: resolved.origin(f"{key}.{inner}") for inner in value}
    strongest = min(origins.values(), key=lambda origin: _STRONGEST_FIRST.index(origin.source))
    return Setting(
        key,
        value,
        strongest,
        {inner: origin for inner, origin in origins.items() if origin.source != "default" and origin != strongest},
    )
