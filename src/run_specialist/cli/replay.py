"""The command `specialists replay RUN`: prints one line, or the first difference as a colored diff."""

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.api.event_loop import with_bounded_cleanup
from run_specialist.budget import counted
from run_specialist.cli import console
from run_specialist.cli.flags import Dir, Json, Overwrite, StoreUrl, TrustFlag
from run_specialist.cli.runs import AllProjects, complete_runs, open_store, project_filter
from run_specialist.errors import UsageError, errors_as

if TYPE_CHECKING:
    from run_specialist.replay.replay import ReplayResult


def _print_replay(done: "ReplayResult", saved: Path | None) -> None:
    cassette, found = done.cassette, done.difference
    requests, calls = len(cassette.requests), len(cassette.calls)
    if found is None:
        sizes = f"{counted(requests, 'request')}, {counted(calls, 'tool call')}"
        missing = f"; definitions not compared: {', '.join(done.not_compared)}" if done.not_compared else ""
        where = f"; saved to {saved}" if saved else ""
        console.print_wrapped(f"{cassette.source} replays the same: {sizes}, {cassette.outcome.status}{missing}{where}")
        return
    if saved:
        console.say(f"nothing was saved to {saved}, because the run does not replay the same")
    place = "at the end" if found.request is None else f"at request {found.request} of {requests}"
    console.print_wrapped(f"{cassette.source} differs {place}: {found.part}")
    console.print_diff("\n".join(found.as_json()["diff"]))
    for hint in found.hints:
        console.print_wrapped(hint)


_RUN = "Id of the run, an unambiguous prefix, `last`: the newest of this project, or a cassette file."
_ROOT = "Folder that the file tools can read.  [default: that of the run]"
_SAVE = "Write the run to a cassette file without credentials, if it replays the same."


def replay(
    run: Annotated[str, typer.Argument(metavar="RUN", help=_RUN, autocompletion=complete_runs)],
    trust: TrustFlag = False,
    all_projects: AllProjects = False,
    dir_: Dir = None,
    root: Annotated[Path | None, typer.Option(metavar="FOLDER", help=_ROOT)] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help=_SAVE)] = None,
    force: Overwrite = False,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """Replay a run without network and key, and show the first difference.

    Asks the current version of the specialist's file the question of the run, with the same settings. The model's
    replies come from the stored run, and each request is compared with the one that the run sent. Exit code 1 if a
    request differs.
    """
    with console.guarded():
        from run_specialist.replay import cassette as files  # noqa: PLC0415 - fast `--help`
        from run_specialist.replay.replay import replay as replay_run  # noqa: PLC0415 - fast `--help`

        project = console.project_folder(root)
        if save is not None and save.exists() and not force:
            console.fail(f"--save: {save} already exists; use --force to overwrite it")
        file = None
        if run.endswith(".json") or os.sep in run:
            recorded = files.read_cassette(Path(run))
        else:
            with open_store(store) as opened:
                stored = opened.load(opened.find(run, project_filter(root, all_projects=all_projects)).run_id)
            recorded = files.cassette_of(stored)
            if root is None and Path(stored.frozen["root"]).is_dir():
                # By default the specialist's file is the one that the run found.
                root, found = Path(stored.frozen["root"]), Path(stored.frozen.get("file", ""))
                file = found if dir_ is None and found.is_file() else None
        if save is not None:
            text = recorded.text(root or project)
            recorded = files.parsed(text, recorded.source)
        done = asyncio.run(with_bounded_cleanup(replay_run(recorded, root, dir=dir_, file=file, trust=trust)))
        if save is not None and done.difference is None:
            with errors_as(UsageError, f"--save: {save} cannot be written", OSError):
                console.write_file(save, text.encode())
    if json_:
        console.print_json(done.as_json())
    else:
        _print_replay(done, save)
    raise typer.Exit(1 if done.difference else 0)
