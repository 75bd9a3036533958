"""Augmenters that show the model its remaining budget in tool results."""

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind, Limit, Phase
from run_specialist.loop.executed import Augmenter, Executed

WARN_AT_CHARACTERS = 0.9
"""Share of the character limit at which a warning that was set for tool calls appears, too."""


def countdown(style: str) -> Augmenter:
    """Return the augmenter that appends the remaining budget of the tightest kind to each result.

    style: `remaining` or `budget`, the formats of `prompts.countdown`.
    """

    def remaining(executed: Executed) -> str | None:
        return prompts.countdown(executed.budget.tightest, style)

    return remaining


def warning(at: float) -> Augmenter:
    """Return the augmenter that asks the model once to finish, before a limit is reached.

    at: when to warn; an integer = tool calls left, a float = spent share of any kind.
    """
    warned = False

    def warn(executed: Executed) -> str | None:
        nonlocal warned
        is_last = executed.number == executed.of_turn
        if warned or not is_last or executed.budget.phase is Phase.SPENT:
            return None
        warned = _is_near(executed.budget, at, executed.of_turn)
        return prompts.WARNING if warned else None

    return warn


def _is_near(budget: Budget, at: float, calls_per_turn: int) -> bool:
    if not isinstance(at, int):
        return any(limit.reached(at) for limit in budget.limits)
    calls: Limit = budget[Kind.TOOL_CALLS]
    # The next turn may make as many calls as this one, and the warning must come before the last call.
    few_are_left = calls.remaining is not None and calls.remaining <= max(at, calls_per_turn)
    return few_are_left or budget[Kind.CHARACTERS].reached(WARN_AT_CHARACTERS)
