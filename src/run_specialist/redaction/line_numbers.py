"""How the lines of files look in the results of tools."""

NUMBERED = r"(?:[ \t]*\d{1,7}\t|[^\s:]{1,200}?[:-]\d{1,7}[:-][ ])?"
"""Matches what a tool puts before a line: nothing, its number, or path and number."""
