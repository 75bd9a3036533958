"""Check that the MCP servers that a specialist requires are available."""

from collections.abc import Collection

from run_specialist.specialist.fields import Specialist


def missing_server(settings: Specialist, servers: Collection[str]) -> str:
    """Return the missing required server, in one clause; empty if there is none.

    servers: Names of the available servers. A required name is a part of one of them, in any case.
    """
    known = [name.lower() for name in servers]
    missing = [name for name in settings.required_mcp_servers if not any(name.lower() in one for one in known)]
    return f"it requires the MCP server {', '.join(missing)}" if missing else ""
