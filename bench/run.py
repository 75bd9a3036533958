"""Measure run-specialist beside other ways to do the same, and print tables of Markdown.

    uv run --group bench python bench/run.py [--only FIGURE] [--laps N] [--quick] [--json FILE]

Nothing but the loopback is used: the model is a script in a server of the bench's own. What is measured, and what came
out: docs/performance.md.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # As a script it would see the folder of its own only, and not the package of which it is a part.
    sys.path[0] = str(Path(__file__).parents[1])
    from bench.command import main

    sys.exit(main())
