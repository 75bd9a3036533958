"""Compare the variants of an eval as the command line asks, and write the comparison to files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from run_specialist.cli.console import fail
from run_specialist.cli.evals.comparison_options import ComparisonOptions
from run_specialist.cli.output_file import try_writing
from run_specialist.cli.private_file import write_private
from run_specialist.evals.baseline import Baseline, find_baseline
from run_specialist.evals.comparison import Comparison, comparisons
from run_specialist.evals.earlier import earlier_eval
from run_specialist.evals.junit import junit
from run_specialist.evals.results import CaseRun, EvalResult, Variant
from run_specialist.evals.variants import Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from run_specialist.api.runner import Runner
    from run_specialist.batch.done import Done
    from run_specialist.evals.case import EvalSet
    from run_specialist.evals.plan import PlannedRun
    from run_specialist.specialist.loader import SpecialistFile


@dataclass(frozen=True)
class Comparing:
    """What a call of the command compares with."""

    options: ComparisonOptions
    baseline: Baseline | None = None

    @classmethod
    def begun(cls, options: ComparisonOptions, file: "SpecialistFile", store: str | None) -> "Comparing":
        """Find the baseline, and check that the files can be written before anything is spent; exit if not.

        store: URL of the store; None for the usual one.
        Raises UsageError for a baseline that does not exist.
        """
        for flag, path in (("--page", options.page), ("--junit", options.junit)):
            if path is not None:
                try:
                    try_writing(path)
                except OSError as error:
                    fail(f"{flag} {path}: {error.strerror or error}")
        if options.baseline is None:
            return cls(options)
        return cls(options, find_baseline(options.baseline, file.path, lambda name: earlier_eval(name, store)))

    def subjects(
        self, runner: "Runner", settings: "Mapping[str, Any]", others: Sequence[Subject]
    ) -> tuple[Subject, ...]:
        """Return the variants with that of the baseline before them, if its runs are still to be made.

        settings: those of all variants.
        """
        base = self.baseline
        if base is None or base.path is None:
            return tuple(others)
        file = runner.registry.find(str(base.path))
        variant = Variant(
            self._name([one.variant for one in others]), str(file.path), file.digest, {}, is_baseline=True
        )
        return (Subject(variant, file, settings), *others)

    def stored(self, cases: "EvalSet") -> "Iterator[tuple[PlannedRun, Done]]":
        """Yield the runs of an earlier eval that are to be checked again."""
        base = self.baseline
        if base is not None and base.earlier is not None and base.variant is not None:
            yield from base.earlier.planned(cases, base.variant, base.name)

    def completed(self, result: EvalResult, checked: Sequence[CaseRun]) -> EvalResult:
        """Return the result with the baseline whose runs were there already.

        checked: the runs of `stored` with their checks.
        """
        base = self.baseline
        if base is None or base.variant is None:
            return result
        cases = set(result.cases)
        runs = [one for one in (*base.runs, *checked) if one.case in cases]
        name = self._name(result.variants)
        variant = replace(base.variant, name=name, is_baseline=True)
        renamed = tuple(replace(one, variant=name) for one in runs)
        return replace(result, variants=(variant, *result.variants), runs=(*renamed, *result.runs))

    def compared(self, result: EvalResult) -> tuple[Comparison, ...]:
        """Return the comparisons of the variants with the baseline, or else with the first of them."""
        return comparisons(result, self.options.tolerance)

    def write(self, result: EvalResult, compared: Sequence[Comparison]) -> None:
        """Write the files that were asked for; raises OSError."""
        if self.options.junit is not None:
            text = junit(result, compared if self.baseline else ())
            write_private(self.options.junit, text.encode("utf-8", "replace"), overwrite=True)

    def is_regression(self, compared: Sequence[Comparison]) -> bool:
        """Return whether a variant is certainly worse than the baseline, by more than the tolerance."""
        return self.baseline is not None and any(one.regression for one in compared)

    def _name(self, others: Sequence[Variant]) -> str:
        name = self.baseline.name if self.baseline else ""
        return f"{name} (baseline)" if name in {one.name for one in others} else name


def comparison_lines(compared: Sequence[Comparison]) -> Iterator[str]:
    """Yield the verdicts, and what was left out, for people."""
    from run_specialist.evals.verdict_text import notes, verdict_text  # noqa: PLC0415 - fast `--help`

    for one in compared:
        yield f"{one.variant}: {verdict_text(one)}"
        yield from (f"{one.variant}: {line}" for line in notes(one))
