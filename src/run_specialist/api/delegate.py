"""The delegate tool: lets the model of another agent ask specialists.

Errors are returned as text for that model; only cancellation is raised.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Unpack

from run_specialist import prompts
from run_specialist.api.runner import Runner
from run_specialist.errors import RunNotFound, RunSpecialistError, StoreMissing, ToolError, UsageError, errors_as
from run_specialist.loop.run import Run
from run_specialist.record.outcome import Outcome
from run_specialist.specialist.fields import Settings
from run_specialist.specialist.problems import shown
from run_specialist.specialist.settings import resolve
from run_specialist.specialist.tool_names import DELEGATE
from run_specialist.store.location import NONE, place
from run_specialist.tools import delegate

RUN_ID = "To ask the same run for more: its id. It knows what it found, and its budget is refreshed."
ANEW = "leave run_id out to ask anew"
KNOWN = ("specialist", "query", "run_id")


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Delegated:
    """The result of one call of the delegate tool."""

    text: str
    """The tool result for the calling model."""
    is_error: bool = False
    outcome: Outcome | None = None
    """The outcome of the run; None if no run was started."""


class Delegate(AbstractAsyncContextManager["Delegate"]):
    """A tool with which another agent's model asks specialists; calls may run concurrently."""

    def __init__(
        self,
        specialists: str | Sequence[str] | None = None,
        *,
        runner: Runner | None = None,
        name: str = DELEGATE,
        model: str | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        """Create the tool.

        specialists: names, or paths of files; None for every specialist that the runner finds. Those that cannot work
            here are not offered: see `unavailable`.
        runner: runs the specialists, and stays open; None creates a runner, which `aclose` closes.
        name: the tool's name for the agent's model.
        model: of every run; None for that of the runner.
        settings: keys of the specialist files to override in every run, e.g. `tool_calls_limit=12`.
        Raises UsageError for a specialist that does not exist or cannot be run, for an invalid setting, and if none of
        the specialists can work here.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(f"{shown(name)} is not a valid tool name; use 1 to 64 letters, digits, _ or -")
        self.name, self.runner, self._owns_runner = name, runner or Runner(), runner is None
        self._settings: dict[str, Any] = {**settings, **({} if model is None else {"model": model})}
        registry = self.runner.registry
        references = [specialists] if isinstance(specialists, str) else specialists
        references = registry.callable_names(["*"]) if references is None else references
        files = {reference: registry.find(reference) for reference in references}
        resolved = [replace(file, specialist=resolve(file, self._settings).settings) for file in files.values()]
        reasons = self.runner.maker.unavailable(resolved, model)
        self.unavailable = {file.name: reasons[file.path] for file in resolved if file.path in reasons}
        """Why specialists are not offered, by name: those that cannot work here."""
        found = {file.name: (reference, file.description) for reference, file in files.items()}
        found = {name: found[name] for name in sorted(found) if name not in self.unavailable}
        if not found:
            why = "; ".join(f"{one} cannot work here: {why}" for one, why in self.unavailable.items())
            raise UsageError(why or "no usable specialists found; create one with `specialists new NAME`")
        self._offered = {name: reference for name, (reference, _) in found.items()}
        self._is_stored = place(self.runner.store).url != NONE
        properties = {
            "specialist": {"type": "string", "enum": [*found], "description": delegate.SPECIALIST},
            "query": {"type": "string", "description": delegate.QUERY},
            **({"run_id": {"type": "string", "description": RUN_ID}} if self._is_stored else {}),
        }
        schema: dict[str, Any] = {"type": "object", "properties": properties, "required": ["specialist", "query"]}
        schema["additionalProperties"] = False
        # Serialized once: each request of the agent sends the same bytes, even if a file or a returned copy changes.
        self._description = delegate.description({name: description for name, (_, description) in found.items()})
        self._schema = json.dumps(schema)

    @property
    def definition(self) -> dict[str, Any]:
        """The tool definition for the Messages API."""
        return {"name": self.name, "description": self._description, "input_schema": json.loads(self._schema)}

    @property
    def function(self) -> dict[str, Any]:
        """The tool definition for the Chat Completions API."""
        function = {"name": self.name, "description": self._description, "parameters": json.loads(self._schema)}
        return {"type": "function", "function": function}

    async def __call__(self, arguments: Mapping[str, Any] | str) -> Delegated:
        """Execute a call.

        arguments: a mapping or JSON text, as the model sent it: `specialist`, `query` and, if runs are stored,
            `run_id`.
        On cancellation, the run is stopped and stored with its findings before CancelledError is raised.
        """
        specialist = None
        try:
            specialist, query, run_id = self._read(arguments)
            if run_id:
                run = await self._resume(specialist, query, run_id)
            else:
                run = await self.runner.prepare(self._offered[specialist], query, **self._settings)
        except ToolError as error:
            return Delegated(prompts.failed(self.name, str(error)), is_error=True)
        except Exception as error:  # noqa: BLE001 - a bug in this package must not end the agent's loop
            is_known = isinstance(error, RunSpecialistError | OSError)
            reason = error if is_known else f"internal error: {error!r}; please report it"
            return Delegated(delegate.failure_text(specialist or self.name, reason), is_error=True)
        outcome = await run.outcome()
        hint = (
            f'To ask this run for more, call {self.name} with run_id "{outcome.run_id}": it knows what it found, and '
            "its budget is refreshed."
        )
        if outcome.question:
            hint = f'To reply, call {self.name} with run_id "{outcome.run_id}" and the reply as query.'
        text = delegate.outcome_text(outcome, hint if self._is_stored and run.is_kept else "")
        return Delegated(text, delegate.has_failed(outcome), outcome)

    async def result(self, block: object) -> dict[str, Any]:
        """Execute a `tool_use` block of the Messages API, an SDK object or a dict, and return its `tool_result`."""
        done, call_id = await self._call(_field(block, "name"), _field(block, "input")), _field(block, "id")
        return {"type": "tool_result", "tool_use_id": call_id, "content": done.text, "is_error": done.is_error}

    async def message(self, call: object) -> dict[str, Any]:
        """Execute a tool call of the Chat Completions API, an SDK object or a dict, and return its `tool` message."""
        function = _field(call, "function")
        delegated = await self._call(_field(function, "name"), _field(function, "arguments"))
        return {"role": "tool", "tool_call_id": _field(call, "id"), "content": delegated.text}

    async def aclose(self) -> None:
        """Close the runner if this tool created it."""
        if self._owns_runner:
            await self.runner.aclose()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _call(self, name: object, arguments: Any) -> Delegated:  # noqa: ANN401 - unchecked input of a model
        if name != self.name:
            reason = f"there is no such tool; there is {self.name}"
            return Delegated(prompts.failed(shown(str(name)), reason), is_error=True)
        return await self(arguments)

    def _read(self, arguments: object) -> tuple[str, str, str | None]:
        """Return the specialist, the query and the run to resume; raises ToolError that says what is expected."""
        if isinstance(arguments, str):
            with errors_as(ToolError, "the arguments are no JSON", ValueError, RecursionError):
                arguments = json.loads(arguments)
        if not isinstance(arguments, Mapping):
            raise ToolError('the arguments are no JSON object like {"specialist": "...", "query": "..."}')
        given, names = dict(arguments), self._offered
        if "query" not in given and "question" in given:
            given["query"] = given.pop("question")
        if unknown := sorted(str(key) for key in given if key not in KNOWN):
            raise ToolError(f"{shown(', '.join(unknown))}: no such argument; put all that matters into query")
        found = {key: shown(repr(given[key])) if key in given else "none" for key in KNOWN}
        specialist, query, run_id = (given.get(key) for key in KNOWN)
        if not isinstance(specialist, str):
            raise ToolError(f"specialist: wanted one of {', '.join(names)}, found {found['specialist']}")
        if specialist not in names:
            close = difflib.get_close_matches(specialist[:100].strip(), names, n=3, cutoff=0.5)
            instead = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names)}"
            raise ToolError(f"specialist: there is no {shown(specialist)}; {instead}")
        if not isinstance(query, str):
            raise ToolError(f"query: wanted the question as a text, found {found['query']}")
        if not query.strip():
            raise ToolError("query: it is empty; say what the specialist shall find out")
        if not isinstance(run_id, str | None):
            raise ToolError(f"run_id: wanted the id of a run as a text, found {found['run_id']}; {ANEW}")
        if run_id and not self._is_stored:
            raise ToolError(f"run_id: no runs are kept here; {ANEW}")
        return specialist, query, run_id

    async def _resume(self, specialist: str, query: str, run_id: str) -> Run:
        """Resume a stored run of this specialist."""
        try:
            stored = await self.runner.maker.store.load(run_id, "")
        except (RunNotFound, StoreMissing):
            stored = None
        # The model must not reach runs of other specialists or projects.
        expected = (run_id, specialist, str(self.runner.root))
        if stored is None or (stored.run_id, stored.specialist, str(stored.frozen["root"])) != expected:
            raise ToolError(f"run_id: no run {shown(run_id)} of {specialist} is kept here; {ANEW}")
        try:
            return await self.runner.resume(run_id, query)
        except UsageError as error:
            raise UsageError(f"{error}; or {ANEW}") from None


def _field(source: object, key: str) -> Any:  # noqa: ANN401 - an SDK object, or JSON
    """Return a field of an SDK object or a dict; None if it is missing."""
    return source.get(key) if isinstance(source, Mapping) else getattr(source, key, None)


delegate_tool = Delegate
"""Return a tool that lets another agent ask specialists; see `Delegate`."""
