"""Format the output of the benchmark."""

import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.figures.row import Line
from bench.server import codec

HEAD = ("measurement", "run-specialist", "other", "ratio", "target", "met")
PACKAGES = ("run-specialist", "anthropic", "httpx2", "pydantic", "sqlalchemy", "orjson", "uvloop")


def machine() -> str:
    """Return one paragraph about the machine and the software versions."""
    installed = ", ".join(f"{name} {found}" for name in PACKAGES if (found := _version(name)))
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit() or 'unknown'}. {_processor()}, "
        f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}. {installed}. "
        f"JSON library of the server: {codec.NAME}. Load of the machine at the start: {os.getloadavg()[0]:.1f}."
    )


def busy() -> str:
    """Return a warning if the machine is busy, otherwise an empty text."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < cores / 2:
        return ""
    return f"**This machine is busy (load {load:.1f} on {cores} cores): wall times are unreliable.**"


def table(lines: Iterable[Line]) -> str:
    """Return a Markdown table."""
    rows = [HEAD, ("---", *["---:"] * (len(HEAD) - 2), "---"), *(line.cells() for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def failures(lines: Sequence[Line]) -> str:
    """Return the reasons for failed lines, each once."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        if line.failed:
            reasons.setdefault(line.failed, []).append(line.row.what)
    return "\n".join(f"- {'; '.join(rows)}: {reason}" for reason, rows in reasons.items())


def commit() -> str:
    """Return the measured commit, or an empty text without git."""
    command = ("git", "describe", "--always", "--dirty=, with changes", "--exclude=*")
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name"))
    return next(names, platform.machine())
