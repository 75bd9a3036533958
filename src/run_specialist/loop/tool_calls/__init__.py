"""The tool calls of one turn."""
