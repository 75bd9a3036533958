"""The commands `specialists resume` and `undo`, and forks of stored runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from run_specialist import budget
from run_specialist.budget import Kind, Preset, Style
from run_specialist.cli import flags
from run_specialist.cli.ask import MoreWords, answer, more_from
from run_specialist.cli.console import fail, guarded, print_diff, print_json, print_line, say
from run_specialist.cli.help import grouped
from run_specialist.cli.runs import AllProjects, RunId, RunsRoot, open_store, project_filter
from run_specialist.store.location import LAST

if TYPE_CHECKING:
    from run_specialist.loop.run import Run
    from run_specialist.record.journal import FileChanging
    from run_specialist.store.reader import StoredChange
    from run_specialist.tools.edit import UndoneFile


ForkAt = Annotated[
    int | None,
    typer.Option("--at", metavar="N", min=0, help="Fork: a new run that begins with the first N turns of this one."),
]
ForkLanding = Annotated[
    str | None,
    flags.key_option("HOW", f"With --at: another landing: {', '.join(get_args(Style))}.", lambda: get_args(Style)),
]
ForkPreset = Annotated[
    str | None,
    flags.key_option("NAME", f"With --at: another preset: {', '.join(get_args(Preset))}.", lambda: get_args(Preset)),
]


DespiteChanges = Annotated[
    bool, typer.Option("--force", help="Resume even if the file has changed, tools are missing, or the model differs.")
]


@grouped
def resume(
    run: RunId,
    query: MoreWords = None,
    *,
    limits: flags.LimitOptions,
    requests_at_once: flags.RequestsAtOnce = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Another model.  [default: the model of the run]")
    ] = None,
    at: ForkAt = None,
    landing: ForkLanding = None,
    preset: ForkPreset = None,
    require_model: flags.RequireModel = False,
    force: DespiteChanges = False,
    trust: flags.TrustFlag = False,
    all_projects: AllProjects = False,
    root: flags.FilesRoot = None,
    store: flags.StoreUrl = None,
    on_lost: flags.OnLostFlag = "go_on",
    output: flags.OutputOptions,
) -> None:
    """Resume a run after a limit, a crash or a failure, or fork it.

    Limits are new totals that include the usage so far. The run keeps its system prompt, tools and messages, so that
    the prompt cache stays valid; a note tells the model what has changed. With --at the run is not changed: a new run
    begins with its first turns, and continues with another model, preset, landing or limit.
    """
    forking = flags.settings(landing=landing, preset=preset)
    if at is None and forking:
        fail(f"--{next(iter(forking))} needs --at N: a resumed run keeps it")
    given = limits.settings
    output.check()
    with guarded():
        question = more_from(query)
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`

        if run == LAST:
            with open_store(store) as opened:
                run = opened.find(run, project_filter(root, all_projects=all_projects)).run_id
        runner = Runner(
            root=root,
            model=model,
            store=store,
            on_lost=on_lost,
            trust=trust,
            require_model=require_model or None,
            requests_at_once=requests_at_once,
        )

        async def prepare(**watched: Any) -> "Run":  # noqa: ANN401 - `listener` and `watch`
            if at is None:
                return await runner.resume(run, question, force=force, **given, **watched)
            fork = await runner.fork(run, question, at=at, force=force, **given, **forking, **watched)
            source = fork.forked_from
            if source and source.cold_tokens is not None and not output.quiet:
                price = "unknown" if source.cold_cost is None else f"about {budget.dollars(source.cold_cost)}"
                tokens = budget.amount(Kind.TOKENS, source.cold_tokens)
                cache = f"{fork.model} has no prompt cache of {source.run_id}"
                say(f"{cache}: it reads about {tokens} anew, price {price}", dim=True)
            return fork

        if root is not None and not output.quiet:
            say(f"files are read in {runner.root}")
        outcome = answer(runner, prepare, output)
    raise typer.Exit(outcome.exit_code)


LEFT = 4
"""Exit code if a file was not reverted."""
# Results that are not shown by their own name.
_RESULTS = {"unchanged": "as before already", "partly": "partly restored", "left": "left alone"}


def undo(
    run: RunId,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False,
    all_projects: AllProjects = False,
    root: RunsRoot = None,
    store: flags.StoreUrl = None,
    json_: flags.Json = False,
) -> None:
    """Undo the file changes of a run and its child runs.

    Reverts only files that still have the content that the run left. Others are listed, and the exit code is 4.
    """
    with guarded(), open_store(store) as opened:
        project = project_filter(root, all_projects=all_projects)
        listed = opened.find(run, project)
        run_id = listed.run_id
        if listed.status == "running":
            fail(f"{run_id} is still running; stop it first")
        changes, killed = opened.changes(run_id), []
        for each in opened.with_descendants([listed]):
            if (of_command := _left_by_killed_command(each.run_id, dry_run)) is not None:
                changes += of_command
                killed.append(each.run_id)
        if elsewhere := [one.root for one in changes if project and not Path(one.root).is_relative_to(project)]:
            fail(f"{run_id} has changed files in {elsewhere[0]}, outside this project; add --all-projects to undo that")
    with guarded():
        from run_specialist.tools.edit import undo as undo_changes  # noqa: PLC0415 - fast `--help`

        by_root: dict[Path, list[FileChanging]] = {}
        for change in changes:
            by_root.setdefault(Path(change.root), []).append(change.change)
        done = []
        for where, of_root in by_root.items():
            if not where.is_dir():
                fail(f"{where}, where the run worked, is not a folder any more")
            done += [(where, one) for one in undo_changes(where, of_root, dry_run=dry_run)]
        left = [one for _, one in done if one.result in {"left", "partly"}]
        if killed and not dry_run and not left:
            from run_specialist.tools.file_checkpoint import forget  # noqa: PLC0415 - fast `--help`

            for killed_run in killed:
                forget(killed_run)
        if json_:
            files = []
            for where, one in done:
                about = {"path": one.path, "result": one.result, "reason": one.reason, "diff": one.diff.text}
                files.append({"root": str(where), **about})
            print_json({"run_id": run_id, "dry_run": dry_run, "files": files})
        else:
            _print(run_id, done, dry_run=dry_run)
    raise typer.Exit(LEFT if left else 0)


def _left_by_killed_command(run_id: str, dry_run: bool) -> "list[StoredChange] | None":
    """Return what a command has changed during which the run was killed; None if there was none."""
    from run_specialist.store.reader import StoredChange  # noqa: PLC0415 - fast `--help`
    from run_specialist.tools.file_checkpoint import recovered  # noqa: PLC0415 - fast `--help`

    found = recovered(run_id, dry_run=dry_run)
    if found is None:
        return None
    if found.files:
        say(f"{run_id} was killed during a command; later changes in its writable folders cannot be told from its own")
    return [StoredChange(run_id, found.root, record) for record, _ in found.files]


def _print(run_id: str, done: "list[tuple[Path, UndoneFile]]", *, dry_run: bool) -> None:
    if not done:
        say(f"{run_id} has changed no file")
    for _, one in done:
        would = "would be " if dry_run and one.result in {"restored", "deleted", "partly"} else ""
        counts = f" ({one.diff.counts} lines)" if one.diff.added or one.diff.removed else ""
        reason = f": {one.reason}" if one.reason else ""
        print_line(f"{would}{_RESULTS.get(one.result, one.result)}  {one.path}{counts}{reason}")
        if dry_run and one.diff.text:
            print_diff(one.diff.text)
