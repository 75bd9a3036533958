"""Reading the arguments of a call; each complaint says what is wanted, so that a model can call again."""

import math
import re
from collections.abc import Mapping
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.specialist.problems import shown

LARGEST = 1_000_000_000
"""No limit is larger."""
_RUN_ID = re.compile("[A-Za-z0-9_-]{1,64}")


class Arguments:
    """The arguments of one call; null counts as not given, because models write it so."""

    def __init__(self, given: Mapping[str, Any] | None, known: tuple[str, ...]) -> None:
        """Take what was given; raises UsageError for a name that is not known."""
        self._given = dict(given or {})
        for key in self._given:
            if key not in known:
                raise UsageError(f"there is no argument {shown(key)}; there are: {', '.join(known)}")

    def text(self, key: str) -> str:
        """Return what has to be given as text."""
        value = self._given.get(key)
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{key}: wanted a text that is not empty, found {_found(value)}")
        return value

    def run_id(self) -> str:
        """Return the id of a run; only an id of the right form is looked for in the store."""
        given = self.text("run_id").strip()
        if not _RUN_ID.fullmatch(given):
            raise UsageError(f"run_id: wanted the whole run_id as start_run returned it, found {_found(given)}")
        return given

    def seconds(self, key: str, *, most: float = LARGEST) -> float | None:
        """Return a number of seconds from 0 up; None where none was given."""
        value = self._given.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise UsageError(f"{key}: wanted seconds from 0 to {most:,}, found {_found(value)}")
        return value

    def limits(self) -> dict[str, Any]:
        """Return the limits of a single run that were given, by the keys of a specialist's file."""
        limits: dict[str, Any] = {}
        if (calls := self._given.get("tool_calls_limit")) is not None:
            if isinstance(calls, float) and math.isfinite(calls) and calls.is_integer():
                # What has no fraction is a whole number in JSON, however it is written.
                calls = int(calls)
            if isinstance(calls, bool) or not isinstance(calls, int) or not 0 <= calls <= LARGEST:
                raise UsageError(f"tool_calls_limit: wanted a whole number from 0 up, found {_found(calls)}")
            limits["tool_calls_limit"] = calls
        if (seconds := self.seconds("time_limit")) is not None:
            if not seconds:
                raise UsageError("time_limit: wanted seconds above 0, found 0")
            limits["time_limit"] = seconds
        return limits


def _found(value: object) -> str:
    return "nothing" if value is None else shown(repr(value), 60)
