"""What both fuzzers share: seeds, a dictionary, and the limits under which libFuzzer calls something a find.

    python fuzz/front_matter.py [libFuzzer's options] [FOLDER]

FOLDER keeps what was learnt from one time to the next; without it that is thrown away. `-max_total_time=60` ends after
a minute, `-print_final_stats=1` tells how much was tried. A find ends the fuzzer and stays as a file `crash-...`; give
that file in place of FOLDER to see it again.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris

SEEDS = Path(__file__).parent / "seeds"
SLOWEST = 1.0
"""One input may take this much of the processor's time [s]."""
_LIMITS = ("-timeout=20", "-rss_limit_mb=1024", "-malloc_limit_mb=256")


class TooSlowError(Exception):
    """An input took longer than any file of its size may."""


def go(name: str, one: Callable[[bytes], None], words: Iterable[str], *more_seeds: Path) -> None:
    """Fuzz until something is found or libFuzzer's options end it.

    name: of the folder of seeds.
    one: takes an input; what it raises is a find.
    words: pieces that inputs are likely to be made of.
    more_seeds: further folders of inputs to begin with.
    """

    def timed(data: bytes) -> None:
        begun = time.process_time()
        one(data)
        if (took := time.process_time() - begun) > SLOWEST:
            raise TooSlowError(f"{took:.1f} s for {len(data)} bytes")

    given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as own:
        dictionary = Path(own, "words")
        dictionary.write_text("".join(f'"{_escaped(word)}"\n' for word in words), "ascii")
        # libFuzzer writes what it learns into the first folder.
        learnt = [] if any(not argument.startswith("-") for argument in given) else [own + "/learnt"]
        for folder in learnt:
            Path(folder).mkdir()
        single = any(Path(argument).is_file() for argument in given)
        seeds = [] if single else [str(folder) for folder in (SEEDS / name, *more_seeds)]
        options = [*_LIMITS, f"-dict={dictionary}"]
        atheris.Setup([sys.argv[0], *options, *given, *learnt, *seeds], timed)
        atheris.Fuzz()


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02X}" for byte in word.encode("utf-8", "surrogateescape"))
