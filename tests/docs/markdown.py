"""The documents, and functions that extract parts of them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND_LINE = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")
FILES = (ROOT / "docs/specialist-files.md").read_text(encoding="utf-8")
LIMITS = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
STRUCTURED = (ROOT / "docs/structured-answers.md").read_text(encoding="utf-8")
STORED = (ROOT / "docs/stored-runs.md").read_text(encoding="utf-8")


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
