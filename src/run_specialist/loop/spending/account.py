"""What a run has spent so far, and what its landing will cost."""

import time
from collections.abc import Callable, Mapping

from run_specialist.budget.budget import Budget, Kind, Limit
from run_specialist.providers.base import Provider
from run_specialist.record.journal import RunSnapshot, Spending
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Child

Clock = Callable[[], float]
"""Seconds that only ever grow."""

MAX_TOKENS = 16_000
"""The most that an ordinary reply may hold [tokens]."""
SHARE_OF_A_REPLY = 8
"""One reply may take this part of what a run may spend on tokens, so that many fit and the last can be paid for."""
LEAST_TOKENS = 1_024
"""A reply gets this much all the same, unless it is more than half of everything [tokens]."""
LATE = 0.1
"""A landing may go over the limit of time by this share of it: an answer that is nearly there is waited for."""
MORE_ROOM = 2
"""A reply that was cut is asked for again with this many times the room."""
NOTHING = RunSnapshot({})
"""How a run stands before it begins."""


def rounded(cost: float | None) -> float | None:
    """Return a price without the noise of its arithmetic."""
    return None if cost is None else round(cost, 8)


class Account:
    """The budget of one run while it is spent."""

    def __init__(
        self,
        budget: Budget,
        provider: Provider,
        clock: Clock = time.monotonic,
        before: RunSnapshot = NOTHING,
    ) -> None:
        """Open an account; its time begins with `start`.

        budget: nothing of it is spent yet.
        before: what an earlier going of the run has spent.
        """
        self._spent = budget
        for kind in Kind:
            self._spent = self._spent.spend(before.used.get(kind, 0), kind)
        self._provider = provider
        self._clock = clock
        self._begun: float | None = None
        self._largest_input, self._largest_request = before.largest_input, before.largest_request
        self._dearest_request = before.dearest_request
        self.total = before.total
        """All requests, those for summaries and of children too."""
        self.children = list(before.children)
        """The specialists that were asked, in the order in which they ended."""
        self.landing = Spending()
        """The requests of the landing alone; one of an earlier going is not this one."""
        self.max_tokens = self._affordable_reply()
        """The most that the next reply may hold [tokens]."""
        self._hold_back()

    def start(self, seconds: float = 0) -> None:
        """Let the time begin.

        seconds: spent before, and counted too [s].
        """
        self._begun = self._clock() - seconds

    @property
    def budget(self) -> Budget:
        """The budget as it stands now."""
        passed = 0 if self._begun is None else self._clock() - self._begun
        return self._spent.spend(passed, Kind.TIME)

    def limit(self, kind: Kind) -> Limit:
        """One kind of the budget as it stands now."""
        return self.budget[kind] if kind is Kind.TIME else self._spent[kind]

    def spend(self, amount: float, kind: Kind) -> None:
        """Spend some of one kind; see `Budget.spend`."""
        self._spent = self._spent.spend(amount, kind)

    def lend(self, amount: float, kind: Kind) -> None:
        """Give some of one kind to a child; see `Budget.lend`."""
        self._spent = self._spent.lend(amount, kind)

    def adopt(self, child: Child, drawn: Mapping[Kind, float]) -> None:
        """Enter a child that ended.

        drawn: what it spent of this budget.
        """
        self.total = self.total.plus(child.usage, child.cost_usd)
        self.children.append(child)
        self._spent = self._spent.spend_all(drawn)

    def book(self, usage: Usage, *, landing: bool) -> float | None:
        """Enter a request that was answered, and return what it cost [USD]."""
        cost = self._provider.cost(usage)
        self.total = self.total.plus(usage, cost)
        if landing:
            self.landing = self.landing.plus(usage, cost)
        self._largest_input = max(self._largest_input, usage.total_tokens - usage.output_tokens)
        self._largest_request = max(self._largest_request, usage.total_tokens)
        self._dearest_request = max(self._dearest_request, cost or 0)
        self._spent = self._spent.spend(usage.total_tokens, Kind.TOKENS).spend(cost or 0, Kind.COST)
        self._hold_back()
        return cost

    def standing(self) -> RunSnapshot:
        """Return what was spent; what else belongs to a standing is left as it is at the beginning."""
        return RunSnapshot(
            used={limit.kind.value: limit.used for limit in self.budget.limits},
            total=self.total,
            largest_input=self._largest_input,
            largest_request=self._largest_request,
            dearest_request=self._dearest_request,
            children=tuple(self.children),
        )

    def give_more_room(self) -> None:
        """Let the next replies hold more, because one was cut."""
        self.max_tokens = min(self.max_tokens * MORE_ROOM, self._provider.capabilities.max_output_tokens)
        self._hold_back()

    def seconds_left(self, *, landing: bool) -> float | None:
        """Return how long the next request may take; None without a limit of time.

        landing: its requests may go over the limit by a little, then no answer is waited for.
        """
        limit = self._spent[Kind.TIME].limit
        if limit is None:
            return None
        time = self.budget[Kind.TIME]
        return max(limit * (1 + LATE) - time.used, 0) if landing else time.until_landing

    def _affordable_reply(self) -> int:
        most = min(MAX_TOKENS, self._provider.capabilities.max_output_tokens)
        affordable = [self._spent[Kind.TOKENS].limit]
        money = self._spent[Kind.COST].limit
        if money is not None:
            price = self._provider.cost(Usage(output_tokens=1_000))
            affordable.append(money / price * 1_000 if price else None)
        for tokens in affordable:
            if tokens is not None:
                share = max(tokens / SHARE_OF_A_REPLY, min(LEAST_TOKENS, tokens / 2))
                most = min(most, max(int(share), 1))
        return most

    def _hold_back(self) -> None:
        """Keep what the landing needs, the largest request so far with a whole reply, out of reach of the next request.

        That one is taken to be as large as any before it.
        """
        landing = Usage(input_tokens=self._largest_input, output_tokens=self.max_tokens)
        if self._spent[Kind.TOKENS].limit is not None:
            self._spent = self._spent.hold(landing.total_tokens + self._largest_request, Kind.TOKENS)
        if self._spent[Kind.COST].limit is not None:
            cost = self._provider.cost(landing) or 0
            self._spent = self._spent.hold(cost + self._dearest_request, Kind.COST)
