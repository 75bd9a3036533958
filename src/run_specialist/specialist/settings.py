"""What a specialist's settings are, and where each comes from."""

from dataclasses import dataclass
from typing import Literal

from run_specialist.specialist.keys import CANONICAL
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import shown

_TOLD_ELSEWHERE = ("name", "description")
_WITHOUT = {"tools": "all", "paths": "all", "summarize_at": "none"}
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Setting:
    """One key."""

    key: str
    value: object
    """In plain values, fit for JSON; None = no limit, or nothing set."""
    source: Literal["file", "default"]
    line: int | None
    """Line of the file; None = default."""

    @property
    def shown(self) -> str:
        """The value as it would be written in the file, on one line."""
        value = self.value
        if value is None:
            return "none" if self.key.endswith("_limit") else _WITHOUT.get(self.key, "-")
        if isinstance(value, list):
            return shown(", ".join(map(str, value)), _LONGEST) or "[]"
        if isinstance(value, dict):
            return shown(", ".join(f"{key}: {item}" for key, item in value.items() if item is not None), _LONGEST)
        return str(value).lower() if isinstance(value, bool) else shown(str(value), _LONGEST)


def settings_of(file: SpecialistFile) -> list[Setting]:
    """Return every setting of a file that can be run, those of the file first."""
    if file.specialist is None:
        return []
    values = file.specialist.model_dump(mode="json", by_alias=True)
    given = file.specialist.model_fields_set
    settings = [
        Setting(key, values[key], "file" if key in given else "default", file.lines.get(key) if key in given else None)
        for key in CANONICAL
        if key not in _TOLD_ELSEWHERE
    ]
    return sorted(settings, key=lambda setting: setting.source, reverse=True)
