"""How a run ended, and the outcome made from it."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from run_specialist import budget as units
from run_specialist.budget import Kind, LadderPosition, Limit, Rung
from run_specialist.loop import evidence
from run_specialist.loop.account import rounded
from run_specialist.loop.exchange import Exchange
from run_specialist.loop.job import CallRecord, RunContext
from run_specialist.loop.tool_calls import Dispatcher
from run_specialist.record import outcome
from run_specialist.record.journal import Spending
from run_specialist.tools.respond import Response

EXCEEDED = "{} used, more than the limit of {}: the last request and the landing may exceed it"
CONTEXT_FULL = "the model's context is full; ask for less, or let it read less"


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the loop ended, with the model's answer if there is one."""

    status: outcome.Status
    response: Response | None = None
    """The model's answer; None if it must be salvaged."""
    error: str | None = None
    """Why there is no complete answer, in one clause."""
    _: KW_ONLY
    exit_code: outcome.Exit = outcome.Exit.OK
    by_reply: bool = False
    """True if a reply ended the run; a landing counts it as one of its requests."""
    error_kind: outcome.ErrorKind | None = None
    """The kind of failure; None if the run ended at a limit, by a reply or by an abort."""
    retry_after: float | None = None
    """The wait that the server requests [s]."""


ABORTED = Ending("aborted", error="interrupted", exit_code=outcome.Exit.INTERRUPTED)
"""The ending of a run that was interrupted."""


def conclude(
    run: RunContext, ending: Ending, landing: LadderPosition | None, exchange: Exchange, dispatcher: Dispatcher
) -> outcome.Outcome:
    """Return the outcome: the answer with its evidence checked, or a salvaged one.

    landing: position on the ladder; None if the landing did not begin.
    """
    job, account, returned = run.job, run.account, exchange.returned.newest_marked
    report = _landing_report(landing, account.landing, ending)
    # The error may quote foreign code, and with it a secret.
    ending = replace(ending, error=ending.error and job.hide(ending.error))
    if returned and not ending.response and (ending.by_reply or ending.status == "partial"):
        # The model ended without another answer.
        ending = replace(ending, status="partial", response=returned, exit_code=outcome.Exit.OK)
    total, budget, response = account.total, account.budget, ending.response
    executed, children = dispatcher.executed, account.children
    if response is None:
        answer, quotes = _salvaged(run, ending, executed, returned, exchange.last_text)
    else:
        answer, quotes = response.answer, evidence.quotes(job, response, executed, children)
    status, exit_code = ending.status, ending.exit_code
    if status == "partial":
        # A run that was to have a partial answer but has none has failed.
        status, exit_code = ("partial", outcome.Exit.OK) if answer else ("failed", exit_code or outcome.Exit.NO_ANSWER)
    calls, failed = budget[Kind.TOOL_CALLS], sum(call.is_error for call in executed)
    calls_limit = None if calls.limit is None else int(calls.limit)
    limits = {limit.kind.value: outcome.Spent(_used(limit), limit.limit) for limit in budget.limits}
    if total.cost_usd is None:
        # The cost used is unknown if a price is.
        limits[Kind.COST.value] = outcome.Spent(None, budget[Kind.COST].limit)
    return outcome.Outcome(
        run_id=job.run_id,
        specialist=job.settings.name,
        model=job.provider.model,
        status=status,
        answer=answer,
        evidence=quotes,
        gaps=tuple(response.gaps) if response else (),
        question=response.question if response else None,
        output=response.output if response else None,
        tool_calls=outcome.ToolCalls(int(calls.used), calls_limit, failed, dispatcher.skipped),
        limits=limits,
        landing=report,
        usage=total.usage,
        cost_usd=rounded(total.cost_usd),
        duration_s=round(budget[Kind.TIME].used, 3),
        warnings=(
            *([outcome.NO_MODEL] if job.provider.model == outcome.OFFLINE else []),
            *map(job.hide, job.warnings),
            *run.observers.warnings,
            *evidence.warnings(job, response, quotes, int(calls.used)),
            *(
                EXCEEDED.format(units.amount(limit.kind, limit.used), units.amount(limit.kind, limit.limit))
                for limit in budget.limits
                if limit.limit is not None and _used(limit) > limit.limit
            ),
            *([ending.error] if ending.error else []),
        ),
        children=tuple(children),
        error=ending.error,
        exit_code=exit_code,
        error_kind=ending.error_kind,
        retry_after=ending.retry_after,
        patch=None if job.patch is None else job.patch(),
        models=account.models,
        support=() if response is None else evidence.support(job, response, quotes),
        changes=outcome.merged_changes([*run.observers.changes, *(one for child in children for one in child.changes)]),
    )


def _salvaged(
    run: RunContext, ending: Ending, executed: Sequence[CallRecord], returned: Response | None, last_text: str
) -> tuple[str, tuple[outcome.Evidence, ...]]:
    """Return an answer built from what was gathered, with its evidence."""
    # The result of a failed child contains its salvaged answer.
    job, children, runs_child = run.job, run.account.children, run.job.opening.tools.runs_child
    usable = [replace(call, is_error=False) if runs_child(call.call.name) else call for call in executed]
    is_newest = returned is not None and returned.answer.startswith(last_text)
    texts = [*([returned.answer] if returned else []), *([] if is_newest else [last_text])]
    salvaged = evidence.salvage(ending.error or ending.status, "\n\n".join(filter(None, texts)), usable)
    claimed = evidence.quotes(job, returned, executed, children) if returned else ()
    gathered = evidence.gathered(evidence.own_calls(job, executed))
    return salvaged, (*claimed, *gathered, *evidence.proven(children))


def _used(limit: Limit) -> float:
    return round(limit.used, 8 if limit.kind is Kind.COST else 3)


def _landing_report(landing: LadderPosition | None, spending: Spending, ending: Ending) -> outcome.LandingReport | None:
    if landing is None:
        return None
    how = Rung.FINALIZE if landing.rung is Rung.WAIT else landing.rung
    if ending.response is None:
        how = Rung.SALVAGE
    # A rung counts its request when the run moves to the next one; the reply that ended the run is still to be counted.
    if ending.by_reply:
        landing = landing.answered()
    return outcome.LandingReport(
        landing.reason.value, how.value, landing.requests, spending.usage, rounded(spending.cost_usd)
    )
