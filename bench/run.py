"""Compare the cost of run-specialist with other agent loops, and print Markdown tables.

    uv run --group bench python bench/run.py [--only FIGURE] [--laps N] [--quick] [--json FILE]

Uses only the loopback interface: the model is a script in the included server. Results: bench/performance.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # A script only has its own folder on the path; the `bench` package is found from the repository's top.
    sys.path[0] = str(Path(__file__).parents[1])
    from bench.command import main

    sys.exit(main())
