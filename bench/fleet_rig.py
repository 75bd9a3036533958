"""Inject the faults of bench/reliability.md into a fleet of workers, and count every request that the model answers.

Run it from the top of the repository, in an environment with the `test` group, on a machine with PostgreSQL:

    python -m bench.fleet_rig [ROW]... [--items N]

Rows: see `ROWS`. It exits with 1 if a guarantee was violated.
"""

import argparse
import sys
import time

from bench.fleet import deaths, outages, sizes

ROWS = {
    "killed": deaths.killed,
    "stopped": deaths.asked_to_stop,
    "frozen": deaths.frozen,
    "restarted": outages.restarted,
    "cut": outages.cut,
    "refused": outages.refused,
    "needs": sizes.needs,
    "grows": sizes.grows,
}


def main() -> None:
    """Run rows and print their results."""
    parser = argparse.ArgumentParser(description="Break a fleet and count.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; default: all")
    parser.add_argument("--items", type=int, help="size of the batch")
    given = parser.parse_args()
    settings = {} if given.items is None else {"items": given.items}
    held = True
    for name in given.rows or ROWS:
        begun = time.monotonic()
        try:
            row = ROWS[name](**settings)
        except TimeoutError as error:
            sys.exit(f"fleet_rig: {name}: {error}")
        held &= not row.broken
        figures = ", ".join(f"{what}: {value}" for what, value in row.figures.items())
        print(f"| {row.name} | {'held' if not row.broken else 'BROKEN: ' + '; '.join(row.broken)} | {figures} |")
        print(f"  ({time.monotonic() - begun:.0f} s)", flush=True)
    sys.exit(not held)


if __name__ == "__main__":
    main()
