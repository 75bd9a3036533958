"""Start the server: `python -m bench.server [PORT]`."""

import asyncio
import sys

from bench import connections
from bench.server.http import serve

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]


def main() -> None:
    """Serve until interrupted."""
    connections.allow()
    run = asyncio.run if uvloop is None else uvloop.run
    run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))


main()
