"""The command `specialists eval NAME`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.batch.shared_options import EachRunOptions, ProjectOptions, batch_runner
from run_specialist.cli.console import complete_names, fail, guarded
from run_specialist.cli.evals.comparison_options import ComparisonOptions
from run_specialist.cli.evals.eval_options import (
    CaseOptions,
    EvalMoneyOptions,
    ResultOptions,
    VariantOptions,
    WorkOptions,
)
from run_specialist.cli.from_config import config_for_run
from run_specialist.cli.option_groups import grouped

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner

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
            from run_specialist.cli.evals.eval_files import print_schema  # noqa: PLC0415 - fast `--help`

            print_schema()
            return
        if name is None:
            fail("there is no specialist to run; name one, e.g. specialists eval thoughts-analyzer")
        if not cases.new:
            from run_specialist.cli.evals.extra import check_extra  # noqa: PLC0415 - fast `--help`

            check_extra()
        config = config_for_run(project.root, each_run.model, trust=project.trust, quiet=results.quiet)
        if cases.new:
            from run_specialist.cli.evals.eval_files import write_cases  # noqa: PLC0415 - needs no extra, as above

            write_cases(name, cases.cases, batch_runner(config, project, each_run, quiet=results.quiet))
            return
        from run_specialist.cli.evals.comparing import Comparing  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.evals.eval_planning import EvalRequest  # noqa: PLC0415 - fast `--help`
        from run_specialist.cli.evals.eval_work import EvalWork  # noqa: PLC0415 - as above

        def make_runner(model: str | None) -> "Runner":
            return batch_runner(config, project, replace(each_run, model=model), quiet=results.quiet)

        runner = make_runner(each_run.model)
        comparing = Comparing.begun(comparison, runner.registry.find(name), runner.store)
        plan = EvalRequest(name, cases, variants, each_run, comparing).plan(runner)
        code = EvalWork(plan, make_runner, cases, results, money, work, comparing).work(runner)
    raise typer.Exit(code)
