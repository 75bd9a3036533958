"""How another agent gets in: a tool that it can offer its model, and the coroutine that executes it.

Whatever happened, its model gets a text that it can act on; nothing is raised but a cancellation.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from run_specialist import prompts
from run_specialist.api.delegate_arguments import ANEW, DelegateArguments, read, schema
from run_specialist.api.runner import Runner
from run_specialist.budget.budget import Kind
from run_specialist.errors import RunNotFound, RunSpecialistError, StoreMissing, ToolError, UsageError
from run_specialist.loop.run import Run
from run_specialist.record.outcome import Outcome
from run_specialist.spawning.spawner import LIMITS
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.problems import shown
from run_specialist.specialist.registry import Registry
from run_specialist.specialist.resolve import resolve
from run_specialist.store.location import NONE, place
from run_specialist.store.stored import StoredRun
from run_specialist.tools.delegate_tool import (
    NAME,
    AgentDescription,
    description,
    failure_text,
    has_failed,
    outcome_text,
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Delegated:
    """What came of one call."""

    text: str
    """What the model reads that called."""
    is_error: bool = False
    outcome: Outcome | None = None
    """None where nobody was asked."""


def delegate_tool(
    specialists: str | Sequence[str] | None = None,
    *,
    runner: Runner | None = None,
    name: str = NAME,
    **settings: Any,  # noqa: ANN401 - keys of the specialist's file, each of its own type
) -> "Delegate":
    """Return the tool with which an agent asks specialists.

    specialists: names, or paths of files; None for all that the runner finds and that can be run.
    runner: runs them, and stays open; None for one of the tool's own, which `aclose` closes.
    name: of the tool, as the agent's model sees it.
    settings: keys of the files that every run overrides, e.g. `tool_calls_limit=12`.
    Raises UsageError for a specialist that is not there or cannot be run, and for a setting that makes no sense.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"{shown(name)} is no name of a tool: 1 to 64 letters, digits, _ and - are taken")
    own = runner is None
    runner = runner or Runner()
    given = _usable(runner.registry) if specialists is None else specialists
    found: dict[str, tuple[str, str]] = {}
    for wanted in [given] if isinstance(given, str) else given:
        file = runner.registry.find(wanted)
        resolve(file, settings)
        found[file.name] = wanted, file.description
    if not found:
        raise UsageError("there is no specialist to ask; write one with `specialists new NAME`")
    return Delegate(runner, name, dict(sorted(found.items())), settings, own)


def _usable(registry: Registry) -> list[str]:
    """Return the names of all that can be run."""
    return [file.name for file in registry.nearest() if file.specialist]


class Delegate:
    """A tool for an agent's model, made by `delegate_tool`; several calls may be executed at the same time."""

    def __init__(
        self,
        runner: Runner,
        name: str,
        found: Mapping[str, tuple[str, str]],
        settings: Mapping[str, Any],
        owns_runner: bool,  # noqa: FBT001 - made in one place
    ) -> None:
        """Take what was found.

        found: names, sorted, each with what the runner finds it by, and its description.
        """
        self.runner = runner
        self.name = name
        self._offered = {name: wanted for name, (wanted, _) in found.items()}
        self._settings = settings
        self._owns_runner = owns_runner
        self._store = place(runner.store).url
        self._is_stored = self._store != NONE
        # Frozen as text, so that it is the same in each request of the agent, whatever becomes of a file or of a copy.
        self._description = description([AgentDescription(name, words) for name, (_, words) in found.items()])
        self._schema = json.dumps(schema(self._offered, stored=self._is_stored))

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as the Messages API takes it."""
        return {"name": self.name, "description": self._description, "input_schema": json.loads(self._schema)}

    @property
    def function(self) -> dict[str, Any]:
        """The tool as chat completions take it."""
        function = {"name": self.name, "description": self._description, "parameters": json.loads(self._schema)}
        return {"type": "function", "function": function}

    async def __call__(self, arguments: Mapping[str, Any] | str) -> Delegated:
        """Execute a call.

        arguments: as the model gave them, read or still as JSON: `specialist`, `query` and, where runs are stored,
            `run_id`.
        A cancellation stops the run, which keeps what it gathered, and goes on its way.
        """
        specialist = None
        try:
            asked = read(arguments, self._offered, stored=self._is_stored)
            specialist = asked.specialist
            run = await (self._begin(asked) if asked.run_id is None else self._go_on(asked, asked.run_id))
        except ToolError as error:
            return Delegated(prompts.failed(self.name, str(error)), is_error=True)
        except (RunSpecialistError, OSError) as error:
            return Delegated(failure_text(specialist or self.name, error), is_error=True)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not end an agent's loop
            why = f"internal error: {error!r}; please report it"
            return Delegated(failure_text(specialist or self.name, why), is_error=True)
        outcome = await run.outcome()
        return Delegated(outcome_text(outcome, self._more(run, outcome)), has_failed(outcome), outcome)

    async def result(self, block: object) -> dict[str, Any]:
        """Execute a `tool_use` block of the Messages API, an object of the SDK or a dict; return its `tool_result`."""
        done = await self._called(_part(block, "name"), _part(block, "input"))
        return {
            "type": "tool_result",
            "tool_use_id": _part(block, "id"),
            "content": done.text,
            "is_error": done.is_error,
        }

    async def message(self, call: object) -> dict[str, Any]:
        """Execute a tool call of chat completions, an object of the SDK or a dict; return its `tool` message."""
        function = _part(call, "function")
        done = await self._called(_part(function, "name"), _part(function, "arguments"))
        return {"role": "tool", "tool_call_id": _part(call, "id"), "content": done.text}

    async def aclose(self) -> None:
        """Close the runner, if it is the tool's own."""
        if self._owns_runner:
            await self.runner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _called(self, name: object, arguments: Any) -> Delegated:  # noqa: ANN401 - whatever a model gives
        if name != self.name:
            why = f"there is no such tool; there is {self.name}"
            return Delegated(prompts.failed(shown(str(name)), why), is_error=True)
        return await self(arguments)

    async def _begin(self, asked: DelegateArguments) -> Run:
        return await self.runner.prepare(self._offered[asked.specialist], asked.query, **self._settings)

    async def _go_on(self, asked: DelegateArguments, run_id: str) -> Run:
        """Take up an earlier run with its whole budget once more."""
        kept = await asyncio.to_thread(_load, self._store, run_id)
        # No other run is the model's business, and no other folder.
        same = (run_id, asked.specialist, str(self.runner.root))
        if kept is None or (kept.run_id, kept.specialist, str(kept.frozen["root"])) != same:
            raise ToolError(f"run_id: no run {shown(run_id)} of {asked.specialist} is kept here; {ANEW}")
        settings = resolve(self.runner.registry.find(self._offered[asked.specialist]), self._settings).settings
        try:
            return await self.runner.resume(run_id, asked.query, **_refreshed(settings, kept))
        except UsageError as error:
            raise UsageError(f"{error}; or {ANEW}") from None

    def _more(self, run: Run, outcome: Outcome) -> str:
        if not (self._is_stored and run.is_kept):
            return ""
        return (
            f'To ask this run for more, call {self.name} with run_id "{outcome.run_id}": it knows what it found, and '
            "its budget is refreshed."
        )


def _load(store: str, run_id: str) -> StoredRun | None:
    from run_specialist.store.reader import Store  # noqa: PLC0415 - a database library

    try:
        with Store(store) as opened:
            return opened.load(run_id)
    except (RunNotFound, StoreMissing):
        return None


def _refreshed(settings: Specialist, kept: StoredRun) -> dict[str, Any]:
    """Return new totals: what was used, and what the file allows once more."""
    used = kept.standing.used if kept.standing else {}
    limits = {key: (kind, getattr(settings, key)) for key, kind in LIMITS.items()}
    return {
        key: None if limit is None else _total(kind, limit + used.get(kind, 0)) for key, (kind, limit) in limits.items()
    }


def _total(kind: Kind, amount: float) -> float:
    return amount if kind in {Kind.TIME, Kind.COST} else int(amount)


def _part(thing: object, key: str) -> Any:  # noqa: ANN401 - an object of an SDK, or JSON
    """Return a field of what an SDK gave, or of a dict; None where there is none."""
    return thing.get(key) if isinstance(thing, Mapping) else getattr(thing, key, None)
