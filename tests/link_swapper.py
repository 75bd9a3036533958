"""A process that swaps folders and files for links as fast as possible while other code reads them."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_EXCHANGE = 2
_HERE = -100
_SCRIPT = "import sys; from tests.link_swapper import swap_for_ever; swap_for_ever(sys.argv[1:])"


def can_swap() -> bool:
    """Return whether the system can exchange two names atomically, as Linux can."""
    return sys.platform == "linux" and hasattr(ctypes.CDLL(None), "renameat2")


def swap_for_ever(names: list[str]) -> None:
    """Exchange the two names of each pair in turn, forever."""
    system = ctypes.CDLL(None, use_errno=True)
    paths = [os.fsencode(name) for name in names]
    pairs = list(zip(paths[::2], paths[1::2], strict=True))
    while True:
        for one, other in pairs:
            if system.renameat2(_HERE, one, _HERE, other, _EXCHANGE):
                raise OSError(ctypes.get_errno(), "renameat2")


@contextmanager
def swapped(*pairs: tuple[Path, Path]) -> Iterator[None]:
    """Exchange the two paths of each pair continuously until the end of the block."""
    names = [str(path) for pair in pairs for path in pair]
    with subprocess.Popen([sys.executable, "-c", _SCRIPT, *names], cwd=Path(__file__).parents[1]) as process:
        try:
            # The process is running once a link has replaced a folder or a file.
            while process.poll() is None and not all(one.is_symlink() for one, _ in pairs):
                pass
            yield
            assert process.poll() is None, "the swapping has ended"
        finally:
            process.kill()
