"""The MCP server: its requests, its shutdown, and the transport over stdio."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from run_specialist.api.runner import Runner
from run_specialist.errors import RunSpecialistError, UsageError, with_flags
from run_specialist.mcp_server import runs, tools
from run_specialist.mcp_server.tools import Catalogue, checked_arguments, outcome_result
from run_specialist.record.outcome import Exit
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.problems import shown
from run_specialist.specialist.project import project_path
from run_specialist.tools.mcp import replace_lone_surrogates
from run_specialist.tools.threads import in_thread, kill_all
from run_specialist.version import release

if TYPE_CHECKING:
    from run_specialist.mcp_server.http import Http

_LIMITS = ("tool_calls_limit", "time_limit")
_log = logging.getLogger(__name__)


# Registers a function to call when the client of a call disconnects; None for a client that polls tasks.
_OnDisconnect = Callable[[Callable[[], None]], None] | None
_Called = mcp_types.CallToolResult | dict[str, Any]
_Context = ServerRequestContext[Any, Any]
_Page = mcp_types.PaginatedRequestParams | None


class Service:
    """Serves the specialists of a project as tools."""

    def __init__(self, runner: Runner, say: Callable[[str], None]) -> None:
        """Create a service; say: prints a message for the user."""
        self._runner = runner
        self._say = say
        self._reported: set[str] = set()
        self._calls: set[asyncio.Task[Any]] = set()
        self._location = runs.StoreLocation(runner.store)
        self.runs = runs.ServedRuns(runner, self._location)

    async def catalogue(self) -> Catalogue:
        """Read the specialist files, and leave out those that cannot work here; report each problem once."""
        readable = self._readable()
        files = [file for file, _ in readable.offered.values()]
        # Looking for files may take long.
        catalogue = readable.without(await in_thread(partial(self._runner.maker.unavailable, files)))
        self._report(catalogue)
        # A problem that is solved and comes back is reported again.
        self._reported.intersection_update(catalogue.problems)
        return catalogue

    def _readable(self) -> Catalogue:
        """Return all specialists whose file has no errors; those that cannot work here refuse to be run."""
        catalogue = tools.read_catalogue(self._runner.registry)
        self._report(catalogue)
        return catalogue

    def _report(self, catalogue: Catalogue) -> None:
        for problem in catalogue.problems:
            if problem not in self._reported:
                self._reported.add(problem)
                self._say(f"not served: {problem}")

    async def tools(self, *, tasks: bool = False) -> list[mcp_types.Tool]:
        """Return the tools for the current specialist files; tasks: for a client that polls them."""
        catalogue = await self.catalogue()
        offered = (tool for _, tool in catalogue.offered.values())
        return tools.task_tools(catalogue) if tasks else [*offered, *tools.run_tools(catalogue)]

    async def call(
        self, name: str, given: Mapping[str, Any] | None, send: runs.SendUpdate, on_disconnect: _OnDisconnect
    ) -> _Called:
        """Execute a tool call; errors are returned as error results.

        send: sends a progress notification, if the client requested progress.
        on_disconnect: None for a client that polls tasks, which gets a task in place of the outcome of a specialist.
        """
        task = asyncio.current_task()
        if task is not None:
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)
        try:
            if name == "start_run":
                return await self._start(given)
            of_run: dict[str, Callable[..., Any]] = {"steer_run": self._steer, "cancel_run": self._cancel}
            of_run["get_run"] = partial(self._get, send=send)
            if name in of_run:
                return tools.status_result(await of_run[name](given))
            return await self._ask(name, given, send, on_disconnect)
        except Exception as error:  # noqa: BLE001 - an error in one call must not end the others
            return tools.result(self.told(error), None, is_error=True)

    def told(self, error: Exception) -> str:
        """Return an error as a text for the client, without the location of the store."""
        if isinstance(error, RunSpecialistError):
            return self._location.hide(with_flags(str(error)))
        _log.debug("request failed", exc_info=error)
        return self._location.hide(f"internal error: {error!r}; please report it")

    async def prompt(self, name: str, given: Mapping[str, Any] | None) -> mcp_types.GetPromptResult:
        """Return the prompt with which a person has a specialist asked."""
        tool_name, _ = await self._named(name)
        return tools.prompt(tool_name, checked_arguments(given, [], ["query"]).get("query"))

    async def resource(self, uri: str) -> mcp_types.ReadResourceResult:
        """Return what `get_run` returns, as JSON or as text."""
        found = tools.RUN_URI.fullmatch(uri)
        if not found:
            there = ", ".join(one.uri_template for one in tools.TEMPLATES)
            raise UsageError(f"there is no resource {shown(repr(uri))}; there are: {there}")
        return tools.resource(uri, await self._status({"run_id": found[1]}), is_report=bool(found[2]))

    async def task(self, method: str, task_id: str) -> dict[str, Any]:
        """Answer a request about a task, which is a run."""
        run = await (self._cancel if method == "tasks/cancel" else self._status)({"run_id": task_id})
        return tools.task(run) if method == "tasks/get" else {}

    async def close(self, seconds: float) -> None:
        """Abort all runs, and wait until pending calls are answered.

        seconds: the timeout, for clients that do not read their answers.
        """
        await self.runs.close()
        calls = [task for task in self._calls if task is not asyncio.current_task()]
        if calls:
            await asyncio.wait(calls, timeout=seconds)

    async def _ask(
        self, name: str, given: Mapping[str, Any] | None, send: runs.SendUpdate, on_disconnect: _OnDisconnect
    ) -> _Called:
        offered = self._readable().offered
        if name not in offered:
            there = ", ".join(tool.name for tool in await self.tools(tasks=on_disconnect is None))
            raise UsageError(f"there is no tool {shown(repr(name))}; there are: {there}")
        limits = checked_arguments(given, ["query"], _LIMITS if on_disconnect else [*_LIMITS, "run_id"])
        served = await self._begin(offered[name][0].name, limits)
        if on_disconnect is None:
            await served.prepared()
            return tools.task(served.status(), is_new=True)
        on_disconnect(served.abort)
        try:
            await served.follow(send)
        except asyncio.CancelledError:
            served.abort()
            raise
        if served.outcome is None:
            raise served.failure or UsageError("it was cancelled before it began")
        return outcome_result(served.outcome, stored=served.run is not None and served.run.is_kept)

    async def _start(self, given: Mapping[str, Any] | None) -> mcp_types.CallToolResult:
        limits = checked_arguments(given, ["specialist", "query"], [*_LIMITS, "run_id"])
        _, file = await self._named(limits.pop("specialist"))
        served = await self._begin(file.name, limits)
        return tools.started((await served.prepared()).run_id)

    async def _named(self, name: str) -> tuple[str, SpecialistFile]:
        """Return a specialist by the name of its tool or its own."""
        offered = self._readable().offered
        for tool_name, (file, _) in offered.items():
            if name in {tool_name, file.name}:
                return tool_name, file
        there = ", ".join((await self.catalogue()).offered) or "none; see what `specialists check` says"
        raise UsageError(f"there is no specialist {shown(repr(name))}; there are: {there}")

    async def _begin(self, specialist: str, arguments: dict[str, Any]) -> runs.ServedRun:
        run_id = arguments.pop("run_id", None)
        if run_id is not None and (await self._stored(run_id)).specialist != specialist:
            raise UsageError(f"{run_id} is no run of {specialist}")
        return self.runs.begin(specialist, arguments.pop("query"), arguments, run_id)

    async def _get(self, given: Mapping[str, Any] | None, send: runs.SendUpdate) -> runs.RunStatus:
        arguments = checked_arguments(given, ["run_id"], ["wait_seconds"])
        if served := self.runs.known.get(arguments["run_id"]):
            await served.follow(send, arguments.pop("wait_seconds", 0))
        return await self._status({"run_id": arguments["run_id"]})

    async def _status(self, given: Mapping[str, Any]) -> runs.RunStatus:
        run_id = checked_arguments(given, ["run_id"])["run_id"]
        served = self.runs.known.get(run_id)
        return await self._stored(run_id) if served is None else served.status()

    async def _steer(self, given: Mapping[str, Any] | None) -> runs.RunStatus:
        arguments = checked_arguments(given, ["run_id", "text"])
        run_id = arguments["run_id"]
        served = self.runs.known.get(run_id)
        if served is None or served.run is None:
            status = (await self._stored(run_id)).status
            raise UsageError(f"{run_id} is not at work on this server, so it cannot be steered ({status})")
        if not served.run.steer(arguments["text"]):
            raise UsageError(f"{run_id} answers already, so it was not told; ask it more by start_run with its run_id")
        return served.status()

    async def _cancel(self, given: Mapping[str, Any] | None) -> runs.RunStatus:
        run_id = checked_arguments(given, ["run_id"])["run_id"]
        served = self.runs.known.get(run_id)
        if served is None:
            run = await self._stored(run_id)
            if run.status == "running":
                raise UsageError(f"{run_id} is worked on by another process; it has to be stopped there")
            return run
        served.abort()
        if served.task is not None:
            await asyncio.wait([served.task])
        return served.status()

    async def _stored(self, run_id: str) -> runs.RunStatus:
        run = await asyncio.to_thread(runs.past_run, self._runner.store, run_id, project_path(self._runner.root))
        return run if run.outcome is None else replace(run, outcome=self._location.hide_in(run.outcome))


INSTRUCTIONS = """\
Each tool is a specialist: it works on one question alone, with a limited number of tool calls, and always answers, at \
its limit with what it has gathered by then. It sees nothing of your conversation, so put all it has to know into the \
query. Its answer comes with evidence; `verified` says whether a quote was really read. For a question that takes \
longer than you can wait, use start_run and get_run, if they are listed."""
SIGNALS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.OK, signal.SIGHUP: Exit.OK}
"""Signals that end the server, and the exit code of each."""
TASKS = "io.modelcontextprotocol/tasks"
"""The extension for long calls; a client declares it with each request."""
# Time for answering pending calls at shutdown [s].
_LAST_WORDS = 1.0


class TaskParams(mcp_types.RequestParams):
    """The parameters of each request about a task; no task asks for `inputResponses`."""

    task_id: str


def make_server(service: Service) -> Server[Any]:
    """Return an MCP server for a service, for any transport.

    Tasks follow https://github.com/modelcontextprotocol/ext-tasks; the library has only the means for extensions.
    """
    from run_specialist.mcp_server.http import on_disconnect  # noqa: PLC0415 - fast `--help`

    def takes_tasks(context: _Context) -> bool:
        declared = getattr(context.session.client_capabilities, "extensions", None) or {}
        return TASKS in declared and context.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def list_tools(context: _Context, _: _Page) -> mcp_types.ListToolsResult:
        return mcp_types.ListToolsResult(tools=await service.tools(tasks=takes_tasks(context)))

    async def call_tool(context: _Context, params: mcp_types.CallToolRequestParams) -> Any:  # noqa: ANN401 - a task is unknown to the library
        async def send(update: runs.ProgressUpdate) -> None:
            await context.session.report_progress(update.progress, update.total, update.message)

        disconnects = None if takes_tasks(context) else partial(on_disconnect, context.request)
        return await service.call(params.name, params.arguments, send, disconnects)

    async def list_prompts(_: _Context, __: _Page) -> mcp_types.ListPromptsResult:
        return mcp_types.ListPromptsResult(prompts=tools.prompts(await service.catalogue()))

    async def get_prompt(_: _Context, params: mcp_types.GetPromptRequestParams) -> mcp_types.GetPromptResult:
        return await service.prompt(params.name, params.arguments)

    async def list_resources(context: _Context, _: _Page) -> mcp_types.ListResourcesResult:
        # Over stdio all runs are those of the one client; over HTTP the list would disclose those of others.
        return mcp_types.ListResourcesResult(resources=tools.reports({} if context.request else service.runs.known))

    async def list_templates(_: _Context, __: _Page) -> mcp_types.ListResourceTemplatesResult:
        return mcp_types.ListResourceTemplatesResult(resource_templates=tools.TEMPLATES)

    async def read_resource(_: _Context, params: mcp_types.ReadResourceRequestParams) -> mcp_types.ReadResourceResult:
        return await service.resource(params.uri)

    async def of_task(context: _Context, params: TaskParams) -> dict[str, Any]:
        require_client_extension(context, TASKS)
        if context.request is not None and context.request.headers.get("mcp-name") != params.task_id:
            raise MCPError(mcp_types.HEADER_MISMATCH, "the header Mcp-Name must be the taskId of the request")
        return await service.task(context.method, params.task_id)

    async def with_errors(ctx: _Context, call_next: CallNext) -> HandlerResult:
        try:
            return await call_next(ctx)
        except (MCPError, ValidationError):
            raise
        except Exception as error:  # noqa: BLE001 - the library would send any text to clients of older revisions
            code = mcp_types.INVALID_PARAMS if isinstance(error, RunSpecialistError) else mcp_types.INTERNAL_ERROR
            uri = (ctx.params or {}).get("uri")
            raise MCPError(code, service.told(error), uri and {"uri": uri}) from None

    server = Server[Any](
        "run-specialist",
        version=release(),
        title="Specialists",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        # No argument of the tools is sent as a header, so the library need not look up schemas.
        get_tool_input_schema=lambda _: None,
    )
    server.extensions[TASKS] = {}
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        server.add_request_handler(method, TaskParams, of_task)
    server.middleware.append(with_errors)
    return server


async def serve(runner: Runner, make_transport: "Callable[[], Stdio | Http]", say: Callable[[str], None]) -> Exit:
    """Serve until the clients have disconnected or a signal arrives; then abort the runs, which store their findings.

    make_transport: called inside the event loop.
    say: prints a message for the user.
    Raises UsageError if the transport or the store cannot be opened, and if models are required and there is none.
    """
    code = Exit.OK
    ending: asyncio.Task[None] | None = None
    async with runner:
        runner.environments.models.check_any([file.specialist for file in runner.registry.nearest() if file.specialist])
        await asyncio.to_thread(runs.check_store, runner.store)
        transport = make_transport()
        service = Service(runner, say)

        async def stop() -> None:
            await service.close(_LAST_WORDS)
            transport.stop()

        def end(by_signal: Exit) -> None:
            """End the runs and then the server; at the second signal, the program."""
            nonlocal code, ending
            if ending is not None:
                kill_all()
                os._exit(by_signal or 128 + signal.SIGTERM)
            code, ending = by_signal, asyncio.create_task(stop())

        for number, by_signal in SIGNALS.items():
            # `nohup` ignores SIGHUP.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, end, by_signal)
        served = [file for file, _ in (await service.catalogue()).offered.values()]

        def ready(place: str) -> None:
            if note := runner.maker.offline_note(served):
                say(f"warning: {note}")
            say(f"serving {len(served)} specialist{'' if len(served) == 1 else 's'} on {place}")

        try:
            await transport.serve(make_server(service), ready)
        finally:
            await service.runs.close()
    return code


CHUNK = 65_536
LONGEST_LINE = 4 * 1024 * 1024
"""Maximum length of a message, as over HTTP; longer messages are skipped [bytes]."""
PATIENCE = 2.0
"""Time for pending messages after the client has closed standard input; it may have stopped reading [s]."""


class Stdio:
    """Serves one client over standard input and output."""

    def __init__(self, say: Callable[[str], None] = print) -> None:
        """Reserve both streams: other code then reads end-of-file, and its output goes to standard error.

        say: prints a message for the user.
        """
        self._say = say
        if sys.stdout is not None:
            sys.stdout.flush()
        self._input = _reserve(0, os.open(os.devnull, os.O_RDONLY))
        try:
            errors = os.dup(2)
        except OSError:
            errors = os.open(os.devnull, os.O_WRONLY)
        self._output = _reserve(1, errors)
        self._scope = anyio.CancelScope()

    async def serve(self, server: Server[Any], ready: Callable[[str], None]) -> None:
        """Serve until the client closes standard input, or `stop` is called."""
        ready("standard input and output")
        with self._scope:
            # Reads and writes run in daemon threads: blocked threads of the library would prevent the program's exit.
            streams = stdio_server(cast("Any", self._lines()), cast("Any", self))
            async with streams as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())

    def stop(self) -> None:
        """Make `serve` return."""
        self._scope.cancel()

    async def write(self, text: str) -> None:
        """Write a message; stop the server if the client has closed its end."""
        try:
            await in_thread(partial(_write, self._output, text.encode("utf-8", "replace")))
        except OSError:
            self.stop()

    async def flush(self) -> None:
        """Do nothing, because `write` is unbuffered."""

    async def _lines(self) -> AsyncIterator[str]:
        line = bytearray()
        while chunk := await in_thread(partial(_read, self._input)):
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                line += end
                if len(line) > LONGEST_LINE:
                    # Its request id was not read.
                    self._say(f"warning: skipped a message of more than {LONGEST_LINE} bytes")
                    reason = f"a message may have {LONGEST_LINE} bytes; this one was longer and was not read"
                    error = {"code": mcp_types.INVALID_REQUEST, "message": reason}
                    await self.write(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}) + "\n")
                else:
                    yield replace_lone_surrogates(bytes(line)).decode("utf-8", "replace")
                line.clear()
            line += rest
            # Of a line that is too long, only this is kept.
            del line[LONGEST_LINE + 1 :]
        asyncio.get_running_loop().call_later(PATIENCE, self.stop)


def _reserve(number: int, replacement: int) -> int:
    """Return a private duplicate of a standard descriptor, and redirect the original."""
    private = os.dup(number)
    os.dup2(replacement, number, inheritable=True)
    os.close(replacement)
    return private


def _read(descriptor: int) -> bytes:
    with suppress(OSError):
        return os.read(descriptor, CHUNK)
    return b""


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
