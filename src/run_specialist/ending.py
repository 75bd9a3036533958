"""How a run ended, and the outcome that is made of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from run_specialist import evidence
from run_specialist.budget import Budget, Kind, Limit
from run_specialist.dispatch import Dispatcher
from run_specialist.job import Job
from run_specialist.landing import Landing, Rung
from run_specialist.messages import Reply, Usage
from run_specialist.outcome import Exit, LandingReport, Outcome, Spent, Status, ToolCalls
from run_specialist.prompts import TRUNCATED
from run_specialist.tools.respond import Response

NO_ANSWER = "no answer came at the limit of {}; raise it to go on"
ANSWER_CUT = "the answer was cut off at the model's length limit"
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

    @classmethod
    def answered(cls, response: Response, *, at_limit: bool) -> Self:
        """The model gave its answer."""
        return cls("landed" if at_limit else "answered", response)

    @classmethod
    def cut(cls, response: Response, error: str) -> Self:
        """The answer was cut off; what came of it is kept."""
        if not response.answer.strip():
            return cls.salvaged(error)
        whole = response.model_copy(update={"answer": response.answer.rstrip() + TRUNCATED})
        return cls("partial", whole, error)

    @classmethod
    def salvaged(cls, error: str) -> Self:
        """No answer came; one is built from what was gathered."""
        return cls("partial", None, error)

    @classmethod
    def failed(cls, error: str, exit_code: Exit) -> Self:
        """No answer can be had."""
        return cls("failed", None, error, exit_code)

    @classmethod
    def aborted(cls) -> Self:
        """Somebody stopped the run."""
        return cls("aborted", None, "interrupted", Exit.INTERRUPTED)


@dataclass(slots=True)
class Tally:
    """What is counted while a run goes on."""

    warnings: Sequence[str]
    """What is odd, as it is told."""
    usage: Usage = field(default_factory=Usage)
    last_text: str = ""
    """The newest text of the model, for a salvage."""

    def count(self, reply: Reply) -> None:
        """Add a reply."""
        self.usage += reply.usage
        self.last_text = reply.text or self.last_text


def conclude(  # noqa: PLR0913, PLR0917 - all that is known at the end, in the order in which it came to be
    job: Job,
    ending: Ending,
    budget: Budget,
    landing: Landing | None,
    tally: Tally,
    dispatcher: Dispatcher,
) -> Outcome:
    """Make the outcome: the answer with its evidence checked, or what can be salvaged."""
    executed = dispatcher.executed
    if ending.response is not None:
        answer, gaps = ending.response.answer, tuple(ending.response.gaps)
        quotes = evidence.check(((one.source, one.quote) for one in ending.response.evidence), executed)
    else:
        answer, gaps = evidence.salvage(ending.error or ending.status, tally.last_text, executed), ()
        quotes = evidence.gathered(executed)
    status, exit_code = ending.status, ending.exit_code
    if status == "partial" and not answer:
        status, exit_code = "failed", Exit.NO_ANSWER
    unfound = [f"not found in what was read: {one.source}: {one.quote!r}" for one in quotes if not one.verified]
    calls = budget[Kind.TOOL_CALLS]
    budget = budget.spend(sum(len(one.text.removesuffix(TRUNCATED)) for one in executed), Kind.CHARACTERS)
    return Outcome(
        run_id=job.run_id,
        specialist=job.specialist,
        model=job.provider.model,
        status=status,
        answer=answer,
        evidence=quotes,
        gaps=gaps,
        output=None,
        tool_calls=ToolCalls(
            used=int(calls.used),
            limit=None if calls.limit is None else int(calls.limit),
            failed=sum(one.is_error for one in executed),
            skipped=dispatcher.skipped,
        ),
        limits={limit.kind.value: _spent(limit) for limit in budget.limits},
        landing=_report(landing, ending),
        usage=tally.usage,
        cost_usd=None,
        duration_s=round(budget[Kind.TIME].used, 3),
        warnings=(*job.warnings, *tally.warnings, *unfound, *([ending.error] if ending.error else [])),
        error=ending.error,
        exit_code=exit_code,
    )


def _spent(limit: Limit) -> Spent:
    # No price is known to this version; a guess would be worse than none.
    used = None if limit.kind is Kind.COST else round(limit.used, 3)
    return Spent(used, limit.limit)


def _report(landing: Landing | None, ending: Ending) -> LandingReport | None:
    if landing is None:
        return None
    how = Rung.FINALIZE if landing.rung is Rung.WAIT else landing.rung
    if ending.response is None:
        how = Rung.SALVAGE
    # An empty reply and a refusal are answers to a request too; the rungs that were left count theirs themselves.
    if ending.response is not None or ending.exit_code is Exit.NO_ANSWER:
        landing = landing.answered()
    return LandingReport(landing.reason.value, how.value, landing.requests)
