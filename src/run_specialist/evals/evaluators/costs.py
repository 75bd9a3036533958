"""Evaluators of the tool calls, tokens, cost and time of a run."""

from dataclasses import dataclass

from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from run_specialist.budget.units import dollars
from run_specialist.evals.evaluators.checked_run import checked_run
from run_specialist.evals.evaluators.given import number


@dataclass(repr=False)
class CallsUnder(Evaluator[object, object, object]):
    """Whether the run made fewer tool calls."""

    calls: int

    def __post_init__(self) -> None:
        number(self.calls)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether there were fewer."""
        used = checked_run(ctx).outcome.tool_calls.used
        return _under(used, self.calls, f"{used:,} tool calls")


@dataclass(repr=False)
class TokensUnder(Evaluator[object, object, object]):
    """Whether the run used fewer tokens, input and output together."""

    tokens: int

    def __post_init__(self) -> None:
        number(self.tokens)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether there were fewer."""
        used = checked_run(ctx).outcome.usage.total_tokens
        return _under(used, self.tokens, f"{used:,} tokens")


@dataclass(repr=False)
class CostUnder(Evaluator[object, object, object]):
    """Whether the run cost less [USD]; an unknown cost fails."""

    usd: float

    def __post_init__(self) -> None:
        number(self.usd)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether it cost less."""
        outcome = checked_run(ctx).outcome
        if outcome.cost_usd is None:
            return EvaluationReason(value=False, reason=f"the price of {outcome.model} is unknown")
        return _under(outcome.cost_usd, self.usd, dollars(outcome.cost_usd))


@dataclass(repr=False)
class SecondsUnder(Evaluator[object, object, object]):
    """Whether the run took less time [s]."""

    seconds: float

    def __post_init__(self) -> None:
        number(self.seconds)

    def evaluate(self, ctx: EvaluatorContext[object, object, object]) -> EvaluationReason:
        """Return whether it took less."""
        took = checked_run(ctx).outcome.duration_s
        return _under(took, self.seconds, f"{took:.1f} s")


def _under(used: float, limit: float, text: str) -> EvaluationReason:
    return EvaluationReason(
        value=used < limit, reason=None if used < limit else f"{text}, expected fewer than {limit:,}"
    )
