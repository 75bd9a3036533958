"""Requests at a gate, for tests."""

import asyncio
from types import SimpleNamespace

from run_specialist.providers.admission import Gate, GatedRequest
from run_specialist.providers.base import Choice, Request
from run_specialist.providers.errors import MESSAGES, Fault


class Refused(Exception):
    """An error that refuses a request."""

    def __init__(self, status=429, wait=None):
        super().__init__(status)
        self.refusal = Fault(f"the API answered {status}", status=status, wait=wait)


class Turn(GatedRequest):
    """A request whose errors carry their refusal, instead of being those of an SDK."""

    def _refusal(self, error):
        return getattr(error, "refusal", None)


def turn(gate, ceiling=None, queueing=None, model="m"):
    """Return the turn of a request."""
    provider = SimpleNamespace(model=model, requests_at_once=ceiling)
    return Turn(gate, provider, MESSAGES, Request([], Choice.AUTO, 1, queueing=queueing))


async def refuse(gate, **refusal):
    """Let one request be refused."""
    one = turn(gate)
    await one.__aenter__()
    await one.__aexit__(None, Refused(**refusal), None)


async def hold(gate, begun, name, release, **options):
    """Hold a place until `release` is set."""
    async with turn(gate, **options):
        begun.append(name)
        await release.wait()


async def settle(gate, waiting):
    """Return once so many requests wait at a gate, and have nothing else to do."""
    while gate.waiting != waiting:  # noqa: ASYNC110 - a gate has no event for it
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)


class ManualTime:
    """A clock that a test sets; sleeping requests look at it when the test says so."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self._sleepers = []
        monkeypatch.setattr(Gate, "clock", staticmethod(lambda: self.now))
        monkeypatch.setattr(Gate, "sleep", staticmethod(self._sleep))

    async def _sleep(self, future, seconds):
        over = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now + seconds, over))
        await asyncio.wait([future, over], return_when=asyncio.FIRST_COMPLETED)

    async def advance(self, seconds):
        """Let time pass, and all requests act on it."""
        self.now += seconds
        for _ in range(20):
            for until, over in self._sleepers:
                if until <= self.now and not over.done() and not over.get_loop().is_closed():
                    over.set_result(None)
            await asyncio.sleep(0)
