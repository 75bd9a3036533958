"""Configurations of the MCP servers that tests start."""

from pathlib import Path

from run_specialist.specialist.mcp_servers.server_config import ServerConfig
from tests.wire.mcp_servers.running_servers import script


def good(tmp_path: Path, **more: object) -> ServerConfig:
    """Return the server that behaves; its command line ends with a mark."""
    return ServerConfig("good", script("good", str(tmp_path)), **more)
