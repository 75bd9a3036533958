"""How a child feels its budget: the augmenters that say in its results what is left."""

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind, Limit, Phase
from run_specialist.loop.executed import Augmenter, Executed

WARN_AT_CHARACTERS = 0.9
"""Where a warning that counts calls comes for characters, which no number of calls tells [share]."""


def countdown(style: str) -> Augmenter:
    """Return the augmenter that tells what remains of the tightest kind.

    style: see `prompts.countdown`.
    """

    def remaining(executed: Executed) -> str | None:
        return prompts.countdown(executed.budget.tightest, style)

    return remaining


def warning(at: float) -> Augmenter:
    """Return the augmenter that asks once, before the end, to come to one.

    at: an integer is what is left of the tool calls, a float the share spent of any kind.
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


def _is_near(budget: Budget, at: float, calls_a_turn: int) -> bool:
    if not isinstance(at, int):
        return any(limit.reached(at) for limit in budget.limits)
    calls: Limit = budget[Kind.TOOL_CALLS]
    # The next turn may make as many calls as this one did: the last of them is what the warning must come before.
    few = calls.remaining is not None and calls.remaining <= max(at, calls_a_turn)
    return few or budget[Kind.CHARACTERS].reached(WARN_AT_CHARACTERS)
