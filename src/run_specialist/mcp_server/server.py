"""The specialists as tools for MCP clients, over standard input and output or HTTP."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams

from run_specialist.api.runner import Runner
from run_specialist.mcp_server.guard import when_gone
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
"""What ends the server where the system has it, and with which exit code."""
LAST_WORDS = 1.0
"""What the calls under way have to be answered in when the server ends [s]."""


class Transport(Protocol):
    """How clients reach a server."""

    async def serve(self, server: Server[Any], ready: Callable[[str], None]) -> None:
        """Serve until there is nobody to serve, or `stop`; calls `ready` with the place once clients can come."""
        ...

    def stop(self) -> None:
        """Let `serve` return."""
        ...


def make_server(service: Service) -> Server[Any]:
    """Return a server for a service; which transport it is put on is another matter."""

    async def list_tools(_: ServerRequestContext, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=service.tools())

    async def call_tool(context: ServerRequestContext, params: CallToolRequestParams) -> CallToolResult:
        async def tell(news: ProgressUpdate) -> None:
            await context.session.report_progress(news.progress, news.total, news.message)

        caller = Caller(tell, lambda abort: when_gone(context.request, abort))
        return await service.call(params.name, params.arguments, caller)

    return Server(
        "run-specialist",
        version=release(),
        title="Specialists",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        # None of our arguments travels as a header, so no list has to be made to look for them.
        get_tool_input_schema=lambda _: None,
    )


async def serve(runner: Runner, make_transport: Callable[[], Transport], say: Callable[[str], None]) -> Exit:
    """Serve until the clients are gone or a signal comes; then stop the runs, which are stored with what they have.

    make_transport: called once the loop runs.
    say: tells a line to who started the server.
    Raises UsageError where the transport cannot be had, or the store.
    """
    async with runner:
        await asyncio.to_thread(check_store, runner.store)
        transport = make_transport()
        service = Service(runner, say)
        ending = _Ending(service, transport)
        ending.listen()
        count = len(service.catalogue().offered)

        def ready(place: str) -> None:
            say(f"serving {count} specialist{'' if count == 1 else 's'} on {place}")

        try:
            await transport.serve(make_server(service), ready)
        finally:
            await service.runs.close()
    return ending.code


class _Ending:
    """What signals do: the first one ends the runs and then the server, a second one the program."""

    def __init__(self, service: Service, transport: Transport) -> None:
        self.code = Exit.OK
        self._service = service
        self._transport = transport
        self._task: asyncio.Task[None] | None = None

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for name, code in SIGNALS.items():
            number = getattr(signal, name, None)
            # `nohup` has a terminal's end ignored.
            if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
                loop.add_signal_handler(number, self._end, code)

    def _end(self, code: Exit) -> None:
        if self._task is not None:
            kill_all()
            os._exit(code or 128 + signal.SIGTERM)
        self.code = code
        self._task = asyncio.create_task(self._stop())

    async def _stop(self) -> None:
        await self._service.close(LAST_WORDS)
        self._transport.stop()
