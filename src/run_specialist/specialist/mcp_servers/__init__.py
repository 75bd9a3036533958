"""The MCP servers that a file names."""
