"""Shared code of the fuzzers: seeds, the dictionary, and the limits beyond which libFuzzer reports a crash.

    python fuzz/front_matter.py [libFuzzer options] [FOLDER]

FOLDER stores the corpus for later runs; without it the corpus is discarded. `-max_total_time=60` stops after a minute,
`-print_final_stats=1` prints the number of inputs. A crash stops the fuzzer and is saved as a file `crash-...`; pass
that file in place of FOLDER to reproduce it.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris

SEEDS = Path(__file__).parent / "seeds"
SLOWEST = 1.0
"""Maximum CPU time per input [s]."""
_LIMITS = ("-timeout=20", "-rss_limit_mb=1024", "-malloc_limit_mb=256")


class TooSlowError(Exception):
    """An input took longer than `SLOWEST`."""


def run(name: str, one: Callable[[bytes], None], tokens: Iterable[str], *more_seeds: Path) -> None:
    """Run the fuzzer until it finds a crash or the options of libFuzzer stop it.

    name: Folder of the seeds.
    one: Runs one input; every exception is a crash.
    tokens: Dictionary entries: pieces that inputs are likely to contain.
    more_seeds: Further folders of seeds.
    """

    def timed(data: bytes) -> None:
        begun = time.process_time()
        one(data)
        if (took := time.process_time() - begun) > SLOWEST:
            raise TooSlowError(f"{took:.1f} s for {len(data)} bytes")

    given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as own:
        dictionary = Path(own, "dictionary")
        dictionary.write_text("".join(f'"{_escaped(token)}"\n' for token in tokens), "ascii")
        # libFuzzer writes new inputs to the first folder.
        corpus = [] if any(not argument.startswith("-") for argument in given) else [own + "/corpus"]
        for folder in corpus:
            Path(folder).mkdir()
        single = any(Path(argument).is_file() for argument in given)
        seeds = [] if single else [str(folder) for folder in (SEEDS / name, *more_seeds)]
        options = [*_LIMITS, f"-dict={dictionary}"]
        atheris.Setup([sys.argv[0], *options, *given, *corpus, *seeds], timed)
        atheris.Fuzz()


def _escaped(token: str) -> str:
    return "".join(f"\\x{byte:02X}" for byte in token.encode("utf-8", "surrogateescape"))
