"""MCP servers for tests: scripts that run as processes, connections to them, and a search for leftover processes."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from run_specialist.specialist.mcp_servers import ServerConfig
from run_specialist.tools.base import Tool
from run_specialist.tools.mcp import McpClients

SCRIPTS = Path(__file__).parent


def script(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that starts one of the scripts."""
    return (sys.executable, str(SCRIPTS / f"{name}.py"), *arguments)


def raw(how: str, marker: Path, timeout: float = 30) -> ServerConfig:
    """Return the configuration of a misbehaving server; its command line ends with the marker."""
    return ServerConfig("raw", script("raw", how, str(marker)), env=(("MARKER", str(marker)),), timeout=timeout)


def good(tmp_path: Path, **more: object) -> ServerConfig:
    """Return the configuration of the well-behaved server; its command line ends with the temporary folder."""
    return ServerConfig("good", script("good", str(tmp_path)), **more)


def running(mark: Path | str) -> list[int]:
    """Return the ids of the processes whose command line contains the marker."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if str(mark).encode() in words:
                found.append(int(folder.name))
    return found


async def until(condition: Callable[[], object]) -> None:
    """Wait for an effect of another process, with a generous timeout."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - another process sends no event
            await asyncio.sleep(0.01)


class ServerTools:
    """The tools of some servers, keyed by the last part of their names."""

    def __init__(self, clients: McpClients, tools: tuple[Tool, ...], warnings: tuple[str, ...]) -> None:
        self.clients = clients
        self.tools = {tool.name.split("__", 2)[2]: tool for tool in tools}
        self.warnings = warnings

    async def call(self, tool: str, within: float = 30, **arguments: object) -> str:
        """Return the output of a tool, the text of its error, or `nothing` after a timeout."""
        try:
            output = await self.tools[tool].call_within(within, arguments)
        except Exception as error:  # noqa: BLE001 - reported to the test
            return f"{type(error).__name__}: {error}"
        return "nothing" if output is None else output.text


@asynccontextmanager
async def connected(root: Path, *servers: ServerConfig) -> AsyncIterator[ServerTools]:
    """Connect to some servers, yield their tools, and close everything at the end."""
    clients = McpClients()
    try:
        tools, warnings = await clients.tools({server.name: server for server in servers}, root=root)
        yield ServerTools(clients, tools, warnings)
    finally:
        await clients.aclose()
