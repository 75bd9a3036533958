"""Inject each kind of fault at each moment, on both APIs, streamed or not; check the outcomes and look for leaks.

    python -m bench.fault_matrix                         all cases, and a table
    python -m bench.fault_matrix --kind "error" --moment child --verbose
    python -m bench.fault_matrix --rounds 5 --kind reset

The maximum reply size is lowered to 4 MiB, so that oversized replies do not take hours.
The exit code is 1 if an outcome is wrong or something leaked.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from run_specialist.providers import transport
from tests.leak_check import Census, left_since, resident
from tests.skipped_waits import skip_waits
from tests.wire.liar.case import Case, CaseResult, play
from tests.wire.liar.kinds import KINDS
from tests.wire.liar.moments import MOMENTS

MIB = 2**20


def main() -> int:
    """Run the chosen cases and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", default="", help="only kinds whose names contain this")
    parser.add_argument("--moment", default="", help="only moments whose names contain this")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print a line per case")
    chosen = parser.parse_args()
    cases = [case for _ in range(chosen.rounds) for case in _cases(chosen.kind, chosen.moment)]
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TMPDIR": str(Path(folder, "tmp")), "SPECIALIST_STORE": "none"}
        Path(folder, "tmp").mkdir()
        transport.LONGEST_BODY = 4 * MIB
        skip_waits()
        begun, before = time.monotonic(), Census.take()
        came = asyncio.run(_play(cases, Path(folder), verbose=chosen.verbose))
        left = [one for one in left_since(before) if not one.startswith("descriptors")]
    _print_table(came)
    wrong = [f"{one.case}: {text}" for one in came for text in one.wrong]
    print(f"\n{len(came)} cases in {time.monotonic() - begun:.0f} s; {sum(one.struck for one in came)} faulty replies")
    print(f"slowest case: {max(one.seconds for one in came):.1f} s; {len(wrong)} wrong outcomes")
    print("\n".join([*wrong, *(f"leaked: {one}" for one in left)]))
    return 1 if wrong or left else 0


def _cases(kind: str, moment: str) -> Iterator[Case]:
    for when in MOMENTS:
        for what in KINDS:
            if kind not in what.name or moment not in when.name:
                continue
            for api in ("messages", "chat"):
                # Streaming of the run makes no difference to a child run or a summary.
                for stream in (False, True) if when.is_run_itself else (False,):
                    case = Case(what, when, api, stream)
                    if case.makes_sense:
                        yield case


async def _play(cases: list[Case], folder: Path, *, verbose: bool) -> list[CaseResult]:
    came = []
    for number, case in enumerate(cases, 1):
        with tempfile.TemporaryDirectory(dir=folder) as own:
            came.append(await play(case, Path(own)))
        if verbose or came[-1].wrong:
            one = came[-1]
            print(
                f"{one.word:9} {one.struck:3} {one.seconds:6.2f} s  {case}: {one.outcome.error or ''} {one.wrong or ''}"
            )
        if number % 200 == 0 or number in {50, len(cases)}:
            threads, files = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))  # noqa: PTH208
            memory = f"{resident() // MIB} MiB, {threads} threads, {files} descriptors"
            print(f"after {number} of {len(cases)}: {memory}", file=sys.stderr, flush=True)
    return came


def _print_table(came: list[CaseResult]) -> None:
    print("| kind | " + " | ".join(moment.name for moment in MOMENTS) + " |")
    print("|---" * (len(MOMENTS) + 1) + "|")
    for kind in KINDS:
        of_kind = [one for one in came if one.case.kind is kind]
        cells = [
            ", ".join(
                f"{word} {count}"
                for word, count in Counter(one.word for one in of_kind if one.case.moment is moment).items()
            )
            for moment in MOMENTS
        ]
        if any(cells):
            print(f"| {kind.name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    sys.exit(main())
