"""Runs the examples of the documentation as a notebook does."""

import ast
import inspect


async def execute(example):
    """Run an example that awaits things at its top, as a notebook does; return its names."""
    names = {"__name__": "example"}
    code = compile(example, "docs/python.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)  # noqa: S307 - examples from this repository
    if inspect.isawaitable(done):
        await done
    return names
