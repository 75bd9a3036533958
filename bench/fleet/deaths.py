"""Rows in which worker processes die, are asked to stop, or are frozen."""

import random
import signal
import time
from collections import Counter
from statistics import median

from bench.fleet.model import Request
from bench.fleet.rig import Rig, WorkerProcess, fleet
from bench.fleet.row import WITHIN, Row, Strike, struck
from run_specialist.fleet.queue import SILENCE

PATIENCE = 900.0
"""Maximum duration of a batch [s]."""
AT_ONCE = 4
WORKERS = 3


def killed(items: int = 500, kills: int = 20, pause: float = 5.0, seed: int = 1) -> Row:
    """Repeatedly kill a worker with SIGKILL, and start another."""
    row, chance = Row(f"kill -9 of a worker, {kills} times in a batch of {items}"), random.Random(seed)  # noqa: S311
    with fleet(turns=7, delay=0.25) as rig:
        rig.put(items)
        for _ in range(WORKERS):
            rig.start(AT_ONCE)
        for _ in range(kills):
            time.sleep(pause * chance.uniform(0.5, 1.5))
            worker = chance.choice(_alive(rig))
            row.strikes.append(struck(rig, worker, worker.send(signal.SIGKILL)))
            rig.start(AT_ONCE)
        rig.wait(items, PATIENCE)
        row.check(rig, items)
        delays = row.taken_over(rig)
        row.require(
            f"taken over within {WITHIN} s: {max(delays, default=0):.1f}", holds=max(delays, default=0) <= WITHIN
        )
        row.figures |= {
            "runs under way when killed": sum(len(strike.owned) for strike in row.strikes),
            "next request after [s]": f"{min(delays):.1f} to {max(delays):.1f}, median {median(delays):.1f}",
            "of these later than promised": sum(delay > WITHIN for delay in delays),
        }
    return row


def asked_to_stop(items: int = 120, stops: int = 8, seed: int = 1) -> Row:
    """Repeatedly stop a worker with SIGTERM, and start another."""
    row, chance = Row(f"SIGTERM, {stops} times in a batch of {items}"), random.Random(seed)  # noqa: S311
    codes, seconds = [], []
    with fleet(turns=7, delay=0.5) as rig:
        rig.put(items)
        for _ in range(WORKERS):
            rig.start(AT_ONCE)
        for _ in range(stops):
            time.sleep(chance.uniform(2.5, 5))
            worker = chance.choice(_alive(rig))
            at = worker.send(signal.SIGTERM)
            rig.start(AT_ONCE)
            codes.append(worker.process.wait(60))
            seconds.append(time.time() - at)
        rig.wait(items, PATIENCE)
        row.check(rig, items)
    row.require(f"exit code 0: {codes}", holds=not any(codes))
    row.figures |= {"ended after [s]": f"{min(seconds):.1f} to {max(seconds):.1f}"}
    return row


def frozen(items: int = 60, freezes: int = 5, seconds: float = 18.0) -> Row:
    """Freeze a worker until its items were taken over, and let it continue."""
    row = Row(f"a worker frozen for {seconds:.0f} s, {freezes} times, then alive again")
    with fleet(turns=7, delay=1.0) as rig:
        rig.put(items)
        workers = [rig.start(AT_ONCE) for _ in range(WORKERS)]
        rig.wait(1, 60)
        woken = []
        for number in range(freezes):
            worker = workers[number % WORKERS]
            row.strikes.append(struck(rig, worker, worker.send(signal.SIGSTOP)))
            time.sleep(seconds)
            woken.append(worker.send(signal.SIGCONT))
            time.sleep(3)
        rig.wait(items, PATIENCE)
        row.check(rig, items)
        both = [one for strike, at in zip(row.strikes, woken, strict=True) for one in two_at_work(rig, strike, at)]
        row.require(f"a worker sent requests of runs that another had: {both[:3]}", holds=not both)
        delays = row.taken_over(rig)
        row.figures |= {
            "runs under way when frozen": sum(len(strike.owned) for strike in row.strikes),
            "taken over by others": sum(
                _taker(rig, one, item) is not None for one in row.strikes for item in one.owned
            ),
            "next request after [s]": f"{min(delays):.1f} to {max(delays):.1f}",
        }
    return row


def _taker(rig: Rig, strike: Strike, item: int) -> float | None:
    """Return when another worker sent its first request of an item after a strike."""
    others = (one.at for one in rig.model.requests if one.item == item and one.worker != strike.worker)
    return min((at for at in others if at > strike.at), default=None)


def two_at_work(rig: Rig, strike: Strike, woken: float) -> list[Request]:
    """Return the requests that a worker sent after it was frozen, of runs that another worker had by then."""
    found = []
    for item in strike.owned:
        taken = _taker(rig, strike, item)
        # Later it may have taken the item over again, from another one that was frozen.
        mine = (one for one in rig.model.requests if one.worker == strike.worker and one.item == item)
        found += [one for one in mine if taken is not None and taken < one.at < woken + SILENCE]
    return found


def _alive(rig: Rig) -> list[WorkerProcess]:
    """Return the workers that hold items and have made turns: an item without one is abandoned after three deaths.

    Raises TimeoutError if the batch has ended too early.
    """
    for _ in range(300):
        sent = Counter(one.worker for one in rig.model.requests)
        running = [one for one in rig.workers if one.process.poll() is None]
        if busy := [one for one in running if sent[one.number] > 2 * AT_ONCE and rig.held(one)]:
            return busy
        time.sleep(0.2)
    raise TimeoutError(f"no worker is at work; a larger batch takes longer: {rig.counts()}")
