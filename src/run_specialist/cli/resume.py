"""The command `specialists resume RUN`."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from run_specialist.cli.console import fail, guarded, say
from run_specialist.cli.flags import OnLostFlag, RequestsAtOnce, RequireModel, StoreUrl, settings
from run_specialist.cli.forked import ForkAt, ForkLanding, ForkPreset, forked
from run_specialist.cli.live_run import PrepareRun, answer
from run_specialist.cli.option_groups import flattened
from run_specialist.cli.output_options import OutputOptions
from run_specialist.cli.query_words import MoreWords, more_from
from run_specialist.cli.setting_options import LimitOptions
from run_specialist.cli.stored_run_flags import AllProjects, RunId, find_run, open_store, project_filter
from run_specialist.cli.trust_flag import TrustFlag

DespiteChanges = Annotated[
    bool, typer.Option("--force", help="Resume even if the file has changed, tools are missing, or the model differs.")
]

ResumeRoot = Annotated[
    Path | None,
    typer.Option("--root", metavar="FOLDER", help="Folder that the run may read.  [default: the project root]"),
]


@flattened
def resume(
    run: RunId,
    query: MoreWords = None,
    *,
    limits: LimitOptions,
    requests_at_once: RequestsAtOnce = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Another model.  [default: the model of the run]")
    ] = None,
    at: ForkAt = None,
    landing: ForkLanding = None,
    preset: ForkPreset = None,
    require_model: RequireModel = False,
    force: DespiteChanges = False,
    trust: TrustFlag = False,
    all_projects: AllProjects = False,
    root: ResumeRoot = None,
    store: StoreUrl = None,
    on_lost: OnLostFlag = "go_on",
    output: OutputOptions,
) -> None:
    """Resume a run after a limit, a crash or a failure, or fork it.

    Limits are new totals that include the usage so far. The run keeps its system prompt, tools and messages, so that
    the prompt cache stays valid; a note tells the model what has changed. With --at the run is not changed: a new run
    begins with its first turns, and continues with another model, preset, landing or limit.
    """
    forking = settings(landing=landing, preset=preset)
    if at is None and forking:
        fail(f"--{next(iter(forking))} needs --at N: a resumed run keeps it")
    given, shown = limits.settings, output.chosen()
    with guarded():
        question = more_from(query)
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`

        run = _without_last(run, store, root, all_projects=all_projects)
        runner = Runner(
            root=root,
            model=model,
            store=store,
            on_lost=on_lost,
            trust=trust,
            require_model=require_model or None,
            requests_at_once=requests_at_once,
        )
        if at is None:
            prepare: PrepareRun = partial(runner.resume, run, question, force=force, **given)
        else:
            prepare = forked(partial(runner.fork, run, question, at=at, force=force, **given, **forking), shown)
        if root is not None and not shown.quiet:
            say(f"files are read in {runner.root}")
        outcome = answer(runner, prepare, shown)
    raise typer.Exit(outcome.exit_code)


def _without_last(run: str, store: str | None, root: Path | None, *, all_projects: bool) -> str:
    """Return the id of the newest run of the project for `last`, and any other text as it is."""
    from run_specialist.store.reader import LAST  # noqa: PLC0415 - fast `--help`

    if run != LAST:
        return run
    with open_store(store) as opened:
        return find_run(opened, run, project_filter(root, all_projects=all_projects))
