"""Tools of MCP servers, as `mcp__server__tool`."""
