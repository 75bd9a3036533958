"""Resources of a worker: processor time, memory, and connections to PostgreSQL."""

import psutil

from bench.fleet.deaths import PATIENCE
from bench.fleet.rig import fleet
from bench.fleet.row import Row


def needs(items: int = 100, at_once: int = 8) -> Row:
    """Measure one worker with a batch, and while it has nothing to do."""
    row = Row(f"one worker, {at_once} items at once, {items} items")
    with fleet(turns=7, delay=0.05) as rig:
        worker = rig.start(at_once)
        process = psutil.Process(worker.process.pid)
        rig.put(1)
        rig.wait(1, PATIENCE)
        before = process.cpu_times()
        rig.put(items)
        took = rig.wait(items // 2, PATIENCE)
        (connections,) = rig.query(
            "select count(*) from pg_stat_activity where datname is not null and pid <> pg_backend_pid()"
        )[0]
        took += rig.wait(items, PATIENCE)
        used = process.cpu_times()
        row.check(rig, items)
        row.figures |= {
            "CPU per item [ms]": round((used.user + used.system - before.user - before.system) / (items - 1) * 1_000),
            "items per second": round((items - 1) / took, 1),
            "memory [MB]": round(process.memory_info().rss / 1e6),
            "connections": connections,
        }
    return row


def grows(items: int = 96, at_once: int = 4, turns: int = 5, delay: float = 0.5) -> Row:
    """Measure the throughput of one, two and four workers with a model that answers after half a second.

    The model is slow and the workers have few slots, so that with few workers the processors are not the limit.
    """
    row = Row(f"1, 2 and 4 workers, {at_once} items at once each, {items} items of {turns} requests")
    for workers in (1, 2, 4):
        with fleet(turns=turns, delay=delay) as rig:
            rig.put(items)
            started = [rig.start(at_once) for _ in range(workers)]
            # The workers have started once each of them has sent a request.
            rig.wait(workers * at_once, PATIENCE)
            before, begun = rig.done(), psutil.cpu_times()
            took = rig.wait(items - workers * at_once, PATIENCE)
            done, now = rig.done() - before, psutil.cpu_times()
            busy = sum(getattr(now, name) - getattr(begun, name) for name in ("user", "nice", "system"))
            rig.wait(items, PATIENCE)
            row.check(rig, items)
            row.require("no worker ended", holds=all(one.process.poll() is None for one in started))
            row.figures |= {
                f"{workers}: items per second": round(done / took, 2),
                f"{workers}: at most possible": round(workers * at_once / (turns * delay), 2),
                f"{workers}: processors busy": round(busy / took, 2),
            }
    row.figures["processors"] = psutil.cpu_count()
    return row
