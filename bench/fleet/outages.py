"""Rows in which the database, the connection to it, or the endpoint of the model is unavailable."""

import time

from bench.fleet.cuttable import Cuttable
from bench.fleet.deaths import AT_ONCE, PATIENCE, WORKERS, two_at_work
from bench.fleet.rig import Rig, fleet
from bench.fleet.row import Row, Strike, struck


def restarted(items: int = 150, away: tuple[float, ...] = (0.0, 15.0, 58.0)) -> Row:
    """Stop PostgreSQL for some time, and start it again."""
    row = Row(f"PostgreSQL restarted {len(away)} times, away for up to {max(away):.0f} s")
    with fleet(turns=7, delay=0.5) as rig:
        rig.put(items)
        workers = [rig.start(AT_ONCE) for _ in range(WORKERS)]
        rig.wait(5, 90)
        for seconds in away:
            held = [rig.held(worker) for worker in workers]
            at = time.time()
            rig.server.stop("fast")
            time.sleep(seconds)
            rig.server.start()
            # All workers are affected at the same time: at most the current request of each run may be repeated.
            row.strikes += [Strike(one.number, at, owned) for one, owned in zip(workers, held, strict=True)]
            time.sleep(8)
        rig.wait(items, PATIENCE)
        row.check(rig, items)
        row.require("no worker ended", holds=all(one.process.poll() is None for one in workers))
    return row


def cut(items: int = 60, seconds: float = 25.0) -> Row:
    """Cut one worker's connections, first for a moment, then until its items are taken over."""
    row = Row(f"the connections of one worker cut, for a moment and for {seconds:.0f} s")
    with fleet(turns=7, delay=1.0) as rig:
        way = Cuttable(rig.server.port)
        with way.serving():
            rig.put(items)
            cut_off = rig.start(AT_ONCE, store=rig.server.url.replace(f":{rig.server.port}/", f":{way.port}/"))
            for _ in range(WORKERS - 1):
                rig.start(AT_ONCE)
            rig.wait(1, 90)
            row.strikes.append(struck(rig, cut_off, time.time()))
            way.drop()
            time.sleep(5)
            row.strikes.append(struck(rig, cut_off, time.time()))
            way.is_cut = True
            time.sleep(seconds)
            way.is_cut = False
            back = time.time()
            way.drop()
            rig.wait(items, PATIENCE)
        row.check(rig, items)
        both = two_at_work(rig, row.strikes[-1], back)
        row.require(f"a worker sent requests of runs that another had: {both[:3]}", holds=not both)
        row.figures["runs under way when cut"] = sum(len(strike.owned) for strike in row.strikes)
    return row


def refused(items: int = 60, seconds: float = 60.0) -> Row:
    """Let the model answer 429 for a minute, and later report exhausted credit for a minute."""
    row = Row(f"429 for {seconds:.0f} s, then for {seconds:.0f} s no credit")
    with fleet(turns=7, delay=0.5) as rig:
        rig.put(items)
        for _ in range(WORKERS):
            rig.start(AT_ONCE)
        done = 0
        for refusal in ("rate_limited", "quota"):
            rig.wait(done + 3, PATIENCE)
            before = len(rig.model.refused)
            _refuse(rig, refusal, seconds)
            row.figures[f"requests refused, {refusal}"] = len(rig.model.refused) - before
            done = rig.done()
        took = rig.wait(items, PATIENCE)
        row.check(rig, items)
        row.figures["done after the end of it [s]"] = round(took)
    return row


def _refuse(rig: Rig, refusal: str, seconds: float) -> None:
    rig.model.refusal = refusal
    time.sleep(seconds)
    rig.model.refusal = ""
