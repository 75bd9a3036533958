"""What a specialist's file brings along beyond our own tools: functions of the project, tools of MCP servers."""

from dataclasses import dataclass

from run_specialist.tools.base import Tool


@dataclass(frozen=True)
class Equipment:
    """The tools that a file brings along, ready to be called."""

    functions: tuple[Tool, ...] = ()
    """Of `python_tools`; not filtered by the file's `tools`."""
    served: tuple[Tool, ...] = ()
    """Of `mcp_servers`, as `mcp__server__tool`; filtered by the file's `tools`."""
    warnings: tuple[str, ...] = ()
    """Why some are missing."""
