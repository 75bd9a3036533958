"""Measure the cost of the gate: CPU time per request, and the throughput of requests that wait at it.

Run it from the top of the repository:

    python -m bench.admission_cost

Nothing is sent: a request enters its gate, is accepted and leaves. Each figure is the fastest of 7 runs of 20,000
requests, because other load only makes runs slower.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from run_specialist.providers.admission import Gate, GatedRequest
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from run_specialist.providers.base import Choice, Request
from run_specialist.providers.errors import MESSAGES

REQUESTS = 20_000
RUNS = 7
CLIENT = make_client(api_key="test")


async def one(gate: Gate, provider: AnthropicProvider) -> None:
    """Let one request pass, without sending it."""
    async with GatedRequest(gate, provider, MESSAGES, Request([], Choice.AUTO, 1)) as gated:
        gated.accepted()


async def in_turn() -> None:
    """Let each request begin after the one before it has ended."""
    gate, provider = Gate(), AnthropicProvider("haiku", CLIENT)
    for _ in range(REQUESTS):
        await one(gate, provider)


async def crowd() -> None:
    """Let a thousand requests at a time wait for one of eight places."""
    gate, provider = Gate(), AnthropicProvider("haiku", CLIENT)
    provider.requests_at_once = 8
    for _ in range(REQUESTS // 1_000):
        await asyncio.gather(*(one(gate, provider) for _ in range(1_000)))


def measured(work: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """Return the CPU time per request of the fastest run [s]."""
    times = []
    for _ in range(RUNS):
        begun = time.process_time()
        asyncio.run(work())
        times.append((time.process_time() - begun) / REQUESTS)
    return min(times)


def main() -> None:
    """Print the table of bench/performance.md."""
    print("| | CPU per request |\n|---|---|")
    print(f"| one request after another | {measured(in_turn) * 1e6:.0f} µs |")
    print(f"| 1,000 requests that wait for 8 places | {measured(crowd) * 1e6:.0f} µs |")


if __name__ == "__main__":
    sys.exit(main())
