"""The command `specialists`: manage specialist files and stored runs."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from run_specialist.cli import (
    fleet_command,
    history,
    mcp,
    replay_command,
    report_command,
    resume,
    schema_command,
    show_config,
    show_specialist,
    tuning,
    undo_command,
    worker_command,
)
from run_specialist.cli.batch import batches_command, map_command
from run_specialist.cli.cannot_work import BLOCKED, print_reasons, unavailable
from run_specialist.cli.command_list import CommandList
from run_specialist.cli.console import as_program, fail, guarded, print_json, print_line, say
from run_specialist.cli.evals import eval_command
from run_specialist.cli.flags import (
    Dir,
    Json,
    Overwrite,
    ProjectRoot,
    SpecialistName,
    Strict,
    setting,
    takes,
)
from run_specialist.cli.from_config import configured_project, registry_in
from run_specialist.cli.option_groups import GroupedCommand
from run_specialist.cli.printed_files import one_line, print_problems, project_folder, relative
from run_specialist.cli.query_words import WordsCommand
from run_specialist.cli.table import print_table
from run_specialist.cli.version_flag import VersionFlag

if TYPE_CHECKING:
    from run_specialist.specialist.loader import SpecialistFile

app = typer.Typer(
    cls=CommandList,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Manage specialists, which are Markdown files with a prompt and limits, and their stored runs.",
)

FILES = "Specialist files"
"""Heading of the commands for files in `--help`."""
_STATUSES = {"ok": "ok", "warning": "with warnings", "error": "with errors"}


@app.callback()
def options(version: VersionFlag = False) -> None:
    """Options that need no command."""


@app.command("list", rich_help_panel=FILES)
def list_(dir_: Dir = None, root: ProjectRoot = None, json_: Json = False) -> None:
    """List specialists and the problems in their files.

    A specialist is blocked if it cannot work here; a line below the table says why.
    """
    with guarded():
        project, meant = project_folder(root), root is not None
        configured = configured_project(project, dir_, meant=meant)
        registry = configured.registry
        files = registry.files()
        reasons = unavailable(files, project, configured.defaults.model)
        if json_:
            print_json({"specialists": [file.as_json() | {"unavailable": reasons.get(file.path)} for file in files]})
            return
        if not files:
            fail(f"no specialists in {', '.join(str(relative(place.path)) for place in registry.places)}", 0)
        _print_listing(files, reasons)


@app.command(rich_help_panel=FILES)
def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files or folders.  [default: the specialists of the project]"),
    ] = None,
    dir_: Dir = None,
    root: ProjectRoot = None,
    strict: Strict = None,
    json_: Json = False,
) -> None:
    """Check specialist files for problems; exit with code 2 on errors."""
    with guarded():
        from run_specialist.spawning.prompt_texts import with_skills_checked  # noqa: PLC0415 - fast `--help`
        from run_specialist.spawning.trust import Trust  # noqa: PLC0415 - fast `--help`
        from run_specialist.spawning.trust_notices import with_trust_noted  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.project import SearchFolder, places, project_places  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.registry import Registry  # noqa: PLC0415 - fast `--help`

        if missing := [str(path) for path in paths or () if not os.path.lexists(path)]:
            fail(f"no such file: {', '.join(missing)}")
        from run_specialist.config.config import read_config  # noqa: PLC0415 - fast `--help`

        project, meant = project_folder(root), root is not None
        config = read_config(project, meant=meant)
        dir_ = dir_ or config.get("dir")
        named = [SearchFolder.at(path, project) for path in paths or ()]
        checked = named or project_places(project, dir_, meant=meant)
        files = with_skills_checked(Registry(checked, places(project, dir_, meant=meant)).files(), project)
        files = with_trust_noted(files, project, Trust())
        if config.get("strict") if strict is None else strict:
            files = [file.strict() for file in files]
        if json_:
            print_json({"files": [file.as_json() for file in files]})
        else:
            for file in files:
                print_problems(file.problems)
            print_line(_summary(files))
    raise typer.Exit(2 if any(file.status == "error" for file in files) else 0)


@app.command(rich_help_panel=FILES)
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lowercase letters, digits and hyphens.")],
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="When a parent agent should use it.")] = None,
    tools: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Tools, comma-separated.  [default: all read-only tools]")
    ] = None,
    paths: Annotated[
        str | None, typer.Option(metavar="PATHS", help="Folders that the file tools can read, comma-separated.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="sonnet, opus, haiku, a full id, or inherit.")
    ] = None,
    tool_calls_limit: Annotated[
        str | None,
        typer.Option(
            metavar="N|none",
            callback=takes("tool_calls_limit"),
            help="Maximum number of tool calls in a run.  [default: 30]",
        ),
    ] = None,
    dir_: Annotated[
        Path | None, typer.Option("--dir", metavar="FOLDER", help="Output folder.  [default: specialists/]")
    ] = None,
    root: ProjectRoot = None,
    force: Overwrite = False,
) -> None:
    """Create a specialist file from a template."""
    with guarded():
        from run_specialist.cli.new import create, next_step  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.project import SearchFolder  # noqa: PLC0415 - fast `--help`

        project = project_folder(root)
        folder = SearchFolder.at(dir_, project) if dir_ else SearchFolder(project / "specialists", project)
        limit = None if tool_calls_limit is None else setting(tool_calls_limit)
        given = {"description": description, "tools": tools, "paths": paths, "model": model, "tool_calls_limit": limit}
        path = create(folder, name, given, project, overwrite=force)
        print_line(str(relative(path)))
        say(next_step(name, relative(path)))


@app.command(rich_help_panel=FILES)
def edit(
    name: SpecialistName,
    copy: Annotated[
        bool | None,
        typer.Option("--copy", help="Edit a copy in the project, if the file must not be changed.  [default: ask]"),
    ] = None,
    dir_: Dir = None,
    root: ProjectRoot = None,
) -> None:
    """Open a specialist file in the editor, then check it."""
    with guarded():
        from run_specialist.cli.edit import edit_specialist  # noqa: PLC0415 - fast `--help`

        project = project_folder(root)
        file = registry_in(project, dir_, meant=root is not None).find(name)
        path = edit_specialist(file, project, copy=copy)
    check([path], dir_, root)


_SECTIONS = {
    FILES: (show_specialist.show, schema_command.schema, show_config.config),
    "Stored runs": (
        history.runs,
        history.transcript,
        resume.resume,
        undo_command.undo,
        replay_command.replay,
        report_command.report,
        tuning.tune,
    ),
    "Many questions": (map_command.map_, batches_command.batches, eval_command.eval_),
    "Several machines": (worker_command.worker,),
    "Other programs": (mcp.mcp,),
}
_CLASSES: Mapping[Callable[..., None], type[TyperCommand]] = {
    resume.resume: WordsCommand,
    map_command.map_: GroupedCommand,
    eval_command.eval_: GroupedCommand,
}
for heading, commands in _SECTIONS.items():
    for command in commands:
        name = command.__name__.removesuffix("_")
        app.command(name, cls=_CLASSES.get(command), rich_help_panel=heading)(command)
app.add_typer(fleet_command.app, name="fleet", rich_help_panel="Several machines")


def _print_listing(files: Sequence["SpecialistFile"], reasons: Mapping[Path, str]) -> None:
    from run_specialist.specialist.dialects import OWN  # noqa: PLC0415 - fast `--help`

    # The column is not needed if all files have the format of this program.
    foreign = any(file.dialect != OWN.name for file in files)
    rows = [
        (
            one_line(file.name),
            BLOCKED if file.path in reasons else file.status,
            *(("" if file.dialect == OWN.name else file.dialect,) if foreign else ()),
            "" if file.tool_calls_limit is None else str(file.tool_calls_limit),
            one_line(file.model or ""),
            one_line(file.description),
        )
        for file in files
    ]
    print_table(("NAME", "STATUS", *(("DIALECT",) if foreign else ()), "CALLS", "MODEL", "DESCRIPTION"), rows)
    print_reasons(files, reasons)
    problems = [problem for file in files for problem in file.problems if problem.level != "notice"]
    if problems:
        print_line("")
        print_problems(problems)


def _summary(files: Sequence["SpecialistFile"]) -> str:
    counts = {text: sum(file.status == status for file in files) for status, text in _STATUSES.items()}
    by_status = ", ".join(f"{count} {text}" for text, count in counts.items() if count)
    return f"{len(files)} file{'' if len(files) == 1 else 's'}{': ' if by_status else ''}{by_status}"


def main() -> None:
    """Run the command."""
    with as_program():
        app()
