"""The specialists as tools of an MCP server, over standard input and output or HTTP."""
