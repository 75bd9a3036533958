"""The results of an eval: the checks of each run of each case."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import fmean
from typing import Any, Literal

from run_specialist.record.outcome import Status

AS_IT_IS = "as it is"
"""Name of the variant that is the unchanged file."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one evaluator for one run."""

    name: str
    """Name of the evaluator, with its argument if several evaluators have the same name."""
    value: bool | float | str
    """Whether it holds; a score, usually from 0 to 1; or a label, which is only shown."""
    reason: str | None = None

    @property
    def score(self) -> float | None:
        """The value as a number; None for a label."""
        return None if isinstance(self.value, str) else float(self.value)


@dataclass(frozen=True, slots=True)
class CaseRun:
    """One run of one case with one variant, and its checks."""

    case: str
    variant: str
    repeat: int
    """Number of the repeat, from 1."""
    run_id: str | None
    """Id of the run; None if it did not begin."""
    status: Status | Literal["not run"]
    checks: tuple[Check, ...] = ()
    tool_calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    """Cost without judges; None if a price is unknown [USD]."""
    judge_cost_usd: float | None = 0.0
    seconds: float = 0.0
    error: str | None = None
    """Why there is no outcome, no complete answer, or a check that could not be made."""
    unmade_checks: int = 0
    """Number of checks that could not be made, e.g. because a judge failed; they are not among `checks`."""

    @property
    def has_ended(self) -> bool:
        """Whether there is an outcome to judge."""
        return self.status not in {"not run", "aborted"}

    @property
    def score(self) -> float:
        """The mean of the checks; without checks, 1.0 if the run gave an answer, otherwise 0.0."""
        if self.status == "failed":
            return 0.0
        scores = [one.score for one in self.checks if one.score is not None]
        return fmean(scores) if scores else 1.0

    @property
    def is_scored(self) -> bool:
        """Whether the score counts: not if none of the checks could be made."""
        made = any(one.score is not None for one in self.checks)
        return made or not self.unmade_checks or self.status == "failed"

    @property
    def passed(self) -> bool:
        """Whether the run gave an answer, all checks could be made, and every yes/no check holds."""
        if self.unmade_checks:
            return False
        return self.has_ended and self.status != "failed" and all(one.value is not False for one in self.checks)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the cases."""

    name: str
    """As shown, such as `model=haiku, tool_calls_limit=8`; `as it is` for a file without changes."""
    path: str
    """The specialist file."""
    digest: str
    """Digest of the content of the file."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings that differ from the file, by key."""
    is_baseline: bool = False
    """Whether the other variants are compared with it."""


@dataclass(frozen=True, slots=True)
class EvalResult:
    """All runs of an eval."""

    eval_id: str
    specialist: str
    cases: tuple[str, ...]
    """Names, in the order of the file."""
    variants: tuple[Variant, ...]
    runs: tuple[CaseRun, ...]

    def of(self, variant: str) -> tuple[CaseRun, ...]:
        """Return the runs of a variant that have ended."""
        return tuple(one for one in self.runs if one.variant == variant and one.has_ended)

    def is_scored(self, variant: str) -> bool:
        """Return whether a run of a variant has a score that counts."""
        return any(one.is_scored for one in self.of(variant))

    def score_of(self, variant: str) -> float:
        """Return the mean score of a variant: the mean over the cases of each case's mean; 0.0 without any."""
        by_case: dict[str, list[float]] = {}
        for one in filter(attrgetter("is_scored"), self.of(variant)):
            by_case.setdefault(one.case, []).append(one.score)
        return fmean(map(fmean, by_case.values())) if by_case else 0.0
