"""How a run ended, and the outcome that is made of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from run_specialist.budget import units
from run_specialist.budget.budget import Budget, Kind, Limit
from run_specialist.budget.ladder import LadderPosition, Rung
from run_specialist.loop import evidence
from run_specialist.loop.job import Job
from run_specialist.loop.spending.account import Account, rounded
from run_specialist.loop.tool_calls.dispatcher import Dispatcher
from run_specialist.prompts import TRUNCATED
from run_specialist.record.outcome import Evidence, Exit, LandingReport, Outcome, Spent, Status, ToolCalls
from run_specialist.tools.respond import Response

NO_ANSWER = "no answer came at the limit of {}; raise {} to go on"
ANSWER_CUT = "the answer was cut off at the model's length limit"
NOT_IN_SHAPE = "the answer does not fit output_schema: {}"
EXCEEDED = "{} used, over the limit of {}: the last request and the landing may go over it"
CONTEXT_FULL = "the model's context is full; ask for less, or let it read less"


@dataclass(frozen=True, slots=True)
class Ending:
    """How the loop was left."""

    status: Status
    response: Response | None = None
    """The model's answer; None where one must be salvaged."""
    error: str | None = None
    """One clause on why there is no whole answer."""
    exit_code: Exit = Exit.OK
    by_reply: bool = False
    """True when it was a reply that ended the run: in a landing that counts as a request."""

    @classmethod
    def answered(cls, response: Response, *, at_limit: bool) -> Self:
        """The model gave its answer."""
        return cls("landed" if at_limit else "answered", response)

    @classmethod
    def cut(cls, response: Response, error: str) -> Self:
        """The answer was cut off; what came of it is kept."""
        if not response.answer.strip():
            return cls.salvaged(error)
        whole = response.model_copy(update={"answer": f"{response.answer.rstrip()}\n{TRUNCATED}"})
        return cls("partial", whole, error)

    @classmethod
    def out_of_shape(cls, response: Response) -> Self:
        """The answer does not fit the schema that was asked for, and did not at the second attempt."""
        error = NOT_IN_SHAPE.format(response.reason)
        return cls("partial", response, error) if response.answer.strip() else cls.salvaged(error)

    @classmethod
    def salvaged(cls, error: str) -> Self:
        """No answer came; one is built from what was gathered."""
        return cls("partial", None, error)

    @classmethod
    def without_room(cls, error: str) -> Self:
        """The model took no more; with nothing gathered it is as if it could not be asked."""
        return cls("partial", None, f"{error}; {CONTEXT_FULL}", Exit.PROVIDER)

    @classmethod
    def spent(cls, limit: Limit) -> Self:
        """The landing brought no answer either."""
        what = limit.kind.words if limit.limit is None else units.amount(limit.kind, limit.limit)
        return cls.salvaged(NO_ANSWER.format(what, limit.kind.key))

    @classmethod
    def failed(cls, error: str, exit_code: Exit) -> Self:
        """No answer can be had."""
        return cls("failed", None, error, exit_code)

    @classmethod
    def aborted(cls) -> Self:
        """Somebody stopped the run."""
        return cls("aborted", None, "interrupted", Exit.INTERRUPTED)

    @classmethod
    def unkept(cls, error: str) -> Self:
        """The run must not go on, for nothing more of it would be stored."""
        return cls("aborted", None, error, Exit.NO_ANSWER)


@dataclass(frozen=True, slots=True)
class RunParts:
    """What a run leaves behind beside its ending."""

    account: Account
    landing: LadderPosition | None
    dispatcher: Dispatcher
    last_text: str
    """The newest text of the model, for a salvage."""
    warnings: Sequence[str]
    """What was odd, as it was told."""


def conclude(job: Job, ending: Ending, gathered: RunParts) -> Outcome:
    """Make the outcome: the answer with its evidence checked, or what can be salvaged."""
    # What broke a run off may have words of other people's code.
    ending = replace(ending, error=ending.error and job.hide(ending.error))
    executed, total, budget = gathered.dispatcher.executed, gathered.account.total, gathered.account.budget
    response = ending.response
    answer, quotes = _answer(job, ending, gathered)
    status, exit_code = ending.status, ending.exit_code
    if status == "partial" and answer:
        exit_code = Exit.OK
    elif status == "partial":
        status, exit_code = "failed", exit_code or Exit.NO_ANSWER
    calls = budget[Kind.TOOL_CALLS]
    return Outcome(
        run_id=job.run_id,
        specialist=job.specialist,
        model=job.provider.model,
        status=status,
        answer=answer,
        evidence=quotes,
        gaps=tuple(response.gaps) if response else (),
        output=response.output if response else None,
        tool_calls=ToolCalls(
            used=int(calls.used),
            limit=None if calls.limit is None else int(calls.limit),
            failed=sum(one.is_error for one in executed),
            skipped=gathered.dispatcher.skipped,
        ),
        limits={
            limit.kind.value: Spent(
                None if limit.kind is Kind.COST and total.cost_usd is None else _used(limit), limit.limit
            )
            for limit in budget.limits
        },
        landing=_report(gathered, ending),
        usage=total.usage,
        cost_usd=rounded(total.cost_usd),
        duration_s=round(budget[Kind.TIME].used, 3),
        warnings=(
            *map(job.hide, job.warnings),
            *gathered.warnings,
            *_unfound(quotes),
            *_exceeded(budget),
            *([ending.error] if ending.error else []),
        ),
        children=tuple(gathered.account.children),
        error=ending.error,
        exit_code=exit_code,
    )


def _answer(job: Job, ending: Ending, gathered: RunParts) -> tuple[str, tuple[Evidence, ...]]:
    """Return the answer with its evidence, or what is salvaged in its place."""
    executed, asked = gathered.dispatcher.executed, job.opening.tools.runs_child
    # Of what a child says, only what it has read itself proves anything.
    read = [one for one in executed if not asked(one.call.name)]
    proven = [quote for child in gathered.account.children for quote in child.evidence if quote.verified]
    if ending.response is not None:
        claims = ((one.source, one.quote) for one in ending.response.evidence)
        return ending.response.answer, evidence.check(claims, read, (quote.quote for quote in proven))
    # A child that failed tells what it had gathered all the same.
    told = [replace(one, is_error=False) if asked(one.call.name) else one for one in executed]
    salvaged = evidence.salvage(ending.error or ending.status, gathered.last_text, told)
    return salvaged, (*evidence.gathered(read), *proven)


def _unfound(quotes: Sequence[Evidence]) -> list[str]:
    return [
        f"not found in what was read: {f'{one.source}: ' if one.source else ''}{one.quote!r}"
        for one in quotes
        if not one.verified
    ]


def _exceeded(budget: Budget) -> list[str]:
    return [
        EXCEEDED.format(units.amount(one.kind, one.used), units.amount(one.kind, one.limit))
        for one in budget.limits
        if one.limit is not None and _used(one) > one.limit
    ]


def _used(limit: Limit) -> float:
    return round(limit.used, 8 if limit.kind is Kind.COST else 3)


def _report(gathered: RunParts, ending: Ending) -> LandingReport | None:
    landing, bill = gathered.landing, gathered.account.landing
    if landing is None:
        return None
    how = Rung.FINALIZE if landing.rung is Rung.WAIT else landing.rung
    if ending.response is None:
        how = Rung.SALVAGE
    # The rungs that were left count their requests themselves.
    if ending.by_reply:
        landing = landing.answered()
    return LandingReport(landing.reason.value, how.value, landing.requests, bill.usage, rounded(bill.cost_usd))
