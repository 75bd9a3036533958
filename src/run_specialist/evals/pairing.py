"""Pair the runs of two variants by case: one value per side, the mean over the repeats."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from run_specialist.evals.eval_results import CaseRun
from run_specialist.evals.intervals import exact


@dataclass(frozen=True, slots=True)
class CasePair:
    """The scores of a case with the baseline and with a variant."""

    case: str
    baseline: float
    variant: float
    baseline_passed: float
    """Share of the repeats that passed."""
    variant_passed: float

    @property
    def difference(self) -> float:
        """The score of the variant minus that of the baseline."""
        return exact(self.variant - self.baseline)


@dataclass(frozen=True, slots=True)
class PairedVariants:
    """The results of two variants, by case."""

    pairs: tuple[CasePair, ...]
    """In the order of the cases."""
    only_baseline: tuple[str, ...] = ()
    """Cases without an ended run of the variant."""
    only_variant: tuple[str, ...] = ()
    """Cases without an ended run of the baseline."""
    other_checks: tuple[str, ...] = ()
    """Cases in which some checks were made on one side only; their scores count only the common checks."""
    not_comparable: tuple[str, ...] = ()
    """Cases without a common check, which are omitted."""


def paired(cases: Iterable[str], baseline: Sequence[CaseRun], variant: Sequence[CaseRun]) -> PairedVariants:
    """Pair the ended runs of two variants by case."""
    ours, theirs = _by_case(baseline), _by_case(variant)
    names = list(dict.fromkeys([*cases, *ours, *theirs]))
    pairs: list[CasePair] = []
    unlike: list[str] = []
    lacking: list[str] = []
    for case in names:
        before, after = ours.get(case), theirs.get(case)
        if not before or not after:
            continue
        known, every = _checks([*before, *after])
        if known != every:
            (unlike if known else lacking).append(case)
        if known or not every:
            pairs.append(_pair(case, before, after, known))
    return PairedVariants(
        tuple(pairs),
        tuple(case for case in names if case in ours and case not in theirs),
        tuple(case for case in names if case in theirs and case not in ours),
        tuple(unlike),
        tuple(lacking),
    )


def amounts(
    pairs: Iterable[CasePair],
    baseline: Sequence[CaseRun],
    variant: Sequence[CaseRun],
    of: Callable[[CaseRun], float | None],
) -> list[tuple[float, float]]:
    """Return an amount of both sides for each pair, as the mean over the repeats; unknown amounts are omitted."""
    before, after = _by_case(baseline), _by_case(variant)
    found = ((_mean(before[one.case], of), _mean(after[one.case], of)) for one in pairs)
    return [(left, right) for left, right in found if left is not None and right is not None]


def _pair(case: str, before: Sequence[CaseRun], after: Sequence[CaseRun], checks: frozenset[str]) -> CasePair:
    return CasePair(
        case,
        fmean(_score(one, checks) for one in before),
        fmean(_score(one, checks) for one in after),
        fmean(_passed(one, checks) for one in before),
        fmean(_passed(one, checks) for one in after),
    )


def _by_case(runs: Iterable[CaseRun]) -> dict[str, list[CaseRun]]:
    found: dict[str, list[CaseRun]] = defaultdict(list)
    for one in runs:
        if one.has_ended:
            found[one.case].append(one)
    return dict(found)


def _checks(runs: Iterable[CaseRun]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the checks that all of these runs have, and that any has; failed runs do not count."""
    names = [frozenset(check.name for check in one.checks) for one in runs if one.status != "failed" or one.checks]
    return frozenset.intersection(*names) if names else frozenset(), frozenset().union(*names)


def _score(run: CaseRun, checks: frozenset[str]) -> float:
    if run.status == "failed":
        return 0.0
    scores = [one.score for one in run.checks if one.name in checks and one.score is not None]
    return fmean(scores) if scores else 1.0


def _passed(run: CaseRun, checks: frozenset[str]) -> bool:
    return run.status != "failed" and all(one.value is not False for one in run.checks if one.name in checks)


def _mean(runs: Sequence[CaseRun], of: Callable[[CaseRun], float | None]) -> float | None:
    values = [of(one) for one in runs]
    known = [one for one in values if one is not None]
    return fmean(known) if len(known) == len(values) else None
