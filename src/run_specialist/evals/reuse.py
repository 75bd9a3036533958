"""Choose the stored runs that an eval reuses, and the runs that it repeats."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from run_specialist.evals.added_texts import has_same_texts
from run_specialist.evals.eval_plan import EvalPlan, PlannedRun
from run_specialist.evals.past_evals import StoredRuns
from run_specialist.evals.unchanged import Unchanged

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner

ENDED = frozenset({"answered", "landed", "partial", "failed"})
"""Statuses of runs that are reused; others are resumed."""


@dataclass(frozen=True)
class ReusePlan:
    """A plan in which each run has its generation."""

    plan: EvalPlan
    earlier: frozenset[str]
    """The ended runs that are reused."""
    stale: int = 0
    """Number of runs to be repeated because files that they read have changed."""


async def reused(plan: EvalPlan, runner: "Runner", known: StoredRuns, *, fresh: bool) -> ReusePlan:
    """Return the plan with the newest stored run of each question, or a new run where that is outdated.

    An interrupted eval continues with its planned runs.
    fresh: reuse no stored run, except those of an interrupted eval that was fresh, too.
    """
    newest, statuses = _newest(plan.runs, known)
    left = known.unfinished(plan.eval_id)
    begun: Collection[str] = () if left is None else left.run_ids
    asks_all = fresh and not (left is not None and left.is_fresh)
    unchanged = Unchanged(runner.root, runner.secrets, known.load, known.steps_of([*statuses]))
    runs, earlier, stale = list[PlannedRun](), set[str](), 0
    for one in plan.runs:
        found = replace(one, generation=max(newest.get(_place(one), 1), 1))
        following = replace(found, generation=found.generation + 1)
        status = statuses.get(found.run_id)
        if following.run_id in begun:
            # It was to replace the stored one, but has not begun.
            chosen, status = following, None
        elif status is None:
            chosen = found
        elif asks_all:
            chosen, status = following, None
        elif status in ENDED and not (
            await unchanged.is_unchanged(found.run_id) and await has_same_texts(one.asked, known, found.run_id, runner)
        ):
            chosen, status, stale = following, None, stale + 1
        else:
            chosen = found
        runs.append(chosen)
        if status in ENDED:
            earlier.add(chosen.run_id)
    return ReusePlan(replace(plan, runs=tuple(runs), is_fresh=fresh), frozenset(earlier), stale)


def _newest(runs: Iterable[PlannedRun], known: StoredRuns) -> tuple[Mapping[tuple[str, int], int], Mapping[str, str]]:
    """Return the newest stored generation of each run, and the statuses of all that are stored."""
    newest: dict[tuple[str, int], int] = {}
    statuses: dict[str, str] = {}
    waiting = [*{_place(one): replace(one, generation=1) for one in runs}.values()]
    while waiting:
        found = known.statuses([one.run_id for one in waiting])
        statuses |= found
        stored = [one for one in waiting if one.run_id in found]
        newest |= {_place(one): one.generation for one in stored}
        waiting = [replace(one, generation=one.generation + 1) for one in stored]
    return newest, statuses


def _place(run: PlannedRun) -> tuple[str, int]:
    return run.key, run.repeat
