"""What does not depend on the machine: function calls per request, and the size of the installation."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.figures.figure import Figure, Size
from bench.figures.row import Row
from bench.lab import Lab

TOP = Path(__file__).parents[2]
MEGABYTE = 2**20


def lap(lab: Lab, size: Size) -> None:  # noqa: ARG001 - the signature of all figures
    """Count once: later laps would find the same."""
    if lab.has("size.own"):
        return
    with lab.failing("size.own"):
        command = [sys.executable, "-m", "bench.own_calls", "30"]
        counted = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True).stdout
        own, every = map(int, re.findall(r"\d+", counted))
        lab.note("size.own", own)
        lab.note("size.every", every)
    uv = shutil.which("uv")
    if uv is None:
        return
    with lab.failing("size.packages"):
        folder = lab.folder() / "base"
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", TOP], check=True)
        (packages,) = folder.glob("lib/python*/site-packages")
        lab.note("size.packages", len([*packages.glob("*.dist-info")]))
        sizes = (file.stat().st_size for file in packages.rglob("*") if file.is_file() and file.suffix != ".pyc")
        lab.note("size.megabytes", sum(sizes) / MEGABYTE)


def rows(size: Size) -> Sequence[Row]:
    """Return the lines of the table."""
    del size
    what = "function calls of a request, stored run of 30 calls"
    return [
        Row(f"{what}, with those of the libraries", "", "size.every", at_most=1_800),
        Row(f"{what}, of this package", "", "size.own", at_most=300),
        Row("packages of the base installation", "", "size.packages", at_most=40),
        Row("the base installation without bytecode", "MB", "size.megabytes", at_most=60),
    ]


FIGURE = Figure("size", "Calls and packages", lap, rows)
