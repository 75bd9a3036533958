"""The MCP server and its shutdown by signals; independent of the transport."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from run_specialist.api.runner import Runner
from run_specialist.mcp_server.guard import on_disconnect
from run_specialist.mcp_server.progress import ProgressUpdate
from run_specialist.mcp_server.service import Caller, Service
from run_specialist.mcp_server.stored_runs import check_store
from run_specialist.record.outcome import Exit
from run_specialist.tools.mcp.process import kill_all
from run_specialist.version import release

INSTRUCTIONS = """\
Each tool is a specialist: it works on one question alone, with a limited number of tool calls, and always answers, at \
its limit with what it has gathered by then. It sees nothing of your conversation, so put all it has to know into the \
query. Its answer comes with evidence; `verified` says whether a quote was really read. For a question that takes \
longer than you can wait, use start_run and get_run."""
SIGNALS = {"SIGINT": Exit.INTERRUPTED, "SIGTERM": Exit.OK, "SIGHUP": Exit.OK}
"""Signals that end the server, if the platform has them, and the exit code of each."""
LAST_WORDS = 1.0
"""Time for answering pending calls at shutdown [s]."""


class Transport(Protocol):
    """A connection to clients: stdio or HTTP."""

    async def serve(self, server: Server[Any], ready: Callable[[str], None]) -> None:
        """Serve until all clients have disconnected or `stop` is called.

        ready: called with the address once clients can connect.
        """
        ...

    def stop(self) -> None:
        """Make `serve` return."""
        ...


def make_server(service: Service) -> Server[Any]:
    """Return an MCP server for a service, for any transport."""

    async def list_tools(_: ServerRequestContext, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=await service.tools())

    async def call_tool(context: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        async def send(update: ProgressUpdate) -> None:
            await context.session.report_progress(update.progress, update.total, update.message)

        caller = Caller(send, lambda callback: on_disconnect(context.request, callback))
        return await service.call(params.name, params.arguments, caller)

    return Server(
        "run-specialist",
        version=release(),
        title="Specialists",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        # No argument of the tools is sent as a header, so the library need not look up schemas.
        get_tool_input_schema=lambda _: None,
    )


async def serve(runner: Runner, make_transport: Callable[[], Transport], say: Callable[[str], None]) -> Exit:
    """Serve until the clients have disconnected or a signal arrives; then abort the runs, which store their findings.

    make_transport: called inside the event loop.
    say: prints a message for the user.
    Raises UsageError if the transport or the store cannot be opened, and if models are required and there is none.
    """
    async with runner:
        runner.working.check_models(runner.registry.nearest())
        await asyncio.to_thread(check_store, runner.store)
        transport = make_transport()
        service = Service(runner, say)
        shutdown = _Shutdown(service, transport)
        shutdown.install_handlers()
        served = [one.file for one in (await service.catalogue()).offered.values()]

        def ready(place: str) -> None:
            if note := runner.working.offline_note(served):
                say(f"warning: {note}")
            say(f"serving {len(served)} specialist{'' if len(served) == 1 else 's'} on {place}")

        try:
            await transport.serve(make_server(service), ready)
        finally:
            await service.runs.close()
    return shutdown.code


class _Shutdown:
    """Shutdown by signals: the first one ends the runs and then the server, the second one the program."""

    def __init__(self, service: Service, transport: Transport) -> None:
        self.code = Exit.OK
        self._service = service
        self._transport = transport
        self._task: asyncio.Task[None] | None = None

    def install_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for name, code in SIGNALS.items():
            number = getattr(signal, name, None)
            # `nohup` ignores SIGHUP.
            if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
                loop.add_signal_handler(number, self._handle, code)

    def _handle(self, code: Exit) -> None:
        if self._task is not None:
            kill_all()
            os._exit(code or 128 + signal.SIGTERM)
        self.code = code
        self._task = asyncio.create_task(self._stop())

    async def _stop(self) -> None:
        await self._service.close(LAST_WORDS)
        self._transport.stop()
