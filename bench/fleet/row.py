"""One row of the table in bench/reliability.md: the fault, the measurements, and the violated guarantees."""

import time
from dataclasses import dataclass, field

from bench.fleet.rig import Rig, WorkerProcess
from run_specialist.fleet.worker import MAX_TAKEOVERS

WITHIN = 15.0
"""Maximum time until the items of a dead worker are taken over [s]."""


@dataclass(frozen=True)
class Strike:
    """The state of a worker when a fault was injected."""

    worker: int
    at: float
    """[seconds since 1970]"""
    owned: dict[int, int]
    """Items that it worked on, with the number of their stored turns."""


@dataclass
class Row:
    """The result of one row."""

    name: str
    strikes: list[Strike] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    """Violated guarantees."""

    def require(self, what: str, *, holds: bool) -> None:
        """Record a violated guarantee."""
        if not holds:
            self.broken.append(what)

    def check(self, rig: Rig, items: int) -> None:
        """Check the guarantees of every row: one outcome per item, and no stored reply is paid for twice."""
        counts, given_up = rig.counts(), rig.given_up()
        holds = counts.get("answered") == items - len(given_up)
        self.require(f"every item is answered or given up: {counts}, {given_up}", holds=holds)
        # Each of the last deaths came before a new turn: this may be an item that kills its workers.
        turns = [[strike.owned[item] for strike in self.strikes if item in strike.owned] for item in given_up]
        harmless = [one for one in turns if len(one) < MAX_TAKEOVERS or len({*one[-MAX_TAKEOVERS:]}) > 1]
        self.require(f"given up although turns were made: {harmless}", holds=not harmless)
        (left,) = rig.query("select count(*) from run_specialist_queue.pgqueuer")[0]
        self.require(f"{left} jobs are left", holds=left == 0)
        again = rig.model.paid_again()
        twice = [
            (strike.worker, request)
            for strike in self.strikes
            for request in rig.model.requests
            if request.at > strike.at and request.turn < strike.owned.get(request.item, 0)
        ]
        self.require(f"stored replies were paid twice: {twice[:3]}", holds=not twice)
        by_item = {item: sum(n for (one, _), n in again.items() if one == item) for item, _ in again}
        struck = {item: sum(item in strike.owned for strike in self.strikes) for item in by_item}
        over = {item: (n, struck[item]) for item, n in by_item.items() if n > struck[item]}
        self.require(f"more paid again than the request under way: {over}", holds=not over)
        self.figures |= {"requests": len(rig.model.requests), "paid again": sum(again.values())}
        self.figures |= {"given up": len(given_up)} if given_up else {}

    def taken_over(self, rig: Rig) -> list[float]:
        """Return how long after a strike the next request of each item came [s].

        If another strike hit the worker that took an item over, only that one counts.
        """
        delays = []
        for number, strike in enumerate(self.strikes):
            for item in strike.owned:
                next_at = min(
                    (one.at for one in rig.model.requests if one.item == item and one.at > strike.at), default=0
                )
                again = any(item in later.owned and later.at < next_at for later in self.strikes[number + 1 :])
                if next_at and not again:
                    delays.append(next_at - strike.at)
        return delays


def struck(rig: Rig, worker: WorkerProcess, at: float) -> Strike:
    """Return the state of a worker in which a fault was just injected."""
    # The last commit of a process that was killed may still be on its way.
    time.sleep(0.2)
    return Strike(worker.number, at, rig.held(worker))
