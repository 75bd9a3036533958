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
    # The names twice: type checkers see that they are exported.
    from run_specialist.api.delegate import Delegate as Delegate
    from run_specialist.api.delegate import Delegated as Delegated
    from run_specialist.api.delegate import delegate_tool as delegate_tool
    from run_specialist.api.runner import Runner as Runner
    from run_specialist.api.runner import Stream as Stream
    from run_specialist.api.runner import run as run
    from run_specialist.api.runner import run_sync as run_sync
    from run_specialist.batch.batch import Batch as Batch
    from run_specialist.batch.item import Done as Done
    from run_specialist.errors import AtWork as AtWork
    from run_specialist.errors import NotResumable as NotResumable
    from run_specialist.errors import NotTrusted as NotTrusted
    from run_specialist.errors import ProviderError as ProviderError
    from run_specialist.errors import RunNotFound as RunNotFound
    from run_specialist.errors import RunSpecialistError as RunSpecialistError
    from run_specialist.errors import SpecialistNotFound as SpecialistNotFound
    from run_specialist.errors import SpecialistUnusable as SpecialistUnusable
    from run_specialist.errors import StoreUnusable as StoreUnusable
    from run_specialist.errors import ToolError as ToolError
    from run_specialist.errors import UsageError as UsageError
    from run_specialist.loop.job import Augmenter as Augmenter
    from run_specialist.loop.job import Executed as Executed
    from run_specialist.loop.run import EndedRun as EndedRun
    from run_specialist.loop.run import Run as Run
    from run_specialist.providers.base import Delta as Delta
    from run_specialist.record.events import BudgetSpent as BudgetSpent
    from run_specialist.record.events import Called as Called
    from run_specialist.record.events import ChildTold as ChildTold
    from run_specialist.record.events import Event as Event
    from run_specialist.record.events import FileChanged as FileChanged
    from run_specialist.record.events import Finished as Finished
    from run_specialist.record.events import Forked as Forked
    from run_specialist.record.events import Landed as Landed
    from run_specialist.record.events import ModelChanged as ModelChanged
    from run_specialist.record.events import Replied as Replied
    from run_specialist.record.events import Requested as Requested
    from run_specialist.record.events import Resumed as Resumed
    from run_specialist.record.events import Retrying as Retrying
    from run_specialist.record.events import Started as Started
    from run_specialist.record.events import Steered as Steered
    from run_specialist.record.events import Summarized as Summarized
    from run_specialist.record.events import Waiting as Waiting
    from run_specialist.record.events import Warned as Warned
    from run_specialist.record.outcome import Child as Child
    from run_specialist.record.outcome import Evidence as Evidence
    from run_specialist.record.outcome import Outcome as Outcome
    from run_specialist.specialist.fields import Specialist as Specialist
    from run_specialist.tools.base import Context as Context
    from run_specialist.tools.base import Output as Output
    from run_specialist.tools.base import Tool as Tool
    from run_specialist.tools.python_tools import tool as tool

# Modules and the public names they define.
_HOMES = {
    "api.delegate": "Delegate Delegated delegate_tool",
    "api.runner": "Runner Stream run run_sync",
    "batch.batch": "Batch",
    "batch.item": "Done",
    "errors": "AtWork NotResumable NotTrusted ProviderError RunNotFound RunSpecialistError SpecialistNotFound "
    "SpecialistUnusable StoreUnusable ToolError UsageError",
    "loop.job": "Augmenter Executed",
    "loop.run": "EndedRun Run",
    "providers.base": "Delta",
    "record.events": "BudgetSpent Called ChildTold Event FileChanged Finished Forked Landed ModelChanged Replied "
    "Requested Resumed Retrying Started Steered Summarized Waiting Warned",
    "record.outcome": "Child Evidence Outcome",
    "specialist.fields": "Specialist",
    "tools.base": "Context Output Tool",
    "tools.python_tools": "tool",
}
__all__ = sorted(  # noqa: PLE0605 - made of strings
    " ".join(_HOMES.values()).split(), key=lambda name: (name.islower(), name)
)

if not TYPE_CHECKING:  # a module-level __getattr__ would hide misspelled names from type checkers

    def __getattr__(name: str) -> object:
        """Import a public name on first access, so that `--help` stays fast."""
        if name == "__version__":
            return import_module(f"{__name__}.version").release()
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = next(home for home, names in _HOMES.items() if name in names.split())
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
