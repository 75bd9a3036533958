"""Runs of items that a test writes, and a clock that sleeps without waiting."""

import asyncio

from run_specialist.batch.batch import Batch, Bounds
from run_specialist.batch.item import Item
from run_specialist.record.events import Replied
from run_specialist.record.messages import Usage
from tests.unit.record.outcomes import outcome as any_outcome

LIMIT = 5
"""Of the waits for a step of a test [s]."""


def outcome(status="answered", *, run_id="", cost=0.01, kind=None, retry_after=None):
    """Return an outcome; `kind` is that of the failure."""
    error = None if kind is None else f"the endpoint says {kind}"
    failure = {"error": error, "error_kind": kind, "retry_after": retry_after}
    return any_outcome(run_id=run_id, status=status, cost_usd=cost, **failure)


def failed(kind, retry_after=None):
    """Return the outcome of a run that a request has ended."""
    return outcome("failed", kind=kind, retry_after=retry_after)


class Clock:
    """A clock that shows the time that was slept; other tasks run in between."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def __call__(self):
        """Return the time."""
        return self.now

    async def sleep(self, seconds):
        """Let the others work until they wait, and advance."""
        self.slept.append(seconds)
        for _ in range(20):
            await asyncio.sleep(0)
        self.now += seconds


class ScriptedRun:
    """A run that does what the test wants."""

    def __init__(self, runs, item, run_id, before=None):
        self._runs, self._item = runs, item
        self.run_id, self.ended, self.cost_before = run_id, before, 0.0
        self.is_kept = True
        self._listeners = []
        self.aborts = []
        self.was_aborted, self.was_cut = asyncio.Event(), asyncio.Event()

    def listen(self, listener):
        """Keep a listener."""
        self._listeners.append(listener)

    def abort(self, *, after_turn=False):
        """Keep how it was aborted, and end the wait of the script."""
        self.aborts.append("after_turn" if after_turn else "now")
        self.was_aborted.set()
        if not after_turn:
            self.was_cut.set()

    def reply(self):
        """Tell the listeners that a request was answered."""
        for listener in self._listeners:
            listener(Replied(1, "answered", "end_turn", "mice", Usage(), 0.0))

    async def outcome(self):
        """Play the script of the item."""
        self._runs.at_work += 1
        self._runs.most = max(self._runs.most, self._runs.at_work)
        try:
            await asyncio.sleep(0)
            ended = await self._runs.script(self, self._item)
        finally:
            self._runs.at_work -= 1
        self._runs.stored[self.run_id] = ended
        return ended


class ScriptedRuns:
    """The runs of a batch: each plays the script, an `async` function of the run and the item."""

    def __init__(self, script, stored=None):
        self.script = script
        self.stored = dict(stored or {})
        self.begun, self.lent = [], []
        self.at_work = self.most = 0
        self.runs = {}

    async def check(self):
        """Find nothing wrong."""

    async def take_up(self, item, run_id, lend, *, is_new):
        """Return the run of an item; an answered one has ended already."""
        earlier = None if is_new else self.stored.get(run_id)
        if earlier is not None and earlier.status not in {"failed", "aborted"}:
            return ScriptedRun(self, item, run_id, earlier)
        self.lent.append(await lend(None))
        self.begun.append(item.number)
        run = self.runs[item.number] = ScriptedRun(self, item, run_id)
        return run

    async def ended(self, run_id):
        """Return the outcome of an answered run."""
        earlier = self.stored.get(run_id)
        return earlier if earlier and earlier.status == "answered" else None


def items(count):
    """Return items with keys that follow from their numbers."""
    return [Item(number, f"item {number}", f"question {number}", f"{number:016x}") for number in range(1, count + 1)]


def batch_of(count, runs, clock=None, *, sized=True, record=None, **bounds):
    """Return a batch of some items."""
    clock, all_items = clock or Clock(), items(count)
    return Batch(
        "b1", lambda: iter(all_items), runs, Bounds(**bounds), total=count if sized else None,
        record=record, clock=clock, sleep=clock.sleep,
    )  # fmt: skip


async def all_of(batch):
    """Iterate over a batch; return its ends by number."""
    async with asyncio.timeout(LIMIT):
        return {done.number: done async for done in batch}
