"""The account of a run: its spending, the reserve for the landing, and the shares of its children."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from run_specialist.budget import Budget, Kind, Limit
from run_specialist.loop.observing import Observers
from run_specialist.providers.base import Provider
from run_specialist.record.journal import RunSnapshot, Spending
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import AskedModel, Child

Clock = Callable[[], float]
"""Returns the time of a monotonic clock [s]."""

MAX_TOKENS = 16_000
"""Maximum `max_tokens` of a first attempt [tokens]."""
# Number of replies of maximum size that the token and cost limits must cover, so that the landing can be paid, too.
_MIN_REPLIES = 8
# Minimum `max_tokens`, unless it exceeds half of what the limits cover [tokens].
_MIN_REPLY_TOKENS = 1_024
LANDING_OVERTIME = 0.1
"""Fraction of the time limit by which a landing may exceed it, to wait for an answer that is nearly complete."""
# Factor by which `max_tokens` grows when a truncated reply is retried.
_RETRY_FACTOR = 2
NOT_STARTED = RunSnapshot({})
"""The snapshot of a run before it starts."""


def rounded(cost: float | None) -> float | None:
    """Return a cost without floating-point noise [USD]."""
    return None if cost is None else round(cost, 8)


class Account:
    """The budget of one run, and its spending."""

    def __init__(
        self, budget: Budget, provider: Provider, clock: Clock = time.monotonic, before: RunSnapshot = NOT_STARTED
    ) -> None:
        """Open an account; the clock starts with `start`.

        budget: the limits, unspent.
        before: spending before the run was resumed.
        """
        self._spent = budget.spend_all({kind: before.used[kind] for kind in Kind if kind in before.used})
        self._provider = provider
        self._clock = clock
        self._started_at: float | None = None
        self._largest_input, self._largest_request = before.largest_input, before.largest_request
        self._dearest_request = before.dearest_request
        self.total = before.total
        """Spending of all requests, including those for summaries and those of children."""
        self.children = list(before.children)
        """The child runs, in the order in which they ended."""
        self.waiting_children = 0
        """Number of calls in the current turn that may still reserve a share of the budget for a child."""
        self.turns = int(before.used.get(Kind.TURNS, 0))
        """Number of replies so far."""
        self._models = [*before.models]
        if not self._models or self._models[-1].model != provider.model:
            self._models.append(AskedModel(provider.model, self.turns + 1))
        self.landing = Spending()
        """Spending of the landing alone, without a landing from before the run was resumed."""
        self._growth = 1
        self.max_tokens = self._affordable_reply()
        """The `max_tokens` of the next request [tokens]."""
        self._reserve_landing()

    def start(self, seconds: float = 0) -> None:
        """Start the clock.

        seconds: time already spent, counted against the time limit [s].
        """
        self._started_at = self._clock() - seconds

    @property
    def elapsed(self) -> float:
        """The time since the start [s]; 0 before it."""
        return 0 if self._started_at is None else self._clock() - self._started_at

    @property
    def budget(self) -> Budget:
        """The current budget, including the time."""
        return self._spent.spend_all({Kind.TIME: self.elapsed})

    def limit(self, kind: Kind) -> Limit:
        """Return the current state of one kind."""
        return (self.budget if kind is Kind.TIME else self._spent)[kind]

    def spend(self, amount: float, kind: Kind) -> None:
        """Spend an amount of one kind, as `Budget.spend` does [the kind's unit]."""
        self._spent = self._spent.spend_all({kind: amount})

    def lend(self, amount: float, kind: Kind) -> None:
        """Lend an amount of one kind to a child, as `Budget.lend` does [the kind's unit]."""
        self._spent = self._spent.lend(amount, kind)

    def adopt(self, child: Child, drawn: Mapping[Kind, float]) -> None:
        """Add the spending of a child that ended.

        drawn: the part that it spent of this budget.
        """
        self.total = self.total.plus(child.usage, child.cost_usd)
        self.children.append(child)
        self._spent = self._spent.spend_all(drawn)

    def book(self, usage: Usage, *, in_landing: bool, turns: int = 0) -> float | None:
        """Charge an answered request and return its cost [USD]; None if the price is unknown.

        turns: 1 for a turn of the run, 0 for a request that summarizes.
        """
        cost = self._provider.cost(usage)
        self.total = self.total.plus(usage, cost)
        if in_landing:
            self.landing = self.landing.plus(usage, cost)
        of_model = Spending(self._models[-1].usage, self._models[-1].cost_usd).plus(usage, cost)
        self._models[-1] = replace(self._models[-1], usage=of_model.usage, cost_usd=of_model.cost_usd)
        tokens = usage.total_tokens
        self._largest_input = max(self._largest_input, tokens - usage.output_tokens)
        self._largest_request = max(self._largest_request, tokens)
        self._dearest_request = max(self._dearest_request, cost or 0)
        self.turns += turns
        self._spent = self._spent.spend_all({Kind.TURNS: turns, Kind.TOKENS: tokens, Kind.COST: cost or 0})
        self._reserve_landing()
        return cost

    def change_model(self, failure: str, cold: int | None) -> float | None:
        """Charge the next requests at the price of the provider's current model.

        failure: why the previous model is no longer used, in one line.
        cold: estimated input that the new model reads without a cache; None if nothing was sent yet [tokens].
        Returns the price of this input [USD]; None if it is unknown.
        """
        self._models[-1] = replace(self._models[-1], failure=failure)
        self._models.append(AskedModel(self._provider.model, self.turns + 1))
        most = self._provider.capabilities.max_output_tokens
        self.max_tokens = min(self._affordable_reply() * self._growth, most)
        price = self._provider.cost(Usage(input_tokens=cold or 0))
        # The most expensive request so far was one of another model.
        self._dearest_request = price or 0
        self._reserve_landing()
        return price

    @property
    def models(self) -> tuple[AskedModel, ...]:
        """The models that were asked, in order, each with its spending."""
        asked, end = [*self._models], self.turns + 1
        for place in reversed(range(len(asked))):
            one = asked[place]
            asked[place] = replace(one, turns=end - one.since_turn, cost_usd=rounded(one.cost_usd))
            end = one.since_turn
        return tuple(asked)

    def snapshot(self, **others: Any) -> RunSnapshot:  # noqa: ANN401 - of several types
        """Return a snapshot with the spending.

        others: fields that the account does not know; defaults if omitted.
        """
        return RunSnapshot(
            used={limit.kind.value: limit.used for limit in self.budget.limits},
            total=self.total,
            largest_input=self._largest_input,
            largest_request=self._largest_request,
            dearest_request=self._dearest_request,
            children=tuple(self.children),
            models=self.models,
            **others,
        )

    def raise_max_tokens(self) -> None:
        """Raise `max_tokens` for the next requests, because a reply was truncated."""
        self._growth *= _RETRY_FACTOR
        self.max_tokens = min(self.max_tokens * _RETRY_FACTOR, self._provider.capabilities.max_output_tokens)
        self._reserve_landing()

    def room(self, longest: int | None) -> int:
        """Return the `max_tokens` of the next request [tokens].

        longest: upper limit for a first attempt; None = only the account's own limit [tokens].
        """
        return self.max_tokens if longest is None else min(self.max_tokens, longest * self._growth)

    def seconds_left(self, *, in_landing: bool) -> float | None:
        """Return the timeout of the next request [s]; None without a time limit.

        in_landing: whether the request is part of the landing, which may exceed the limit by LANDING_OVERTIME.
        """
        if self._spent.limits[Kind.TIME.place].limit is None:
            return None
        time = self.limit(Kind.TIME)
        return max((time.limit or 0) * (1 + LANDING_OVERTIME) - time.used, 0) if in_landing else time.until_landing

    def _affordable_reply(self) -> int:
        """Return the `max_tokens` that the token and cost limits can cover [tokens]."""
        max_tokens = min(MAX_TOKENS, self._provider.capabilities.max_output_tokens)
        affordable = [self._spent[Kind.TOKENS].limit]
        cost_limit = self._spent[Kind.COST].limit
        if cost_limit is not None:
            price = self._provider.cost(Usage(output_tokens=1_000))
            affordable.append(cost_limit / price * 1_000 if price else None)
        for tokens in affordable:
            if tokens is not None:
                share = max(tokens / _MIN_REPLIES, min(_MIN_REPLY_TOKENS, tokens / 2))
                max_tokens = min(max_tokens, max(int(share), 1))
        return max_tokens

    def _reserve_landing(self) -> None:
        """Hold back the cost of a landing, so that the next request cannot spend it.

        The landing is assumed to take the largest input so far and a reply of `max_tokens`, and the next request to be
        as large as the largest so far.
        """
        landing = Usage(input_tokens=self._largest_input, output_tokens=self.max_tokens)
        if self._spent[Kind.TOKENS].limit is not None:
            self._spent = self._spent.hold(landing.total_tokens + self._largest_request, Kind.TOKENS)
        if self._spent[Kind.COST].limit is not None:
            cost = self._provider.cost(landing) or 0
            self._spent = self._spent.hold(cost + self._dearest_request, Kind.COST)


SHARED_KINDS = (Kind.TOOL_CALLS, Kind.TOKENS, Kind.COST)
"""The kinds that a child draws on; turns and characters limit one transcript, and time passes for all runs together."""

# The spending of a call without a child; one shared object, because every finished call keeps it.
_NOTHING: Mapping[Kind, float] = {}


def drawn(child: Child) -> dict[Kind, float]:
    """Return the amounts that a child spent of a shared budget, by kind."""
    return dict(zip(SHARED_KINDS, (child.tool_calls, child.usage.total_tokens, child.cost_usd or 0), strict=True))


class ChildBudget:
    """Lends a share of the budget to the child of one call, and charges its spending."""

    def __init__(self, account: Account, observers: Observers, *, shared: bool) -> None:
        """Take the parts of a run; `Account.waiting_children` counts this call already.

        shared: whether the child draws on the run's budget; its usage is added to the run's in any case.
        """
        self._account, self._shared = account, shared
        # As a child reports to the run: once per text, and events that are recorded with the child.
        self.warn, self.pass_on = observers.warn, observers.pass_on
        self._lent: dict[Kind, float] = {}
        self._is_waiting = True
        self.drawn = _NOTHING
        """The amounts that the child spent of the run's budget."""

    def lend(self, wanted: Mapping[Kind, float | None], least: Mapping[Kind, float]) -> Mapping[Kind, float | None]:
        """Reserve the limits that a child wants, each at most its share of the remaining budget; return its limits.

        wanted: the child's own limits; None = no limit.
        least: minimum amounts that are useful to it.
        """
        if not self._shared:
            return wanted
        granted = dict(wanted)
        for kind in SHARED_KINDS:
            left, limit = self._account.limit(kind).until_landing, wanted.get(kind)
            if left is None:
                continue
            # Equal to the share of each waiting call, but as much as is useful while it is available.
            share = left / max(self._account.waiting_children, 1)
            useful = 1 if kind is Kind.TOOL_CALLS else least.get(kind, 0)
            part = max(share // 1 if kind is Kind.TOOL_CALLS else share, min(left, useful))
            granted[kind] = self._lent[kind] = part if limit is None else min(part, limit)
            self._account.lend(self._lent[kind], kind)
        self.leave()
        return granted

    def leave(self) -> None:
        """Withdraw from the waiting calls, so that the others get larger shares."""
        if self._is_waiting:
            self._is_waiting = False
            self._account.waiting_children -= 1

    def settle(self, child: Child | None) -> None:
        """Charge the child's spending, once, and release the rest of the reservation.

        child: None if it never ran.
        """
        for kind, amount in self._lent.items():
            self._account.lend(-amount, kind)
        self._lent = {}
        if child is None:
            return
        if self._shared:
            self.drawn = drawn(child)
        self._account.adopt(child, self.drawn)
