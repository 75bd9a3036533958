"""What a worker needs: processor time, memory, and connections to PostgreSQL."""

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
