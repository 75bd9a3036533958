"""Examples of the pages, run as a notebook runs them."""

import ast
import inspect


async def execute(example):
    """Run an example that awaits things at its top, as a notebook does; return its names."""
    names = {"__name__": "example"}
    code = compile(example, "docs/python.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)  # noqa: S307 - the examples are ours
    if inspect.isawaitable(done):
        await done
    return names
