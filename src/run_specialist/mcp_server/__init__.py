"""How an MCP client gets in."""
