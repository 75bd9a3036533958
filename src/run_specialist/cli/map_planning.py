"""Prepare a batch for `specialists map`: read and check the items, look at the store, forecast."""

from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from run_specialist.batch.checking import check
from run_specialist.batch.forecast import forecast
from run_specialist.batch.item import Given, Item, keyed
from run_specialist.batch.question import Template, asked
from run_specialist.cli.console import fail
from run_specialist.cli.map_items import source_of_items
from run_specialist.cli.map_options import RETRIED, EachRunOptions, ItemOptions
from run_specialist.cli.map_past import known_runs
from run_specialist.cli.map_plan import Plan

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.batch.source import Source


@dataclass(frozen=True)
class Asked:
    """A specialist and what it is asked: a question about each item."""

    name: str
    source: "Source"
    given: Iterable[Given]
    """The checked items; they have a length if they can be read more than once."""
    template: Template | None

    @classmethod
    def of(cls, items: str | None, each: ItemOptions, runner: "Runner", name: str) -> "Asked":
        """Return checked items; exit, or raise UsageError, if they cannot be asked about."""
        source = source_of_items(items, each, runner, name)
        template = None if each.question is None else Template(each.question)
        return cls(name, source, check(source, template), template)

    @property
    def count(self) -> int | None:
        """The number of items; None if they can be read only once."""
        return len(self.given) if isinstance(self.given, Sized) else None

    def items(self) -> Iterator[Item]:
        """Yield the items with their questions."""
        return keyed(asked(self.given, self.template))


def planned(
    asked_: Asked, runner: "Runner", each: EachRunOptions, bounds: dict[str, Any], retried: Sequence[str]
) -> Plan:
    """Return the batch and what it is going to do; nothing is sent.

    each: options of each run.
    bounds: arguments of `Runner.map` about the batch.
    retried: statuses of earlier runs that are resumed.
    """
    settings = each.settings
    with known_runs(runner.store) as known:
        if not known.are_stored and [*retried] != [*RETRIED[None]]:
            fail("--retry needs stored runs; name a store with --store")
        past = known.past(runner, asked_.name, settings, each.model)
        cost = forecast(past, None).cost_usd
        batch = runner.map(
            asked_.name,
            asked_.given,
            None if asked_.template is None else asked_.template.text,
            source=asked_.source.name,
            retry=retried,
            typical_cost=0.0 if cost is None else cost.high,
            **bounds,
            **settings,
        )
        earlier = known.earlier(batch.id, retried)
    count = asked_.count
    ended = 0 if count is None else earlier.count(asked_.items())
    return Plan(
        batch=batch,
        asked=asked_,
        earlier=ended,
        forecast=forecast(past, None if count is None else count - ended),
        at_once=bounds["at_once"],
        spent=earlier.cost_usd,
    )
