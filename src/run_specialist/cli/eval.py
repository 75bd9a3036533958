"""The command `specialists eval`: read the case files, plan the runs, confirm the cost."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from run_specialist.cli import batch_options, flags
from run_specialist.cli.console import fail, guarded, print_json, print_line, relative, require_extra, say, write_file
from run_specialist.cli.help import everyday, grouped

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner


@everyday(
    "new case repeat fresh vary baseline page min_score dry_run cost_limit model json_",
    "specialists eval codebase-analyst --new",
    "specialists eval codebase-analyst --baseline HEAD --vary model=haiku,sonnet",
)
@grouped
def eval_(
    name: flags.AnySpecialist = None,
    *,
    options: batch_options.EvalOptions,
    each_run: batch_options.EachRunOptions,
    project: flags.ProjectOptions,
) -> None:
    """Run a specialist on a set of questions, and check its answers.

    Repeat the same command to run only what has changed: a stored run with the same question, file, settings and model
    is used again, unless a file that it read has changed. Ctrl-C stops after the current turns, a second Ctrl-C stops
    immediately.

    Exit codes: 0 every run was made, 1 a variant scores below --min-score or is certainly worse than the baseline, 2
    wrong flag or file, 3 the model's endpoint ended the eval, 4 a run has no answer, 130 interrupted.
    """
    with guarded():
        if name is None and not options.schema:
            fail("there is no specialist to run; name one, e.g. specialists eval codebase-analyst")
        require_extra("eval", "evals need", "pydantic_evals")
        if options.schema or name is None:
            from run_specialist.evals.cases import case_schema  # noqa: PLC0415 - heavy

            print_json(case_schema())
            return
        config = flags.config_for_run(project.root, each_run.model, trust=project.trust, quiet=options.quiet)
        if options.new:
            write_cases(name, options.cases, batch_options.batch_runner(config, project, each_run, quiet=options.quiet))
            return
        from run_specialist.cli.eval_work import EvalWork  # noqa: PLC0415 - fast `--help`

        code = EvalWork(name, config, project, options, each_run).work()
    raise typer.Exit(code)


def write_cases(name: str, given: Path | None, runner: "Runner") -> None:
    """Write the cases of a specialist from its stored runs; exit if the file exists, or if there are no runs."""
    from run_specialist.cli.runs import existing_store  # noqa: PLC0415 - fast `--help`
    from run_specialist.evals import cases  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.loader import stem  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.project import is_packaged, project_path  # noqa: PLC0415 - fast `--help`
    from run_specialist.tools.base import few  # noqa: PLC0415 - fast `--help`

    file = runner.registry.find(name)
    beside = file.path.with_name(f"{stem(file.path)}{cases.ENDINGS[0]}")
    path = given or (Path(beside.name) if is_packaged(beside) else beside)
    with existing_store(runner.store) as store:
        past = [] if store is None else store.past(file.name, project_path(runner.root))
        # Without the runs of judges.
        asked = ((store.find(one.run_id), one.outcome) for one in past if store)
        questions = ((run.question, ended) for run, ended in asked if run.parent_id is None)
        text, doubtful = cases.new_cases(file.name, questions)
    try:
        write_file(path, text.encode(), overwrite=False)
    except FileExistsError:
        fail(f"{path}:1:1: exists already, and was left unchanged; name another file with --cases")
    print_line(str(relative(path)))
    for why, names in doubtful.items():
        say(f"checks made from a doubtful answer ({why}): {few(names, 4)}")
    elsewhere = "" if path == beside else f" --cases {relative(path)}"
    say(f"read and edit the cases, then run: specialists eval {name}{elsewhere}")
