"""Ask specialists, each defined in a Markdown file, that work within a budget and always answer.

from run_specialist import run

outcome = await run("thoughts-analyzer", "Why did we choose SQLite?", tool_calls_limit=12)
print(outcome.status, outcome.answer)

Outside an event loop, call `run_sync` with the same arguments. `Runner` reuses connections across questions.
All public names, with examples: docs/python.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from run_specialist.api.delegate import Delegate, Delegated, delegate_tool
    from run_specialist.api.run_maker import EndedRun
    from run_specialist.api.runner import Runner, Stream, run, run_sync
    from run_specialist.batch.batch import Batch
    from run_specialist.batch.item import Done
    from run_specialist.errors import (
        AtWork,
        NotResumable,
        NotTrusted,
        ProviderError,
        RunNotFound,
        RunSpecialistError,
        SpecialistNotFound,
        SpecialistUnusable,
        StoreUnusable,
        ToolError,
        UsageError,
    )
    from run_specialist.loop.job import Augmenter, Executed
    from run_specialist.loop.run import Run
    from run_specialist.providers.base import Delta
    from run_specialist.record.events import (
        BudgetSpent,
        Called,
        ChildTold,
        Event,
        FileChanged,
        Finished,
        Forked,
        Landed,
        ModelChanged,
        Replied,
        Requested,
        Resumed,
        Retrying,
        Started,
        Summarized,
        Waiting,
        Warned,
    )
    from run_specialist.record.outcome import Child, Evidence, Outcome
    from run_specialist.specialist.fields import Specialist
    from run_specialist.tools.base import Context, Output, Tool
    from run_specialist.tools.python_tools import tool

__all__ = [
    "AtWork",
    "Augmenter",
    "Batch",
    "BudgetSpent",
    "Called",
    "Child",
    "ChildTold",
    "Context",
    "Delegate",
    "Delegated",
    "Delta",
    "Done",
    "EndedRun",
    "Event",
    "Evidence",
    "Executed",
    "FileChanged",
    "Finished",
    "Forked",
    "Landed",
    "ModelChanged",
    "NotResumable",
    "NotTrusted",
    "Outcome",
    "Output",
    "ProviderError",
    "Replied",
    "Requested",
    "Resumed",
    "Retrying",
    "Run",
    "RunNotFound",
    "RunSpecialistError",
    "Runner",
    "Specialist",
    "SpecialistNotFound",
    "SpecialistUnusable",
    "Started",
    "StoreUnusable",
    "Stream",
    "Summarized",
    "Tool",
    "ToolError",
    "UsageError",
    "Waiting",
    "Warned",
    "delegate_tool",
    "run",
    "run_sync",
    "tool",
]

_HOMES = {
    "api.delegate": (
        "Delegate",
        "Delegated",
        "delegate_tool",
    ),
    "api.run_maker": ("EndedRun",),
    "api.runner": (
        "Runner",
        "Stream",
        "run",
        "run_sync",
    ),
    "batch.batch": ("Batch",),
    "batch.item": ("Done",),
    "errors": (
        "AtWork",
        "NotResumable",
        "NotTrusted",
        "ProviderError",
        "RunNotFound",
        "RunSpecialistError",
        "SpecialistNotFound",
        "SpecialistUnusable",
        "StoreUnusable",
        "ToolError",
        "UsageError",
    ),
    "loop.job": (
        "Augmenter",
        "Executed",
    ),
    "loop.run": ("Run",),
    "providers.base": ("Delta",),
    "record.outcome": (
        "Child",
        "Evidence",
        "Outcome",
    ),
    "specialist.fields": ("Specialist",),
    "tools.base": (
        "Context",
        "Output",
        "Tool",
    ),
    "tools.python_tools": ("tool",),
}
"""Modules and the public names they define; all other names are events."""

if not TYPE_CHECKING:  # a module-level __getattr__ would hide misspelled names from type checkers

    def __getattr__(name: str) -> object:
        """Import a public name on first access, so that `--help` stays fast."""
        if name == "__version__":
            return import_module(f"{__name__}.version").release()
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = next((home for home, names in _HOMES.items() if name in names), "record.events")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
