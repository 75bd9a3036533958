"""Validate the arguments of a tool call; errors name the expected value, so that a model can retry."""

import math
import re
from collections.abc import Mapping
from typing import Any

from run_specialist.errors import UsageError
from run_specialist.specialist.problems import shown

LARGEST = 1_000_000_000
"""Largest accepted limit."""
_RUN_ID = re.compile("[A-Za-z0-9_-]{1,64}")


class Arguments:
    """The arguments of one call; null counts as missing, because models write missing values this way."""

    def __init__(self, given: Mapping[str, Any] | None, known: tuple[str, ...]) -> None:
        """Set the arguments; `question` is read as `query`. Raises UsageError for an unknown name."""
        self._given = dict(given or {})
        if "query" in known and "query" not in self._given and "question" in self._given:
            self._given["query"] = self._given.pop("question")
        for key in self._given:
            if key not in known:
                raise UsageError(f"there is no argument {shown(key)}; there are: {', '.join(known)}")

    def text(self, key: str) -> str:
        """Return a required argument that is a non-empty string."""
        value = self._given.get(key)
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{key}: wanted a text that is not empty, found {_found(value)}")
        return value

    def run_id(self) -> str:
        """Return the run id; raises UsageError if it is malformed, so that only valid ids reach the store."""
        given = self.text("run_id").strip()
        if not _RUN_ID.fullmatch(given):
            raise UsageError(f"run_id: wanted the whole run_id as start_run returned it, found {_found(given)}")
        return given

    def seconds(self, key: str, *, most: float = LARGEST) -> float | None:
        """Return a duration from 0 to `most` [s]; None if it is missing."""
        value = self._given.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise UsageError(f"{key}: wanted seconds from 0 to {most:,}, found {_found(value)}")
        return value

    def limits(self) -> dict[str, Any]:
        """Return the given limits of the run, by key of the specialist's file."""
        limits: dict[str, Any] = {}
        if (calls := self._given.get("tool_calls_limit")) is not None:
            if isinstance(calls, float) and math.isfinite(calls) and calls.is_integer():
                # JSON Schema counts 3.0 as an integer.
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
