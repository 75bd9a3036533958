"""Measure the cost of the gate: CPU time per request, and the throughput of requests that wait at it.

Run it from the top of the repository:

    python -m bench.admission_cost

Nothing is sent: a request enters its gate, is accepted with or without the headers of a vendor, leaves, and its usage
is settled. Each figure is the fastest of 7 runs of 20,000 requests, because other load only makes runs slower.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping

import httpx2

from run_specialist.providers.admission.gate import Gate
from run_specialist.providers.admission.gated_request import GatedRequest
from run_specialist.providers.admission.windows import Cost
from run_specialist.providers.base import Queueing

REQUESTS = 20_000
RUNS = 7
PLAIN = {f"x-header-{number}": "some value" for number in range(20)} | {"content-type": "application/json"}
DATE = {"date": "Mon, 23 Nov 2026 08:00:00 GMT"}
MESSAGES = {
    f"anthropic-ratelimit-{kind}-{what}": value
    for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    for what, value in (("limit", "4000000"), ("remaining", "3999000"), ("reset", "2026-11-23T08:00:30Z"))
}
CHAT = {
    f"x-ratelimit-{what}-{kind}": value
    for kind in ("requests", "tokens")
    for what, value in (("limit", "4000000"), ("remaining", "3999000"), ("reset", "1m30.5s"))
}
COST, USED = Cost(1, 2_000, 2_000, 0), Cost(1, 1_900, 1_400, 500)


async def one(gate: Gate, headers: Mapping[str, str], ceiling: int | None) -> None:
    """Send one request, without sending it."""
    turn = GatedRequest(gate, "model", COST, ceiling, Queueing(), lambda _: None)
    async with turn:
        turn.accepted(headers)
    turn.settle(USED)


async def in_turn(headers: Mapping[str, str]) -> None:
    """Let each request begin after the one before it has ended."""
    gate = Gate()
    for _ in range(REQUESTS):
        await one(gate, headers, None)


async def crowd(headers: Mapping[str, str]) -> None:
    """Let a thousand requests at a time wait for one of eight places."""
    gate = Gate()
    for _ in range(REQUESTS // 1_000):
        await asyncio.gather(*(one(gate, headers, 8) for _ in range(1_000)))


def measured(work: Callable[[Mapping[str, str]], object], headers: Mapping[str, str]) -> float:
    """Return the CPU time per request of the fastest run [s]."""
    times = []
    for _ in range(RUNS):
        begun = time.process_time()
        asyncio.run(work(httpx2.Headers(headers)))  # type: ignore[arg-type] # both are coroutines
        times.append((time.process_time() - begun) / REQUESTS)
    return min(times)


def main() -> None:
    """Print the table of bench/performance.md."""
    print("| | CPU per request |\n|---|---|")
    for name, headers in (
        ("no rate limits in the headers", {}),
        ("chat completions", CHAT),
        ("Messages API", MESSAGES),
    ):
        print(f"| {name} | {measured(in_turn, {**PLAIN, **headers, **DATE}) * 1e6:.0f} µs |")
    print(f"| 1,000 requests wait for 8 places | {measured(crowd, {**PLAIN, **DATE}) * 1e6:.0f} µs |")


if __name__ == "__main__":
    sys.exit(main())
