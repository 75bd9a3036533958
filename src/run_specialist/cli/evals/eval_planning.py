"""Plan an eval: read its cases and variants from the command line and its files."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from run_specialist.cli.batch.shared_options import EachRunOptions
from run_specialist.cli.evals.comparing import Comparing
from run_specialist.cli.evals.eval_options import CaseOptions, VariantOptions
from run_specialist.errors import UsageError
from run_specialist.evals.case import EvalSet
from run_specialist.evals.eval_plan import EvalPlan, planned
from run_specialist.evals.finding import cases_of
from run_specialist.evals.judge_plan import check_judge
from run_specialist.evals.variants import Subject, subjects, varied
from run_specialist.specialist.problems import shown

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner


@dataclass(frozen=True)
class EvalRequest:
    """The options that define an eval."""

    name: str
    cases: CaseOptions
    variants: VariantOptions
    each_run: EachRunOptions
    comparing: Comparing

    def plan(self, runner: "Runner") -> EvalPlan:
        """Return the planned runs; raises UsageError."""
        file = runner.registry.find(self.name)
        cases = self._chosen(cases_of(file, partial(check_judge, runner), self.cases.cases))
        return planned(runner, file.name, cases, self._subjects(runner), self.cases.repeat)

    def _subjects(self, runner: "Runner") -> tuple[Subject, ...]:
        file = runner.registry.find(self.name)
        others = [runner.registry.find(str(path)) for path in self.variants.file or ()]
        settings = self.each_run.settings
        if self.each_run.model is not None:
            settings["model"] = self.each_run.model
        found = subjects([file, *others], settings, [varied(one) for one in self.variants.vary or ()])
        return self.comparing.subjects(runner, settings, found)

    def _chosen(self, cases: EvalSet) -> EvalSet:
        """Return the cases selected by `--case`; raises UsageError if a pattern matches none."""
        wanted = self.cases.case or []
        for pattern in wanted:
            if not any(_is_meant(case.name, pattern) for case in cases.cases):
                names = shown(", ".join(case.name for case in cases.cases), 300)
                raise UsageError(f"{cases.path}:1:1: no case is named {shown(pattern)}; there are {names}")
        if not wanted:
            return cases
        chosen = [case for case in cases.cases if any(_is_meant(case.name, pattern) for pattern in wanted)]
        return replace(cases, cases=tuple(chosen))


def _is_meant(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)
