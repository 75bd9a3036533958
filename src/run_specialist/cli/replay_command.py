"""The command `specialists replay RUN`."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from run_specialist.cli.console import fail, guarded, print_json
from run_specialist.cli.flags import Dir, Json, Overwrite, StoreUrl
from run_specialist.cli.stored_run_flags import AllProjects, complete_runs, find_run, open_store, project_filter
from run_specialist.cli.trust_flag import TrustFlag

if TYPE_CHECKING:
    from run_specialist.replay.cassette import Cassette
    from run_specialist.replay.rebuilt_job import SpecialistLocation, Tools
    from run_specialist.replay.replay import ReplayResult

DIFFERS = 1
"""Exit code of a replay with a difference."""
_SUFFIX = ".json"
_MODE = 0o644
"""File permissions of a cassette, which is meant to be committed to a repository."""


ReplayedRun = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id of the run, an unambiguous prefix, `last`: the newest of this project, or a cassette file.",
        autocompletion=complete_runs,
    ),
]
ResultsOfTools = Annotated[
    Literal["stored", "live"],
    typer.Option(
        "--tools",
        metavar="stored|live",
        help="Results of the tools: those of the run, or those of running the tools again.",
    ),
]
RootOfRun = Annotated[
    Path | None,
    typer.Option("--root", metavar="FOLDER", help="Folder that the file tools can read.  [default: that of the run]"),
]
SavedCassette = Annotated[
    Path | None,
    typer.Option(
        "--save",
        metavar="FILE",
        help="Write the run to a cassette file without credentials, if it replays the same.",
    ),
]


def replay(
    run: ReplayedRun,
    tools: ResultsOfTools = "stored",
    trust: TrustFlag = False,
    all_projects: AllProjects = False,
    dir_: Dir = None,
    root: RootOfRun = None,
    save: SavedCassette = None,
    force: Overwrite = False,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """Replay a run without network and key, and show the first difference.

    Asks the current version of the specialist's file the question of the run, with the same settings. The model's
    replies come from the stored run, and each request is compared with the one that the run sent. Exit code 1 if a
    request differs.
    """
    with guarded():
        from run_specialist.replay.rebuilt_job import SpecialistLocation  # noqa: PLC0415 - fast `--help`

        _check(root, save, overwrite=force)
        cassette, place = _recorded(run, SpecialistLocation(root, dir_, None, trust), store, all_projects=all_projects)
        done = _replayed(cassette, place, tools, save)
    if json_:
        print_json(done.as_json())
    else:
        from run_specialist.cli.replay_view import print_replay  # noqa: PLC0415 - fast `--help`

        print_replay(done, save)
    raise typer.Exit(DIFFERS if done.difference else 0)


def _check(root: Path | None, save: Path | None, *, overwrite: bool) -> None:
    """Exit if the folder of the file tools does not exist, or the cassette file does."""
    if root is not None and not root.is_dir():
        fail(f"--root: {root} is not a folder")
    if save is not None and save.exists() and not overwrite:
        fail(f"--save: {save} already exists; use --force to overwrite it")


def _recorded(
    run: str, place: "SpecialistLocation", store: str | None, *, all_projects: bool
) -> tuple["Cassette", "SpecialistLocation"]:
    """Return a recorded run and the folder of its specialist: by default the one where the run found it."""
    from run_specialist.replay.cassette_file import read_cassette  # noqa: PLC0415 - fast `--help`
    from run_specialist.replay.from_store import cassette_of  # noqa: PLC0415 - fast `--help`

    if run.endswith(_SUFFIX) or os.sep in run:
        return read_cassette(Path(run)), place
    with open_store(store) as opened:
        stored = opened.load(find_run(opened, run, project_filter(place.root, all_projects=all_projects)))
    root, file = Path(stored.frozen["root"]), Path(stored.frozen.get("file", ""))
    if place.root is None and root.is_dir():
        place = replace(place, root=root)
        if place.dir is None and file.is_file():
            place = replace(place, file=file)
    return cassette_of(stored), place


def _replayed(cassette: "Cassette", place: "SpecialistLocation", tools: "Tools", save: Path | None) -> "ReplayResult":
    """Replay a run; write it to a cassette file if nothing differs."""
    from run_specialist.api.shutdown import with_bounded_cleanup  # noqa: PLC0415 - fast `--help`
    from run_specialist.replay.cassette_lines import cassette_text, fit_for_file  # noqa: PLC0415 - fast `--help`
    from run_specialist.replay.replay import replay as replayed  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.project import project_root  # noqa: PLC0415 - fast `--help`

    if save is not None:
        cassette = fit_for_file(cassette, place.root or project_root(Path.cwd()))
    done = asyncio.run(with_bounded_cleanup(replayed(cassette, place, tools)))
    if save is not None and done.difference is None:
        _write(save, cassette_text(cassette, done.bodies))
    return done


def _write(path: Path, text: str) -> None:
    from run_specialist.cli.temporary_file import temporary_file  # noqa: PLC0415 - only needed to save
    from run_specialist.specialist.project import result_path  # noqa: PLC0415 - as above

    try:
        target = result_path(path)
        temporary_file(target.parent, text.encode(), _MODE).replace(target)
    except OSError as error:
        fail(f"--save: {path} cannot be written: {error.strerror or error}")
