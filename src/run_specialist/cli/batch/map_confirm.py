"""The question before a batch that may be expensive."""

import sys

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.shared_options import CONFIRM_ABOVE, MoneyOptions
from run_specialist.cli.console import fail, is_terminal


def confirm(most: float | None, money: MoneyOptions) -> None:
    """Ask whether to go on if the forecast is above the amount that needs no question; exit if not.

    most: what may be spent; None = unknown [USD].
    Without a terminal nothing is asked: the batch is refused only if that amount was given.
    """
    above = CONFIRM_ABOVE if money.confirm_above is None else money.confirm_above
    if money.yes or most is None or most <= above:
        return
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        if not typer.confirm(f"This may cost {dollars(most)}. Go on?", err=True):
            fail("nothing was sent", 0)
    elif money.confirm_above is not None:
        fail(
            f"this may cost {dollars(most)}, more than --confirm-above {dollars(above)}; nothing was sent: add --yes, "
            "set a --cost-limit, or raise it"
        )
