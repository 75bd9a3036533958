"""The command `specialists eval`: read the case files, plan the runs, confirm the cost."""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.batch_options import (
    CaseOptions,
    ComparisonOptions,
    EachRunOptions,
    EvalMoneyOptions,
    ProjectOptions,
    ResultOptions,
    VariantOptions,
    WorkOptions,
    batch_runner,
)
from run_specialist.cli.console import complete_names, fail, guarded
from run_specialist.cli.flags import config_for_run
from run_specialist.cli.help import grouped

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.cli.eval_work import Comparing
    from run_specialist.evals.cases import EvalSet
    from run_specialist.evals.plan import EvalPlan, Subject


Evaluated = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        help="Name of the specialist, or path of its file.",
        autocompletion=complete_names,
    ),
]


@grouped
def eval_(
    name: Evaluated = None,
    *,
    cases: CaseOptions,
    variants: VariantOptions,
    comparison: ComparisonOptions,
    results: ResultOptions,
    money: EvalMoneyOptions,
    work: WorkOptions,
    each_run: EachRunOptions,
    project: ProjectOptions,
) -> None:
    """Run a specialist on a set of questions, and check its answers.

    Repeat the same command to run only what has changed: a stored run with the same question, file, settings and model
    is used again, unless a file that it read has changed. Ctrl-C stops after the current turns, a second Ctrl-C stops
    immediately.

    Exit codes: 0 every run was made, 1 a variant scores below --min-score or is certainly worse than the baseline, 2
    wrong flag or file, 3 the model's endpoint ended the eval, 4 a run has no answer, 130 interrupted.
    """
    with guarded():
        if cases.schema:
            print_schema()
            return
        if name is None:
            fail("there is no specialist to run; name one, e.g. specialists eval thoughts-analyzer")
        check_extra()
        config = config_for_run(project.root, each_run.model, trust=project.trust, quiet=results.quiet)
        if cases.new:
            write_cases(name, cases.cases, batch_runner(config, project, each_run, quiet=results.quiet))
            return
        from run_specialist.cli.eval_work import Comparing, EvalWork  # noqa: PLC0415 - fast `--help`

        def make_runner(model: str | None) -> "Runner":
            return batch_runner(config, project, replace(each_run, model=model), quiet=results.quiet)

        runner = make_runner(each_run.model)
        comparing = Comparing.begun(comparison, runner.registry.find(name), runner.store)
        plan = EvalRequest(name, cases, variants, each_run, comparing).plan(runner)
        code = EvalWork(plan, make_runner, cases, results, money, work, comparing).work(runner)
    raise typer.Exit(code)


def print_schema() -> None:
    """Print the JSON Schema of files with cases."""
    from run_specialist.cli.console import print_json  # noqa: PLC0415 - fast `--help`

    check_extra()
    from run_specialist.evals.cases import case_schema  # noqa: PLC0415 - heavy

    print_json(case_schema())


def write_cases(name: str, given: Path | None, runner: "Runner") -> None:
    """Write the cases of a specialist from its stored runs.

    given: the file to write; None = beside the specialist's file.
    Raises UsageError if the file exists, or if there are no runs.
    """
    from run_specialist.cli.console import print_line, relative, say  # noqa: PLC0415 - fast `--help`
    from run_specialist.evals.cases import new_cases, place_of_cases, write_new  # noqa: PLC0415 - fast `--help`
    from run_specialist.evals.reuse import stored_runs  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.project import project_path  # noqa: PLC0415 - fast `--help`

    file = runner.registry.find(name)
    path = given or place_of_cases(file)
    with stored_runs(runner.store) as known:
        write_new(path, new_cases(file.name, known.questions(file.name, project_path(runner.root))))
    print_line(str(relative(path)))
    say(f"read and edit the cases, then run: specialists eval {name}")


def check_extra() -> None:
    """Raise UsageError if the packages of the extra `eval` are missing; does not import them."""
    from run_specialist.errors import UsageError  # noqa: PLC0415 - fast `--help`
    from run_specialist.installation import adding  # noqa: PLC0415 - fast `--help`

    if find_spec("pydantic_evals") is None:
        raise UsageError(f"evals need the extra `eval`, run-specialist[eval]; {adding('eval')}")


@dataclass(frozen=True)
class EvalRequest:
    """The options that define an eval."""

    name: str
    cases: CaseOptions
    variants: VariantOptions
    each_run: EachRunOptions
    comparing: "Comparing"

    def plan(self, runner: "Runner") -> "EvalPlan":
        """Return the planned runs; raises UsageError."""
        from run_specialist.evals.cases import cases_of  # noqa: PLC0415 - fast `--help`
        from run_specialist.evals.plan import planned  # noqa: PLC0415 - fast `--help`
        from run_specialist.evals.running import check_judge  # noqa: PLC0415 - fast `--help`

        file = runner.registry.find(self.name)
        cases = self._chosen(cases_of(file, partial(check_judge, runner), self.cases.cases))
        return planned(runner, file.name, cases, self._subjects(runner), self.cases.repeat)

    def _subjects(self, runner: "Runner") -> "tuple[Subject, ...]":
        from run_specialist.evals.plan import subjects, varied  # noqa: PLC0415 - fast `--help`

        file = runner.registry.find(self.name)
        others = [runner.registry.find(str(path)) for path in self.variants.file or ()]
        settings = self.each_run.settings
        if self.each_run.model is not None:
            settings["model"] = self.each_run.model
        found = subjects([file, *others], settings, [varied(one) for one in self.variants.vary or ()])
        return self.comparing.subjects(runner, settings, found)

    def _chosen(self, cases: "EvalSet") -> "EvalSet":
        """Return the cases selected by `--case`; raises UsageError if a pattern matches none."""
        from run_specialist.errors import UsageError  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.problems import shown  # noqa: PLC0415 - fast `--help`

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
