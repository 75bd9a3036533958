"""Run the file tools in extreme roots and print the time and memory of each call.

Run it from the top of the repository:

    python -m bench.sandbox_rig [--files 100000] [--gigabytes 1] [--levels 1500] [--only NAME]

Each root is created in the folder for temporary files and removed afterwards. It runs in a separate process, so that
the memory is that of its calls only. Calls may only raise errors meant for the model.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.tools.files import file_tools

MOST = 1_000_000_000
"""Size at which a growing file is truncated [bytes]."""
Calls = list[tuple[str, dict[str, Any]]]
EVERYWHERE: Calls = [
    ("ls", {}),
    ("glob", {"pattern": "**"}),
    ("grep", {"pattern": "needle 77 of 42$"}),
    ("search", {"query": "needle 77 of 42"}),
    ("search", {"query": "needle 78 of 43"}),
]


def many(root: Path, given: argparse.Namespace) -> Calls:
    """Create many small files, a hundred per folder."""
    for number in range(given.files):
        if number % 100 == 0:
            folder = root / f"d{number // 1_000}" / f"e{number // 100}"
            folder.mkdir(parents=True)
        (folder / f"n{number % 100}.md").write_text(f"# Note {number}\n\nneedle {number % 100} of {number // 1_000}\n")
    return [*EVERYWHERE, ("read", {"path": "d1/e10/n1.md"}), ("read", {"path": "d1/e10/nothing.md"})]


def ignored(root: Path, given: argparse.Namespace) -> Calls:
    """Create the same files and a .gitignore of 120,000 lines."""
    calls = many(root, given)
    (root / ".gitignore").write_text("".join(f"x{number:05}\n" for number in range(120_000)))
    return [*calls, ("glob", {"pattern": "*absent*"})]


def wide(root: Path, given: argparse.Namespace) -> Calls:
    """Create all files in one folder."""
    for number in range(given.files):
        (root / f"n{number}.md").write_text(f"needle {number % 100} of {number // 1_000}\n")
    return [*EVERYWHERE, ("glob", {"pattern": "*absent*"})]


def sparse(root: Path, given: argparse.Namespace) -> Calls:
    """Create huge files: sparse, with a single line, and with some lines followed by a hole."""
    size = int(given.gigabytes * 1_000_000_000)
    for name, begin in {
        "hole.bin": b"",
        "line.txt": b"word " * 4_000,
        "head.txt": b"needle 77 of 42\n" * 1_000,
    }.items():
        with (root / name).open("wb") as file:
            file.write(begin)
            file.truncate(size)
    with (root / "full.txt").open("wb") as file:
        for _ in range(size // 1_000_000):
            file.write(b"x" * 1_000_000)
    reads: Calls = [("read", {"path": name}) for name in ("hole.bin", "line.txt", "head.txt", "full.txt")]
    return [*EVERYWHERE, *reads, ("read", {"path": "head.txt", "offset": 2_000_000_000})]


def deep(root: Path, given: argparse.Namespace) -> Calls:
    """Create nested folders whose path exceeds the system's maximum length."""
    here = os.open(root, os.O_RDONLY)
    for _ in range(given.levels):
        os.mkdir("folder-in-folder", dir_fd=here)
        inner = os.open("folder-in-folder", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    with open(os.open("deep.md", os.O_WRONLY | os.O_CREAT, dir_fd=here), "w") as file:  # noqa: PTH123 - a descriptor
        file.write("needle 77 of 42\n")
    os.close(here)
    path = "folder-in-folder/" * given.levels + "deep.md"
    return [*EVERYWHERE, ("read", {"path": path}), ("ls", {"path": path[:-8]})]


def growing(root: Path, _: argparse.Namespace) -> Calls:
    """Create a file that keeps growing, one that is recreated and deleted, and one that shrinks."""

    def busy() -> None:
        with (root / "growing.log").open("wb", 0) as growing, (root / "shrinking.log").open("wb", 0) as shrinking:
            while True:
                growing.write(b"needle 77 of 42\n" * 1_000)
                (root / "gone.md").write_text("needle 77 of 42\n" * 100)
                shrinking.write(b"needle 77 of 42\n" * 1_000)
                shrinking.truncate(0)
                (root / "gone.md").unlink()
                if growing.tell() > MOST:
                    growing.truncate(0)

    threading.Thread(target=busy, daemon=True).start()
    time.sleep(1)
    reads: Calls = [("read", {"path": f"{name}"}) for name in ("growing.log", "gone.md", "shrinking.log")]
    return [*EVERYWHERE, *reads] * 3


def system(_: Path, __: argparse.Namespace) -> Calls:
    """Use `/proc` as root."""
    reads = ["self/environ", "self/root/etc/passwd", "self/cwd/pyproject.toml", "self/fd/0", "self/mem", "kmsg"]
    return [*EVERYWHERE[:2], *EVERYWHERE[2:4], *[("read", {"path": path}) for path in reads]]


ROOTS: dict[str, Callable[[Path, argparse.Namespace], Calls]] = {
    "many": many,
    "ignored": ignored,
    "wide": wide,
    "sparse": sparse,
    "deep": deep,
    "growing": growing,
    "proc": system,
}


@contextmanager
def folder(name: str) -> Iterator[Path]:
    """Create a folder for a root; remove it with `rm`, which handles very long paths."""
    if name == "proc":
        yield Path("/proc")
        return
    made = tempfile.mkdtemp(prefix=f"{name}-")
    try:
        yield Path(made)
    finally:
        subprocess.run(["rm", "-rf", made], check=False)  # noqa: S607 - from PATH


def one(given: argparse.Namespace) -> None:
    """Create one root and call the tools in it."""
    with folder(given.only) as root:
        calls = ROOTS[given.only](root, given)
        tools = {tool.name: tool for tool in file_tools(root)}
        for name, arguments in calls:
            begun, worked = time.monotonic(), time.process_time()
            try:
                result = tools[name](**arguments)
            except ToolError as error:
                result = f"ToolError: {error}"
            took, cpu = time.monotonic() - begun, time.process_time() - worked
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            shown = ", ".join(f"{key}={str(value)[-30:]}" for key, value in arguments.items())
            print(
                f"{given.only:8} {took:6.2f} s {cpu:6.2f} s CPU {memory:5} MB  {name} {shown}: {result[-90:]!r}",
                flush=True,
            )


def main() -> None:
    """Run each root in a separate process."""
    parser = argparse.ArgumentParser(description="Run the file tools in extreme roots.")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--levels", type=int, default=1_500)
    parser.add_argument("--only", choices=list(ROOTS))
    given = parser.parse_args()
    if given.only:
        one(given)
        return
    for name in ROOTS:
        subprocess.run([sys.executable, "-m", "bench.sandbox_rig", *sys.argv[1:], "--only", name], check=True)


if __name__ == "__main__":
    main()
