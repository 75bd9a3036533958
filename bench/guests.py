"""Peers that are measured only when they are named, each in an environment of its own: they would bring 50 packages."""

import shutil
import subprocess
import sys
from pathlib import Path

from bench.process import LapFailed

PACKAGES = {
    "langchain": ("langchain", "langchain-anthropic"),
    "pydantic_ai": ("pydantic-ai-slim[anthropic]",),
}
"""What is installed, in the newest version there is."""
_SECONDS = 300


def install(name: str, folder: Path) -> tuple[str, str]:
    """Make an environment for a peer in a folder; return its interpreter, and what was installed.

    Raises LapFailed where it cannot be made.
    """
    python = str(folder / name / "bin" / "python")
    _uv("venv", "--quiet", "--python", sys.executable, str(folder / name))
    _uv("pip", "install", "--quiet", "--python", python, *PACKAGES[name])
    wanted = {package.partition("[")[0] for package in PACKAGES[name]} | {"anthropic"}
    listed = _uv("pip", "freeze", "--python", python).splitlines()
    return python, ", ".join(line.replace("==", " ") for line in listed if line.partition("==")[0] in wanted)


def _uv(*arguments: str) -> str:
    uv = shutil.which("uv")
    if uv is None:
        raise LapFailed("it cannot be installed: there is no uv on the path")
    try:
        done = subprocess.run(
            [uv, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=True, stdin=subprocess.DEVNULL
        )
    except subprocess.CalledProcessError as error:
        told = (error.stderr.strip() or "it said nothing").splitlines()[-1]
        raise LapFailed(f"it cannot be installed: {told}") from error
    except subprocess.TimeoutExpired as error:
        raise LapFailed(f"it cannot be installed: {error}") from error
    return done.stdout
