"""Runs the examples of the documentation as a notebook does."""

import ast
import inspect


async def execute(example):
    """Run an example with top-level `await`, as a notebook does, and return its variables."""
    names = {"__name__": "example"}
    code = compile(example, "docs/python.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)  # noqa: S307 - examples from this repository
    if inspect.isawaitable(done):
        await done
    return names
