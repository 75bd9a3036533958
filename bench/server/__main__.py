"""Start the server: `python -m bench.server [PORT]`."""

import asyncio
import resource
import sys

from bench.server.http import serve

try:
    import uvloop
except ImportError:
    uvloop = None  # type: ignore[assignment]


def main() -> None:
    """Serve until interrupted, with as many connections as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    run = asyncio.run if uvloop is None else uvloop.run
    run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))


main()
