"""One call of `specialists map`: read the items, show the plan, then run the items or queue them for a fleet."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from run_specialist.cli.batch.map_confirm import confirm
from run_specialist.cli.batch.map_items import MapRequest
from run_specialist.cli.batch.map_options import RETRIED, AnswerOptions, BatchOptions, ItemOptions
from run_specialist.cli.batch.map_planning import planned
from run_specialist.cli.batch.map_queue import check_queue, put_into_queue
from run_specialist.cli.batch.map_reduce import Reducer
from run_specialist.cli.batch.map_summary import SameCall
from run_specialist.cli.batch.map_work import MapWork
from run_specialist.cli.batch.shared_options import EachRunOptions, MoneyOptions, ProjectOptions, batch_runner
from run_specialist.cli.console import say

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.cli.batch.map_plan import MapPlan
    from run_specialist.config.config import Config


@dataclass(frozen=True)
class MapCall:
    """The parsed command line of `specialists map`."""

    name: str
    items: str | None
    each_item: ItemOptions
    answers: AnswerOptions
    money: MoneyOptions
    batch: BatchOptions
    each_run: EachRunOptions
    project: ProjectOptions
    config: "Config"
    words: tuple[str, ...]
    """The arguments as given; the command that continues the batch is built from them."""
    fleet_at_once: int
    """How many items a fleet may work on at the same time; 0 = any number."""

    def work(self) -> int:
        """Execute the command; return the exit code."""
        runner = self._runner_in(self.project.root)
        check_queue(self.batch, self.items)
        asked = MapRequest.of(self.items, self.each_item, runner, self.name)
        reducer = self._reducer(runner)
        plan = self._plan(asked, runner)
        if self.batch.dry_run:
            plan.show(json=self.answers.json_)
            return 0
        if not self.answers.quiet:
            say(str(plan))
        confirm(plan.most if plan.forecast.runs else None, self.money)
        worked_on = self._by_fleet(plan, runner) if self.batch.queue else plan
        if worked_on is None:
            return 0
        return MapWork(worked_on, runner, self.answers, SameCall(self.words), reducer).work()

    def _runner_in(self, root: Path | None) -> "Runner":
        """Return a runner whose file tools can read a folder."""
        return batch_runner(self.config, replace(self.project, root=root), self.each_run, quiet=self.answers.quiet)

    def _reducer(self, runner: "Runner") -> Reducer | None:
        wanted = self.answers.reduce
        return None if wanted is None else Reducer(runner.registry.find(wanted), self._runner_in)

    def _plan(self, asked: MapRequest, runner: "Runner") -> "MapPlan":
        return planned(asked, runner, self.each_run, self._bounds, RETRIED[self.batch.retry])

    @property
    def _bounds(self) -> dict[str, Any]:
        """Return the limits of the batch as arguments of `Runner.map`."""
        limit = {} if self.money.limit is None else {"cost_limit": self.money.limit}
        return {"at_once": self.batch.at_once, **limit, **self.batch.bounds}

    def _by_fleet(self, plan: "MapPlan", runner: "Runner") -> "MapPlan | None":
        """Queue the items for a fleet; with `--wait` return the plan that reads its answers, otherwise None."""
        followed = put_into_queue(plan, runner, self.each_run, self.batch, self.answers, self.fleet_at_once)
        if followed is None:
            return None
        # The fleet has worked on the items: what is left is to read their answers.
        done = planned(plan.asked, runner, self.each_run, self._bounds, RETRIED[None], is_over=True)
        if followed.lost:
            again = f"`specialists fleet retry {done.batch.id}`, then the same command"
            done.batch.only_read(f"the fleet has left items without an outcome, {followed.lost}; {again}")
        elif followed.limit:
            done.batch.only_read(followed.limit, "cost_limit")
        return done
