"""The tools of the MCP server: listing and calling them."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mcp_types import CallToolResult, Tool

from run_specialist.api.flag_names import with_flags
from run_specialist.api.runner import Runner
from run_specialist.errors import RunSpecialistError, UsageError
from run_specialist.mcp_server.arguments import Arguments
from run_specialist.mcp_server.catalogue import Catalogue, SpecialistTool, read_catalogue
from run_specialist.mcp_server.results import error_result, outcome_result
from run_specialist.mcp_server.run_tools import LONGEST_WAIT, run_tools, served_status, started, stored_status
from run_specialist.mcp_server.runs import SendUpdate, ServedRun, ServedRuns, prepared
from run_specialist.mcp_server.store_location import StoreLocation
from run_specialist.mcp_server.stored_runs import FinishedRun, past_run
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import project_path
from run_specialist.tools.threads import in_thread

_LIMITS = ("tool_calls_limit", "time_limit")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Caller:
    """The client of one call."""

    send: SendUpdate
    """Sends a progress notification, if the client requested progress."""
    on_disconnect: Callable[[Callable[[], None]], None]
    """Registers a function to call when the client disconnects."""


class Service:
    """Serves the specialists of a project as tools."""

    def __init__(self, runner: Runner, say: Callable[[str], None]) -> None:
        """Create a service.

        say: prints a message for the user.
        """
        self._runner = runner
        self._say = say
        self._reported: set[str] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._location = StoreLocation(runner.store)
        self.runs = ServedRuns(runner, self._location)

    async def catalogue(self) -> Catalogue:
        """Read the specialist files, and leave out those that cannot work here; report each problem once."""
        readable = self._readable()
        files = [one.file for one in readable.offered.values()]
        # Looking for files may take long.
        unavailable = await in_thread(partial(self._runner.working.unavailable, files))
        catalogue = readable.without(unavailable)
        self._report(catalogue)
        # What works again meanwhile is reported if it ceases to work once more.
        self._reported.intersection_update(catalogue.problems)
        return catalogue

    def _readable(self) -> Catalogue:
        """Return all specialists whose file has no errors; those that cannot work here refuse to be run."""
        catalogue = read_catalogue(self._runner.registry)
        self._report(catalogue)
        return catalogue

    def _report(self, catalogue: Catalogue) -> None:
        for problem in catalogue.problems:
            if problem not in self._reported:
                self._reported.add(problem)
                self._say(f"not served: {problem}")

    async def tools(self) -> list[Tool]:
        """Return the tools for the current specialist files."""
        catalogue = await self.catalogue()
        return [*(one.tool for one in catalogue.offered.values()), *run_tools(catalogue)]

    async def call(self, name: str, given: Mapping[str, Any] | None, caller: Caller) -> CallToolResult:
        """Execute a tool call; errors are returned as error results."""
        task = asyncio.current_task()
        if task is not None:
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        try:
            match name:
                case "start_run":
                    return await self._start(given)
                case "get_run":
                    return await self._get(given, caller)
                case "cancel_run":
                    return await self._cancel(given)
                case _:
                    return await self._ask(name, given, caller)
        except RunSpecialistError as error:
            return error_result(self._location.hide(with_flags(str(error))))
        except Exception as error:  # noqa: BLE001 - an error in one call must not end the others
            _log.debug("tool call failed", exc_info=True)
            return error_result(self._location.hide(f"internal error: {error!r}; please report it"))

    async def close(self, seconds: float) -> None:
        """Abort all runs, and wait until pending calls are answered.

        seconds: the timeout, for clients that do not read their answers.
        """
        await self.runs.close()
        calls = [task for task in self._calls if task is not asyncio.current_task()]
        if calls:
            await asyncio.wait(calls, timeout=seconds)

    async def _ask(self, name: str, given: Mapping[str, Any] | None, caller: Caller) -> CallToolResult:
        offered = self._readable().offered
        if name not in offered:
            there = ", ".join(tool.name for tool in await self.tools())
            raise UsageError(f"there is no tool {shown(repr(name))}; there are: {there}")
        arguments = Arguments(given, ("query", *_LIMITS))
        served = self._begin(offered[name], arguments)
        caller.on_disconnect(served.abort)
        try:
            await served.follow(caller.send)
        except asyncio.CancelledError:
            served.abort()
            raise
        if served.outcome is None:
            raise served.failure or UsageError("it was cancelled before it began")
        return outcome_result(served.outcome, stored=served.is_kept)

    async def _start(self, given: Mapping[str, Any] | None) -> CallToolResult:
        arguments = Arguments(given, ("specialist", "query", *_LIMITS))
        name = arguments.text("specialist")
        found = self._readable().find(name)
        if found is None:
            raise (await self.catalogue()).not_found(name)
        served = self._begin(found, arguments)
        await prepared(served)
        return started(served)

    def _begin(self, offered: SpecialistTool, arguments: Arguments) -> ServedRun:
        return self.runs.begin(offered.file.name, arguments.text("query"), arguments.limits())

    async def _get(self, given: Mapping[str, Any] | None, caller: Caller) -> CallToolResult:
        arguments = Arguments(given, ("run_id", "wait_seconds"))
        run_id = arguments.run_id()
        seconds = arguments.seconds("wait_seconds", most=LONGEST_WAIT)
        served = self.runs.get(run_id)
        if served is None:
            return stored_status(await self._stored(run_id))
        await served.follow(caller.send, seconds or 0)
        return served_status(served)

    async def _cancel(self, given: Mapping[str, Any] | None) -> CallToolResult:
        run_id = Arguments(given, ("run_id",)).run_id()
        served = self.runs.get(run_id)
        if served is None:
            run = await self._stored(run_id)
            if run.status == "running":
                raise UsageError(f"{run_id} is worked on by another process; it has to be stopped there")
            return stored_status(run)
        served.abort()
        await served.wait_ended()
        return served_status(served)

    async def _stored(self, run_id: str) -> FinishedRun:
        run = await asyncio.to_thread(past_run, self._runner.store, run_id, project_path(self._runner.root))
        return run if run.outcome is None else replace(run, outcome=self._location.hide_in(run.outcome))
