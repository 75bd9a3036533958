"""Configurations of the MCP servers that tests start."""

from pathlib import Path

from run_specialist.specialist.mcp_servers import ServerConfig
from tests.wire.mcp_servers.running_servers import script


def good(tmp_path: Path, **more: object) -> ServerConfig:
    """Return the configuration of the well-behaved server; its command line ends with the temporary folder."""
    return ServerConfig("good", script("good", str(tmp_path)), **more)
