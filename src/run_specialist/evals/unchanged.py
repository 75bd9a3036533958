"""Check whether a stored run would read the same files today: repeat its calls of the file tools and compare."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.errors import RunSpecialistError, UsageError
from run_specialist.redaction import redactor
from run_specialist.tools.base import Tool
from run_specialist.tools.delegate_tool import NAME as DELEGATE
from run_specialist.tools.files.files import file_tools

if TYPE_CHECKING:
    from run_specialist.store.run_steps import RunSteps
    from run_specialist.store.stored import StoredCall, StoredRun

SEARCH = "search"
"""The search tool, whose notes are ignored: they count words in all files, also in those that the run did not read."""

READING = frozenset({SEARCH, "grep", "glob", "read", "ls", DELEGATE})
"""Tools whose results depend on files, and the tool whose child runs may use them."""

_Settings = tuple[tuple[str, ...], int]


class Unchanged:
    """Compares the results of stored calls with current ones; identical calls are made once."""

    def __init__(
        self,
        root: Path,
        secrets: Sequence[str],
        load: "Callable[[str], StoredRun | None]",
        steps: "Callable[[str], RunSteps | None]",
    ) -> None:
        """Configure the comparison.

        root: the folder that the file tools can read.
        secrets: credentials that are masked in stored results.
        load: returns a stored run.
        steps: returns the requests and calls of a stored run, without results.
        """
        self._root = root
        self._hide = redactor(tuple(secrets))
        self._load = load
        self._steps = steps
        self._tools: dict[_Settings, dict[str, Tool]] = {}
        self._results: dict[tuple[_Settings, str], str | None] = {}

    async def is_unchanged(self, run_id: str) -> bool:
        """Return whether a run and all runs below it would read the same; True if it is not stored."""
        steps = self._steps(run_id)
        if steps is not None and not any(call.name in READING for call in steps.calls):
            return True
        run = self._load(run_id)
        if run is None:
            return True
        settings = _settings(run.frozen.get("settings", {}))
        for call in run.calls:
            # A failed call may have been late, and a repeated one was compared before.
            if call.is_error or call.repeated or call.call.arguments is None:
                continue
            tool = self._toolset(settings).get(call.call.name)
            if tool is not None and await self._differs(settings, tool, call):
                return False
        for child in run.children:
            if not await self.is_unchanged(child.run_id):
                return False
        return True

    async def _differs(self, settings: _Settings, tool: Tool, call: "StoredCall") -> bool:
        key = (settings, call.call.key)
        if key not in self._results:
            try:
                output = await tool.call(call.call.arguments or {})
                self._results[key] = self._hide(output.text)
            except RunSpecialistError:
                # For example, the file no longer exists.
                self._results[key] = None
        now = self._results[key]
        return now is None or _compared(tool.name, now) != _compared(tool.name, call.whole)

    def _toolset(self, settings: _Settings) -> dict[str, Tool]:
        if settings not in self._tools:
            try:
                tools = file_tools(self._root, *settings)
            except UsageError:
                tools = []
            self._tools[settings] = {tool.name: tool for tool in tools}
        return self._tools[settings]


def _settings(stored: dict[str, Any]) -> _Settings:
    return tuple(stored.get("paths") or ()), int(stored.get("tool_result_limit") or 20_000)


def _compared(tool: str, text: str) -> str:
    if tool != SEARCH:
        return text
    return "\n".join(line for line in text.split("\n") if not line.startswith("["))
