"""Grants a job a share of a cost limit that many runs share."""

from dataclasses import replace

from run_specialist.budget.budget import Kind
from run_specialist.loop.job import Job


def own_cost_left(job: Job) -> float | None:
    """Return the remainder of a job's own cost limit; None without a limit [USD]."""
    limit = job.budget[Kind.COST].limit
    return None if limit is None else max(limit - _spent(job), 0.0)


def granted(job: Job, cost: float) -> Job:
    """Return a job that may spend this additional amount [USD].

    The limit counts down and lands like any other, but the system prompt has the same bytes in all runs.
    """
    return replace(job, budget=job.budget.limited(_spent(job) + cost, Kind.COST))


def _spent(job: Job) -> float:
    return job.resume_state.snapshot.used.get(Kind.COST, 0.0)
