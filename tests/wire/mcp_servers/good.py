"""A well-behaved MCP server, over its standard input and output or over HTTP."""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents

server = MCPServer("good")
STOPPED = Path(os.environ.get("STOPPED", os.devnull))


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool(name="odd.name/with blanks and a very long tail that no API of a model would take as a name")
def odd() -> str:
    """Be called by a strange name."""
    return "odd"


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Say what was said."""
    return text


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("the owl is asleep")


@server.tool(structured_output=False)
def environment() -> str:
    """Tell the variables, and where it works."""
    return "\n".join([f"cwd={Path.cwd()}", f"pid={os.getpid()}", *(f"{k}={v}" for k, v in sorted(os.environ.items()))])


@server.tool(structured_output=False)
async def slow(seconds: float) -> str:
    """Take its time, and note when it is told to stop."""
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        STOPPED.write_text("stopped")  # noqa: ASYNC240 - writes a single word
        raise
    return "done"


@server.tool(structured_output=False)
def mixed() -> list[Any]:
    """Answer with every kind of non-text content, and some text."""
    data = "QUJD" * 400
    return [
        TextContent(type="text", text="a text"),
        ImageContent(type="image", data=data, mime_type="image/png"),
        AudioContent(type="audio", data=data, mime_type="audio/wav"),
        ResourceLink(type="resource_link", uri="file:///owls.md", name="owls", description="About owls"),
        EmbeddedResource(
            type="resource",
            resource=TextResourceContents(uri="file:///mice.md", text="About mice", mime_type="text/plain"),
        ),
    ]


@server.tool()
def structured() -> dict[str, int]:
    """Answer with data."""
    return {"owls": 3}


@server.tool(structured_output=False)
def ask_back(question: str) -> str:
    """Say a question again."""
    return question


def web() -> None:
    """Serve over HTTP, and print the port to standard output."""
    listening = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    sys.stderr.write("starting\n")
    if sys.argv[1:] == ["web"]:
        web()
    else:
        server.run("stdio")
