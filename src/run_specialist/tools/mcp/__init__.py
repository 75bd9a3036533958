"""MCP client: the tools of MCP servers, named `mcp__server__tool`."""
