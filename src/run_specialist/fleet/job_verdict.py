"""Decide about a job after its run has ended: it is finished, or goes back to the queue."""

from dataclasses import dataclass

from run_specialist.api.price_check import PriceUnknown
from run_specialist.batch.item_run import LimitReached, NotAffordable
from run_specialist.errors import (
    AtWork,
    NoCredentials,
    NothingToRead,
    NotTrusted,
    RunSpecialistError,
    StoreUnusable,
)
from run_specialist.record.outcome import Outcome

STORE_DELAY = 2.0
"""Delay before an item whose run could not be stored is taken again [s]."""
SHARE_DELAY = 2.0
"""Delay before an item for which the cost limit currently leaves too little is taken again [s]."""
AT_WORK_DELAY = 10.0
"""Delay before an item whose run is in progress elsewhere is taken again [s]."""
SERVER_ERROR_DELAY = 30.0
"""Delay after the first server error of an item; it doubles [s]."""
MAX_SERVER_ERRORS = 3
"""Number of server errors after which an item counts as failed, because its question may cause them."""
PAUSING = frozenset({"rate_limited", "overloaded", "quota", "connection"})
"""Kinds of failure not caused by the item: the whole batch waits, and the item is resumed."""


@dataclass(frozen=True, slots=True)
class JobFinished:
    """The job is removed from the queue."""

    state: str | None = "ended"
    """State of the item; None = unchanged."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class JobRequeued:
    """The job goes back to the queue."""

    delay: float = 0.0
    """Time before a worker may take it [s]."""
    waits: bool = True
    """Whether the item waits; False if its run is in progress elsewhere."""
    counts: bool = False
    """Whether it counts as an attempt of the job."""
    closes: bool = False
    """Whether the whole batch waits for its endpoint."""
    wait: float | None = None
    """The wait that the endpoint requests; None = it requests none [s]."""
    stops: str | None = None
    """Why this worker, or with `pauses` the batch, must stop; None = it may continue."""
    pauses: bool = False
    """Whether the batch is paused until a person resumes it."""
    refuses: bool = False
    """Whether this worker takes no more items of the batch, because it lacks something that each of them needs."""
    reason: str = ""


Verdict = JobFinished | JobRequeued


def judge(outcome: Outcome, attempts: int, *, cancelled: bool = False) -> Verdict:
    """Return the verdict on the job of a run.

    attempts: earlier server errors of this item.
    cancelled: whether the batch was cancelled, which aborts its runs.
    """
    if outcome.error_kind == "store_lost":
        return JobRequeued(STORE_DELAY)
    if outcome.status == "aborted":
        return JobFinished("cancelled") if cancelled else JobRequeued()
    return _judge_failure(outcome, attempts) if outcome.status == "failed" else JobFinished()


def unbegun(error: RunSpecialistError) -> Verdict:  # noqa: PLR0911 - a verdict for each kind
    """Return the verdict on the job of an item whose run could not begin."""
    match error:
        case AtWork():
            return JobRequeued(AT_WORK_DELAY, waits=False)
        case StoreUnusable():
            return JobRequeued(STORE_DELAY)
        case LimitReached():
            return JobFinished(state=None)
        case NotAffordable():
            return JobRequeued(SHARE_DELAY)
        case PriceUnknown():
            return JobRequeued(stops=str(error), pauses=True)
        case NoCredentials() | NotTrusted() | NothingToRead():
            return JobRequeued(refuses=True, reason=str(error))
    return JobFinished(error=str(error))


def _judge_failure(outcome: Outcome, attempts: int) -> Verdict:
    kind, reason = outcome.error_kind, outcome.error or ""
    if kind in PAUSING:
        return JobRequeued(closes=True, wait=outcome.retry_after, reason=reason)
    if kind in {"credentials", "model_missing"}:
        return JobRequeued(stops=reason, pauses=kind == "model_missing")
    if kind == "server_error" and attempts < MAX_SERVER_ERRORS - 1:
        return JobRequeued(SERVER_ERROR_DELAY * 2**attempts, counts=True, reason=reason)
    return JobFinished()
