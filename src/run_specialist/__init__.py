"""Hand a question to a specialist written in Markdown; it lands softly at its limit and always answers.

from run_specialist import run

outcome = run("thoughts-analyzer", "Why did we choose SQLite?", tool_calls_limit=12)
print(outcome.status, outcome.answer)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from run_specialist.doors.api import Runner, run
    from run_specialist.errors import NotTrusted, ProviderError, RunSpecialistError, SpecialistNotFound, UsageError
    from run_specialist.executed import Augmenter, Executed
    from run_specialist.outcome import Outcome
    from run_specialist.specialist.fields import Specialist
    from run_specialist.tools.base import Tool
    from run_specialist.tools.context import Context
    from run_specialist.tools.own import tool

__all__ = [
    "Augmenter",
    "Context",
    "Executed",
    "NotTrusted",
    "Outcome",
    "ProviderError",
    "RunSpecialistError",
    "Runner",
    "Specialist",
    "SpecialistNotFound",
    "Tool",
    "UsageError",
    "run",
    "tool",
]

_HOMES = {
    "Augmenter": "executed",
    "Context": "tools.context",
    "Executed": "executed",
    "Outcome": "outcome",
    "Runner": "doors.api",
    "Specialist": "specialist.fields",
    "Tool": "tools.base",
    "run": "doors.api",
    "tool": "tools.own",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: the commands' `--help` must not pay for all of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
