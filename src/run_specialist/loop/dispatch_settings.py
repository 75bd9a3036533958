"""Settings for running the tool calls of a turn."""

from dataclasses import dataclass

SHORTEST_RESULT = 200
"""Minimum length of each result, however many calls a turn has [characters]."""


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    """Limits and options of the dispatcher."""

    parallel_tools_limit: int = 4
    """Tools running concurrently inside one turn."""
    tool_timeout: float = 60
    """Timeout of one call [s]."""
    tool_result_limit: int = 20_000
    """Longer results are cut [characters]."""
    limit_fields: bool = False
    """Whether the last result of a turn reports a reached limit in JSON fields."""
    share_budget: bool = True
    """Whether a child run draws on the remaining budget."""
    turn_chars: int | None = None
    """All results of a turn together are cut to this length [characters]; None = no limit."""

    def result_chars(self, calls: int) -> int:
        """Return the maximum length of one result [characters].

        calls: number of executed tool calls in the turn.
        """
        if self.turn_chars is None:
            return self.tool_result_limit
        return min(self.tool_result_limit, max(self.turn_chars // max(calls, 1), SHORTEST_RESULT))
