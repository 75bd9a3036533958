"""The forecast of a batch from past runs, and the question before an expensive one."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from run_specialist.budget.units import dollars
from run_specialist.cli.console import fail, is_terminal
from run_specialist.cli.map_options import CONFIRM_ABOVE, MoneyOptions
from run_specialist.cli.map_progress import TELLING
from run_specialist.cli.map_units import counted, duration, spread

if TYPE_CHECKING:
    from run_specialist.batch.forecast import Forecast
