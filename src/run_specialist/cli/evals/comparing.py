"""Compare the variants of an eval as the options say, and write the comparison to files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from run_specialist.cli.console import fail
from run_specialist.cli.evals.comparison_options import ComparisonOptions
from run_specialist.cli.evals.write_page import write_page
from run_specialist.cli.output_file import try_writing
from run_specialist.cli.private_file import write_private
from run_specialist.evals.baseline import Baseline, find_baseline
from run_specialist.evals.comparison import Comparison, comparisons
from run_specialist.evals.earlier import earlier_eval
from run_specialist.evals.eval_results import EvalResult, Variant
from run_specialist.evals.junit import junit
from run_specialist.evals.result_json import as_json
from run_specialist.evals.variants import Subject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from run_specialist.api.runner import Runner
    from run_specialist.batch.done import Done
    from run_specialist.evals.eval_plan import EvalPlan
    from run_specialist.specialist.loader import SpecialistFile


@dataclass(frozen=True)
class Comparing:
    """The baseline and the outputs of a comparison."""

    options: ComparisonOptions
    baseline: Baseline | None = None

    @classmethod
    def begun(cls, options: ComparisonOptions, file: "SpecialistFile", store: str | None) -> "Comparing":
        """Find the baseline and check, before anything is spent, that the output files can be written; exit if not.

        store: URL of the store; None for the usual one.
        Raises UsageError for a baseline that does not exist.
        """
        if options.with_reports and options.page is None:
            fail("--with-reports needs --page, beside which the reports are written")
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
        """Return the variants to run; the baseline comes first if it has to be run, too.

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

    def with_earlier(self, plan: "EvalPlan", ends: "dict[int, Done]") -> "EvalPlan":
        """Return the plan with the ended runs of an earlier eval added, so that the current checks apply to them.

        ends: ended runs by number; those of the earlier eval are added to it.
        """
        base = self.baseline
        if base is None or base.earlier is None or base.variant is None:
            return plan
        name = self._name([one.variant for one in plan.subjects])
        variant = replace(base.variant, name=name, is_baseline=True)
        first = max((one.number for one in plan.runs), default=0) + 1
        added = []
        for number, (run, done) in enumerate(base.earlier.planned(plan.cases, base.variant.name, variant), first):
            added.append(replace(run, number=number))
            ends[number] = done
        subject = Subject(variant, plan.subjects[0].file)
        return replace(plan, subjects=(subject, *plan.subjects), runs=(*added, *plan.runs))

    def completed(self, result: EvalResult) -> EvalResult:
        """Return the result with the runs of the baseline added, if that is a result in JSON."""
        base = self.baseline
        if base is None or base.variant is None or base.earlier is not None:
            return result
        cases = set(result.cases)
        name = self._name(result.variants)
        variant = replace(base.variant, name=name, is_baseline=True)
        runs = tuple(replace(one, variant=name) for one in base.runs if one.case in cases)
        return replace(result, variants=(variant, *result.variants), runs=(*runs, *result.runs))

    def compared(self, result: EvalResult) -> tuple[Comparison, ...]:
        """Return the comparisons of the variants with the baseline, or with the first variant if there is none."""
        return comparisons(result, self.options.tolerance)

    def write(self, result: EvalResult, compared: Sequence[Comparison], store: str | None) -> None:
        """Write the requested files; raises OSError.

        store: URL of the store; None for the usual one.
        """
        if self.options.junit is not None:
            text = junit(result, compared if self.baseline else ())
            write_private(self.options.junit, text.encode("utf-8", "replace"), overwrite=True)
        if self.options.page is not None:
            write_page(self.options.page, as_json(result, compared), store, with_reports=self.options.with_reports)

    def is_regression(self, compared: Sequence[Comparison]) -> bool:
        """Return whether a variant is worse than the baseline, with certainty and by more than the tolerance."""
        return self.baseline is not None and any(one.regression for one in compared)

    def _name(self, others: Sequence[Variant]) -> str:
        name = self.baseline.name if self.baseline else ""
        return f"{name} (baseline)" if name in {one.name for one in others} else name
