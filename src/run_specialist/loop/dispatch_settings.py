"""How the tool calls of a turn are run."""

from dataclasses import dataclass


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
