"""The command `specialists replay RUN`: prints one line, or the first difference as a colored diff."""

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import (
    DIFF_COLOURS,
    fail,
    guarded,
    has_colours,
    is_terminal,
    print_json,
    print_line,
    print_styled,
    printable,
    say,
    wrapped,
)
from run_specialist.cli.flags import Dir, Json, Overwrite, StoreUrl, TrustFlag
from run_specialist.cli.runs import AllProjects, complete_runs, find_run, open_store, project_filter

if TYPE_CHECKING:
    from run_specialist.replay.cassette import Cassette
    from run_specialist.replay.replay import ReplayResult, SpecialistLocation


def print_replay(done: "ReplayResult", saved: Path | None) -> None:
    """Print the result.

    saved: the file that a replay without a difference was written to.
    """
    if done.difference is None:
        cassette = done.cassette
        sizes = f"{_counted(len(cassette.requests), 'request')}, {_counted(len(cassette.calls), 'tool call')}"
        missing = f"; definitions not compared: {', '.join(done.not_compared)}" if done.not_compared else ""
        where = f"; saved to {saved}" if saved else ""
        _print_text(f"{cassette.source} replays the same: {sizes}, {cassette.outcome.status}{missing}{where}")
        return
    if saved:
        say(f"nothing was saved to {saved}, because the run does not replay the same")
    found, requests = done.difference, len(done.cassette.requests)
    place = "at the end" if found.request is None else f"at request {found.request} of {requests}"
    _print_text(f"{done.cassette.source} differs {place}: {found.part}")
    for line in found.shown:
        if has_colours():
            print_styled(typer.style(printable(line), fg=DIFF_COLOURS.get(line[:1])))
        else:
            print_line(line)
    for hint in found.hints:
        _print_text(hint)


def _print_text(text: str) -> None:
    """Print a text, wrapped at words on a terminal."""
    lines = wrapped(printable(text), shutil.get_terminal_size().columns) if is_terminal() else [text]
    print_line("\n".join(lines))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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
        from run_specialist.replay.replay import SpecialistLocation  # noqa: PLC0415 - fast `--help`

        if root is not None and not root.is_dir():
            fail(f"--root: {root} is not a folder")
        if save is not None and save.exists() and not force:
            fail(f"--save: {save} already exists; use --force to overwrite it")
        cassette, place = _recorded(run, SpecialistLocation(root, dir_, None, trust), store, all_projects=all_projects)
        done = _replayed(cassette, place, save)
    if json_:
        print_json(done.as_json())
    else:
        print_replay(done, save)
    raise typer.Exit(DIFFERS if done.difference else 0)


def _recorded(
    run: str, place: "SpecialistLocation", store: str | None, *, all_projects: bool
) -> tuple["Cassette", "SpecialistLocation"]:
    """Return a recorded run and the folder of its specialist: by default the one where the run found it."""
    from run_specialist.replay.cassette import cassette_of, read_cassette  # noqa: PLC0415 - fast `--help`

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


def _replayed(cassette: "Cassette", place: "SpecialistLocation", save: Path | None) -> "ReplayResult":
    """Replay a run; write it to a cassette file if nothing differs."""
    from run_specialist.api.event_loop import with_bounded_cleanup  # noqa: PLC0415 - fast `--help`
    from run_specialist.replay.cassette import cassette_text, fit_for_file  # noqa: PLC0415 - fast `--help`
    from run_specialist.replay.replay import replay as replayed  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.project import project_root  # noqa: PLC0415 - fast `--help`

    if save is not None:
        cassette = fit_for_file(cassette, place.root or project_root(Path.cwd()))
    done = asyncio.run(with_bounded_cleanup(replayed(cassette, place)))
    if save is not None and done.difference is None:
        _write(save, cassette_text(cassette))
    return done


def _write(path: Path, text: str) -> None:
    from run_specialist.cli.console import temporary_file  # noqa: PLC0415 - only needed to save
    from run_specialist.specialist.project import result_path  # noqa: PLC0415 - only needed to save

    try:
        target = result_path(path)
        temporary_file(target.parent, text.encode(), _MODE).replace(target)
    except OSError as error:
        fail(f"--save: {path} cannot be written: {error.strerror or error}")
