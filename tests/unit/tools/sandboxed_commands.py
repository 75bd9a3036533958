"""Commands that the tool `bash` runs in tests."""

import select
import shutil
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from run_specialist.budget import Budget
from run_specialist.specialist.fields import Specialist
from run_specialist.tools.base import Context, Output, Tool
from run_specialist.tools.shell import system_sandbox
from run_specialist.tools.shell.tool import shell_tool

needs_bubblewrap = pytest.mark.skipif(bool(system_sandbox.why_no_sandbox()), reason="bubblewrap makes no sandbox here")
GIT = shutil.which("git") or "git"
SECONDS = 30.0
"""Timeout of a call, far above what it takes [s]."""
PATIENCE = 60
"""Timeout for processes to begin and to end [s]."""


@dataclass(frozen=True)
class Commands:
    """Runs commands in a folder."""

    root: Path

    def tool(self, **settings: object) -> Tool:
        """Return the tool of a specialist with these keys."""
        given = {"name": "finder", "description": "", "prompt": "", "tools": ("bash",)} | settings
        return shell_tool(Specialist.model_validate(given), self.root)

    async def __call__(
        self, command: str, seconds: float = SECONDS, tool: Tool | None = None, run_id: str = "run", **settings: object
    ) -> Output:
        """Run a command with these keys of a specialist, or with a tool that there is already."""
        tool = tool or self.tool(**settings)
        return await tool.call({"command": command}, Context(run_id, "call", Budget(()), seconds))

    def write(self, path: str, text: str = "plain\n") -> Path:
        """Write a file below the root."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def git(self, *arguments: str, folder: Path | None = None) -> None:
        """Run git in the root."""
        names = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main"]
        subprocess.run([GIT, *names, *arguments], cwd=folder or self.root, check=True, capture_output=True)


def processes_with(mark: str) -> list[int]:
    """Return the processes of this host whose command line contains a text."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark in (folder / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_for(mark: str, count: int) -> list[int]:
    """Wait until so many processes contain a text, and return them; raises TimeoutError."""
    end = time.monotonic() + PATIENCE
    while len(found := processes_with(mark)) < count:
        if time.monotonic() > end:
            raise TimeoutError(f"{len(found)} processes")
        select.select([], [], [], 0.01)
    return found


def unique_mark() -> str:
    """Return a text that no other process has in its command line."""
    return uuid.uuid4().hex
