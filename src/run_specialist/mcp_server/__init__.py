"""The MCP server: specialists as tools, over stdio or HTTP."""
