"""The two commands: parse, call, show, exit code."""
