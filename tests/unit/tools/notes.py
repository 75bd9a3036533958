"""Notes of a specialist in a temporary folder, and calls of the tool that keeps them."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.safety.redact import redactor
from run_specialist.tools.base import Tool
from run_specialist.tools.memory import NotesFolder, memory_tool

FOLDER = ".run-specialist/memory-local/finder"


@dataclass
class Notes:
    """The notes of the specialist `finder` of a project, as one run has them."""

    project: Path
    tool: Tool

    @classmethod
    def of(cls, project: Path, *secrets: str, result_limit: int = 20_000, is_dry: bool = False) -> "Notes":
        """Return the notes of a project; `secrets` are masked."""
        folder = NotesFolder(project, FOLDER, FOLDER.rpartition("/")[0])
        return cls(project, memory_tool(folder, redactor(secrets), result_limit, is_dry=is_dry))

    @property
    def folder(self) -> Path:
        """The folder of the notes."""
        return self.project / FOLDER

    def call(self, command: str, path: str = "", **arguments: Any) -> str:
        """Call the tool; return its result, or the error as the model reads it."""
        try:
            return asyncio.run(self.tool.call({"command": command, "path": path, **arguments})).text
        except ToolError as error:
            return f"error: {error}"

    def text(self, note: str = "MEMORY.md") -> str:
        """Return the content of a note."""
        return (self.folder / note).read_text()
