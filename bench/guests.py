"""Optional peers, each in a separate environment because they depend on 50 more packages."""

import shutil
import subprocess
import sys
from pathlib import Path

from bench.process import LapFailed

PACKAGES = {
    "langchain": ("langchain", "langchain-anthropic"),
    "pydantic_ai": ("pydantic-ai-slim[anthropic]",),
}
"""Packages to install, in their newest versions."""
_SECONDS = 300


def install(name: str, folder: Path) -> tuple[str, str]:
    """Create an environment for a peer in a folder; return its interpreter and the package versions.

    Raises LapFailed if that fails.
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
        raise LapFailed("installation failed: uv not found on PATH")
    try:
        done = subprocess.run(
            [uv, *arguments], capture_output=True, text=True, timeout=_SECONDS, check=True, stdin=subprocess.DEVNULL
        )
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip() or "no output").splitlines()[-1]
        raise LapFailed(f"installation failed: {reason}") from error
    except subprocess.TimeoutExpired as error:
        raise LapFailed(f"installation failed: {error}") from error
    return done.stdout
