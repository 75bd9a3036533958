"""Ask for confirmation before a batch that may be expensive."""

import sys

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.batch.shared_options import CONFIRM_ABOVE, MoneyOptions
from run_specialist.cli.console import fail, is_terminal


def confirm(most: float | None, money: MoneyOptions) -> None:
    """Ask for confirmation if the forecast exceeds the amount of `--confirm-above`; exit if it is denied.

    most: maximum cost of the batch; None = unknown [USD].
    Without a terminal there is no question: the batch is refused if `--confirm-above` was given and is exceeded.
    """
    above = CONFIRM_ABOVE if money.confirm_above is None else money.confirm_above
    if money.yes or most is None or most <= above:
        return
    if is_terminal(sys.stdin) and is_terminal(sys.stderr):
        if not typer.confirm(f"This may cost {dollars(most)}. Continue?", err=True):
            fail("nothing was sent", 0)
    elif money.confirm_above is not None:
        fail(
            f"this may cost {dollars(most)}, more than --confirm-above {dollars(above)}; nothing was sent: add --yes, "
            "set a --cost-limit, or raise it"
        )
