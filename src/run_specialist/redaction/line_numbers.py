"""The line numbers that tools put before the lines of files."""

NUMBERED = r"(?:[ \t]*\d{1,7}\t|[^\s:]{1,200}?[:-]\d{1,7}[:-][ ])?"
"""Matches the prefix of a line in a tool result: nothing, its number, or path and number."""
