"""Test helpers: load specialist files from front matter, and list their problems."""

from pathlib import Path

from run_specialist.specialist.loader import SpecialistFile, load_text

HEAD = "name: agent\ndescription: Finds notes\n"


def file_of(front: str, body: str = "You find notes.") -> SpecialistFile:
    """Load a file with this front matter and a matching path."""
    return load_text(f"---\n{front.rstrip()}\n---\n{body}\n", Path("agent.md"))


def lines_of(file: SpecialistFile) -> list[str]:
    """Return the problems of a file without their path."""
    return [str(problem).removeprefix("agent.md:") for problem in file.problems]
