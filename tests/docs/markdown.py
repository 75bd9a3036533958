"""The documents, and functions that extract parts of them and run their examples."""

import ast
import inspect
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def page(name: str) -> str:
    """Return the text of a page of docs/."""
    return (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")


FILES = page("specialist-files")
LIMITS = page("limits")
STORED = page("stored-runs")
JSON = page("json")
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "tests/behaviours.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "bench").glob("*.md")),
]
"""All documents but the changelog and the notes."""


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def table(text: str, heading: str) -> list[list[str]]:
    """Return the rows of the first table after a heading, without the header row."""
    below = re.split(r"\n##+ ", re.split(rf"^{re.escape(heading)}$", text, maxsplit=1, flags=re.MULTILINE)[1])[0]
    lines = below.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = re.match(r"(?:\|.*\n?)*", "\n".join(lines[first:]))[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def named(cell: str) -> list[str]:
    """Return the names in backticks in a cell."""
    return re.findall(r"`(\w+)`", cell)


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as the usual hosts of Markdown form them."""
    outside = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", outside, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


async def execute(example: str) -> dict[str, Any]:
    """Run an example with top-level `await`, as a notebook does, and return its variables."""
    names: dict[str, Any] = {"__name__": "example"}
    code = compile(example, "docs/python.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)  # noqa: S307 - examples from this repository
    if inspect.isawaitable(done):
        await done
    return names
