"""Fetch pinned packages into a cache folder outside the repository, and print the tables of the judges."""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from bench.report import commit


def cache() -> Path:
    """Return the folder for fetched packages, which is never in the repository."""
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(base) / "run-specialist" / "judges"


def installed(pin: str, *, alone: bool = True) -> Path:
    """Return a folder with the files of a package, which is fetched on first use.

    pin: `NAME==VERSION`.
    alone: without its dependencies, because only its data is read.
    Exits with one line if it cannot be fetched.
    """
    folder = cache() / pin.replace("==", "-")
    if not folder.is_dir():
        only = ["--no-deps"] if alone else []
        _fetch(
            ["uv", "pip", "install", "--quiet", "--python", sys.executable, *only, "--target", "{}", pin], folder, pin
        )
    return folder


def source(pin: str) -> Path:
    """Return a folder with the source distribution of a package, where its tests and examples are."""
    folder = cache() / f"{pin.replace('==', '-')}-source"
    if not folder.is_dir():
        pip = ["uv", "run", "--quiet", "--no-project", "--with", "pip", "python", "-m", "pip", "download", "--quiet"]
        _fetch([*pip, "--no-deps", "--no-binary", ":all:", "--dest", "{}", pin], folder, pin)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    (top,) = (one for one in folder.iterdir() if one.is_dir())
    return top


def _fetch(command: Sequence[str], folder: Path, pin: str) -> None:
    """Run a command that fills a folder; the folder exists only if the command succeeds."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    # Variables of an active environment would redirect the installation.
    env = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}}
    try:
        done = subprocess.run(
            [part.format(made) for part in command], env=env, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        sys.exit(f"{pin} cannot be fetched: uv is not installed")
    if done.returncode:
        last = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no output")
        sys.exit(f"{pin} cannot be fetched: {last}")
    made.chmod(0o755)
    made.rename(folder)


def heading(judge: str, pins: Iterable[str]) -> str:
    """Return one line about what was measured, with which versions, on which commit."""
    return f"{judge}: {', '.join(pins)}; run-specialist {version('run-specialist')}, commit {commit() or 'unknown'}\n"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; columns whose cells are all numbers are aligned to the right."""
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    right = [all(re.fullmatch(r"[\d.,%]*", row[at]) for row in cells) for at in range(len(head))]
    lines = [head, ["---:" if number else "---" for number in right], *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
