"""The command `specialists`: manage specialist files and stored runs."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.main import get_group

from run_specialist.budget import counted
from run_specialist.cli import console, flags
from run_specialist.cli.help import CommandList, GroupedCommand, VersionFlag, everyday
from run_specialist.cli.tables import print_table
from run_specialist.errors import UsageError, errors_as, with_flags
from run_specialist.specialist.problems import shown

if TYPE_CHECKING:
    from typer._click import Command, Context

    from run_specialist.specialist.loader import SpecialistFile


_FILES, _RUNS, _MANY = "Specialist files", "Stored runs", "Many questions"
_SEVERAL, _OTHERS = "Several machines", "Other programs"
COMMANDS: Mapping[str, tuple[str, str]] = {
    "list": (_FILES, "manage"),
    "check": (_FILES, "manage"),
    "new": (_FILES, "manage"),
    "edit": (_FILES, "manage"),
    "show": (_FILES, "show"),
    "schema": (_FILES, "manage"),
    "config": (_FILES, "show"),
    "runs": (_RUNS, "runs"),
    "transcript": (_RUNS, "runs"),
    "resume": (_RUNS, "resume"),
    "undo": (_RUNS, "resume"),
    "replay": (_RUNS, "replay"),
    "report": (_RUNS, "report"),
    "tune": (_RUNS, "tune"),
    "map": (_MANY, "map"),
    "batches": (_MANY, "batches"),
    "eval": (_MANY, "eval"),
    "worker": (_SEVERAL, "fleet"),
    "mcp": (_OTHERS, "mcp"),
    "install": (_OTHERS, "install"),
    "fleet": (_SEVERAL, "fleet"),
}
"""Heading and module of each command; it is imported when it is called or listed, so that the others start fast.

The function has the name of the command, with an underscore if Python has a word of that name; `fleet` is a group.
"""
# Commands that people look for here.
_ASKING = ("ask", "chat", "run")


class _Commands(CommandList):
    """All commands, imported when they are called or listed."""

    def list_commands(self, ctx: "Context") -> list[str]:  # noqa: ARG002 - as its base class
        """Return the names of all commands, in the order of `--help-all`."""
        return [*COMMANDS]

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        """Return the command with this name; for an unknown one, all are imported, so that a similar name is found."""
        if cmd_name in _ASKING and not ctx.resilient_parsing:
            ctx.fail(f"No such command {cmd_name!r}; to ask a specialist: run-specialist NAME QUERY")
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name in self.commands:
                continue
            heading, where = COMMANDS[name]
            module = import_module(f"run_specialist.cli.{where}")
            found = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
            if name == "fleet":
                found.add_typer(module.app, name=name, rich_help_panel=heading)
            else:
                function = getattr(module, name, None) or getattr(module, f"{name}_")
                found.command(name, cls=GroupedCommand, rich_help_panel=heading)(function)
            self.commands.update(get_group(found).commands)
        return super().get_command(ctx, cmd_name)


app = typer.Typer(cls=_Commands, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True)
_STATUSES = {"ok": "ok", "warning": "with warnings", "error": "with errors"}


@app.callback()
@everyday(
    "list show new check eval runs resume report map mcp",
    "specialists new release-historian",
    'specialists resume last "Which one is the default, then?"',
)
def options(version: VersionFlag = False) -> None:
    """Manage specialists, which are Markdown files with a prompt and limits, and their stored runs."""


def list_(dir_: flags.Dir = None, root: flags.ProjectRoot = None, json_: flags.Json = False) -> None:
    """List specialists and the problems in their files.

    A specialist is blocked if it cannot work here; a line below the table says why.
    """
    with console.guarded():
        from run_specialist.cli.show import unavailable  # noqa: PLC0415 - fast `--help`

        project, meant = console.project_folder(root), root is not None
        registry, _, defaults = flags.configured_project(project, dir_, meant=meant)
        files = registry.files()
        reasons = unavailable(files, project, defaults.model)
        if json_:
            listed = [file.as_json() | {"unavailable": reasons.get(file.path)} for file in files]
            console.print_json({"specialists": listed})
            return
        if not files:
            searched = ", ".join(str(console.relative(place.path)) for place in registry.places)
            console.fail(f"no specialists in {searched}", 0)
        _print_listing(files, reasons)


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files, folders or names.  [default: the specialists of the project]"),
    ] = None,
    dir_: flags.Dir = None,
    root: flags.ProjectRoot = None,
    strict: flags.Strict = None,
    json_: flags.Json = False,
) -> None:
    """Check specialist files for problems; exit with code 2 on errors."""
    with console.guarded():
        from run_specialist.api.config_files import read_config  # noqa: PLC0415 - fast `--help`
        from run_specialist.spawning.availability import with_trust_noted  # noqa: PLC0415 - fast `--help`
        from run_specialist.spawning.prompt_texts import with_skills_checked  # noqa: PLC0415 - fast `--help`
        from run_specialist.spawning.trust import Trust  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.project import SearchFolder, places, project_places  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.registry import Registry  # noqa: PLC0415 - fast `--help`

        project, meant = console.project_folder(root), root is not None
        config = read_config(project, meant=meant)
        dir_ = dir_ or config.get("dir")
        known = places(project, dir_, meant=meant)
        found = [path if os.path.lexists(path) else Registry(known).find(str(path)).path for path in paths or ()]
        named = [SearchFolder.at(path, project) for path in found]
        checked = named or project_places(project, dir_, meant=meant)
        files = with_skills_checked(Registry(checked, known).files(), project)
        files = with_trust_noted(files, project, Trust())
        if config.get("strict") if strict is None else strict:
            files = [file.strict() for file in files]
        if json_:
            console.print_json({"files": [file.as_json() for file in files]})
        else:
            for file in files:
                console.print_problems(file.problems)
            counts = {text: sum(file.status == status for file in files) for status, text in _STATUSES.items()}
            by_status = ", ".join(f"{count} {text}" for text, count in counts.items() if count)
            levels = Counter(problem.level for file in files for problem in file.problems)
            by_level = ", ".join(counted(levels[one], one) for one in ("error", "warning", "notice") if levels[one])
            summary = f"{counted(len(files), 'file')}{': ' if by_status else ''}{by_status}"
            console.print_line(f"{summary} ({by_level})" if by_level else summary)
    raise typer.Exit(2 if any(file.status == "error" for file in files) else 0)


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
    tool_calls_limit: flags.ToolCallsLimit = None,
    source: Annotated[str | None, typer.Option("--from", metavar="SPECIALIST", help="Copy this specialist.")] = None,
    dir_: Annotated[
        Path | None, typer.Option("--dir", metavar="FOLDER", help="Output folder.  [default: specialists/]")
    ] = None,
    root: flags.ProjectRoot = None,
    force: flags.Overwrite = False,
) -> None:
    """Create a specialist file from a template or another specialist.

    On a terminal, it asks for missing values.
    """
    with console.guarded():
        from run_specialist.specialist.checks import PROBLEM  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.loader import check_new, load, write_new  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.project import SearchFolder  # noqa: PLC0415 - fast `--help`

        project = console.project_folder(root)
        folder = SearchFolder.at(dir_, project) if dir_ else SearchFolder(project / "specialists", project)
        check_new(folder.path, name, overwrite=force)
        limit = None if tool_calls_limit is None else flags.setting(tool_calls_limit)
        asked = {"description": description, "tools": tools, "paths": paths, "model": model, "tool_calls_limit": limit}
        given: dict[str, object] = {key: value for key, value in asked.items() if value is not None}
        copied = source and flags.configured_project(project, None, meant=root is not None)[0].find(source)
        if not copied and description is None and sys.stdin is not None and sys.stdin.isatty():
            given |= ask_for(name, given)
        if not copied:
            given.setdefault("tool_calls_limit", LIMIT)
        values = {key: given[key] for key in asked if key in given}
        new_file = write_new(folder.path, name, values, overwrite=force, project=folder.project, source=copied or None)
        path = console.relative(new_file)
        console.print_line(str(path))
        if any(PROBLEM in problem.text for problem in load(path).problems):
            console.say(f"next: replace the lines with TODO in this file; `specialists check {path}` lists them")
        else:
            console.say(f"next: edit the prompt (`specialists edit {name}`), then run: run-specialist {name} QUERY")


def edit(
    name: flags.SpecialistName,
    copy: Annotated[
        bool | None,
        typer.Option("--copy", help="Edit a copy in the project, if the file must not be changed.  [default: ask]"),
    ] = None,
    dir_: flags.Dir = None,
    root: flags.ProjectRoot = None,
) -> None:
    """Open a specialist file in the editor, then check it."""
    with console.guarded():
        project = console.project_folder(root)
        file = flags.configured_project(project, dir_, meant=root is not None)[0].find(name)
        path = edit_specialist(file, project, copy=copy)
    check([path], dir_, root)


SCHEMA = ".vscode/specialist.schema.json"
# The setting of VS Code that names the schema, and the files that it describes.
_SCHEMA_SETTING = {"yaml.schemas": {f"./{SCHEMA}": ["specialists/*.md", ".claude/agents/*.md"]}}
# The draft that all editors know; the schema uses nothing that later drafts added, except the name `$defs`.
_DRAFT = "http://json-schema.org/draft-07/schema#"


def schema(
    install: Annotated[
        bool, typer.Option("--install", help="Write the schema into the project, and print the settings of VS Code.")
    ] = False,
    root: flags.ProjectRoot = None,
) -> None:
    """Print the JSON Schema of the front matter, or install it."""
    with console.guarded():
        from run_specialist.providers.models import ALIASES  # noqa: PLC0415 - fast `--help`
        from run_specialist.safety import safe_files  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.fields import json_schema  # noqa: PLC0415 - fast `--help`

        whole = json_schema(models=(*ALIASES, *ALIASES.values(), "inherit", "offline"))
        if not install:
            console.print_json(whole)
            return
        content = json.dumps({**whole, "$schema": _DRAFT}, ensure_ascii=False, indent=2) + "\n"
        with errors_as(UsageError, f"{SCHEMA} cannot be written", OSError):
            top, relative_path = safe_files.locate(console.project_folder(root) / SCHEMA, console.project_folder(root))
            path = top / relative_path
            path.parent.mkdir(parents=True, exist_ok=True)
            console.write_file(path, content.encode())
        console.print_line(f"{SCHEMA}  written\n\nAdd these lines to .vscode/settings.json:\n")
        console.print_line(json.dumps(_SCHEMA_SETTING, indent=2)[2:-2])


def _print_listing(files: Sequence["SpecialistFile"], reasons: Mapping[Path, str]) -> None:
    from run_specialist.spawning.availability import sentences  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.dialects import OWN  # noqa: PLC0415 - fast `--help`

    # The column is not needed if all files have the format of this program.
    foreign = any(file.dialect != OWN.name for file in files)
    rows = [
        (
            console.one_line(file.name),
            "blocked" if file.path in reasons else file.status,
            *(("" if file.dialect == OWN.name else file.dialect,) if foreign else ()),
            "" if file.tool_calls_limit is None else str(file.tool_calls_limit),
            console.one_line(file.model or ""),
            console.one_line(file.description),
        )
        for file in files
    ]
    print_table(("NAME", "STATUS", *(("DIALECT",) if foreign else ()), "CALLS", "MODEL", "DESCRIPTION"), rows)
    for line in ["", *map(with_flags, sentences(files, reasons))] if reasons else ():
        console.print_wrapped(line)
    problems = [problem for file in files for problem in file.problems if problem.level != "notice"]
    if problems:
        console.print_line("")
        console.print_problems(problems)


def main() -> None:
    """Run the command."""
    with console.as_program():
        app()


LIMIT = 30
"""Default limit of tool calls in a new file."""
# Tools of a specialist whose file names none.
_READ_ONLY = ("search", "grep", "glob", "read", "ls")
# Answers that leave the key out of the file.
_DEFAULTS = {"all", "inherit", ""}


def ask_for(name: str, given: Collection[str]) -> dict[str, object]:
    """Ask on the terminal for the keys that are not given, and return the answers that differ from a default.

    name: Valid name of the specialist.
    given: Keys that flags give.
    Raises typer.Abort after Ctrl-C or at the end of the input; nothing is written.
    """
    from run_specialist.specialist.loader import strict_problems  # noqa: PLC0415 - fast `--help`

    questions = {
        "description": ("When should it be used?", None),
        "tool_calls_limit": ("Maximum tool calls in a run?", str(LIMIT)),
        "tools": (f"Tools, comma-separated ({', '.join(_READ_ONLY)})?", "all"),
        "paths": ("Folders or globs that it can read, comma-separated?", "all"),
        "model": ("Model: sonnet, opus, haiku, a full id, ...?", "inherit"),
    }

    def checked(key: str, text: str) -> object:
        if key != "description" and text.strip().lower() in _DEFAULTS:
            return None
        value = flags.setting(text) if key == "tool_calls_limit" else text
        if problems := strict_problems(name, {key: value}):
            raise typer.BadParameter("; ".join(problem.text for problem in problems))
        return value

    # The prompt of the library writes a blank to standard output, which may be read by a program.
    with nullcontext() if console.is_terminal() else redirect_stdout(sys.stderr):
        answers = {
            key: typer.prompt(question, default, value_proc=partial(checked, key), prompt_suffix=" ", err=True)
            for key, (question, default) in questions.items()
            if key not in given
        }
    return {key: answer for key, answer in answers.items() if answer is not None}


def edit_specialist(file: "SpecialistFile", project: Path, *, copy: bool | None) -> Path:
    """Let the user edit a specialist file, or a copy of it in the project; return the path of the edited file.

    copy: Whether to copy a file that must not be changed; None = ask on a terminal.
    Raises UsageError if there is no editor, if it fails, or if the file cannot be read or copied.
    """
    from run_specialist.specialist.project import is_packaged  # noqa: PLC0415 - fast `--help`

    if not file.digest:
        raise UsageError(str(file.problems[0]))
    path, shown_path = file.path, shown(str(file.path), None)
    # VISUAL not on a terminal that cannot move its cursor.
    names = ("EDITOR",) if os.environ.get("TERM") == "dumb" else ("VISUAL", "EDITOR")
    command = next((value for name in names if (value := os.environ.get(name, "").strip())), "")
    if not command:
        hint = f"set {' or '.join(names)}, for example to `nano` or `code --wait`"
        raise UsageError(f"no editor: {hint}; the file is {shown_path}")
    is_ours = file.project is None and is_packaged(path)
    if is_ours or not os.access(path, os.W_OK):
        path = _copied(file, project, "is included in this package" if is_ours else "cannot be written", copy=copy)
    before = path.read_bytes()
    failure = _run_editor(path.absolute(), command)
    is_unchanged = path.exists() and path.read_bytes() == before
    if failure and is_unchanged and path != file.path:
        # An unedited copy would only hide the original.
        path.unlink()
        raise UsageError(failure)
    if failure:
        raise UsageError(f"{failure}; the file is {shown(str(path), None)}")
    if is_unchanged:
        console.say(
            "the file was not changed; if the editor is still open, use a command that waits, such as `code --wait`",
            dim=True,
        )
    return path


def _copied(file: "SpecialistFile", project: Path, why: str, *, copy: bool | None) -> Path:
    """Copy a file into the project, if the user agrees, and return the path of the copy."""
    from run_specialist.safety import safe_files  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.dialects import CODEX, OWN, is_toml  # noqa: PLC0415 - fast `--help`

    # Each kind of file is found in other folders of a project.
    folder = CODEX.project[0] if is_toml(file.path) else OWN.project[0]
    target = project / folder / file.path.name
    told = console.relative(target)
    if copy is None and sys.stdin is not None and sys.stdin.isatty():
        if not typer.confirm(f"{file.name} {why}. Edit a copy, {told}?", default=True, err=True):
            console.fail("nothing was opened", 0)
        copy = True
    if not copy:
        console.fail(f"{file.path} {why}; use --copy to edit a copy, {told}")
    try:
        with safe_files.open_file(file.path, file.project) as source:
            content = source.read()
        top, inner = safe_files.locate(target.parent, project)
        (top / inner).mkdir(parents=True, exist_ok=True)
        with safe_files.create_file(target, project, overwrite=False) as written:
            written.write(content)
    except FileExistsError:
        raise UsageError(f"{told} already exists; edit it by its path") from None
    except OSError as error:
        raise UsageError(f"{told} cannot be written: {error.strerror}") from None
    return target


def _run_editor(path: Path, command: str) -> str:
    """Run the editor on a file and wait for its end; return why it failed, or an empty text.

    Ctrl-C is left to the editor.
    command: As in VISUAL; a shell splits it and expands its variables, but never reads the path.
    """
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:
        # The editor would inherit that a signal is ignored, but not a handler.
        signal.signal(signal.SIGINT, lambda *_: None)
    try:
        # The first argument after the script is its name, `$0`.
        code = subprocess.call(["/bin/sh", "-c", f'{command} "$@"', command, str(path)])  # noqa: S603 - the user's own
    except (OSError, ValueError) as error:
        return f"the editor {shown(command)} cannot be started: {error}"
    finally:
        signal.signal(signal.SIGINT, before)
    how = f"exited with code {code}" if code > 0 else f"was ended by signal {-code}"
    return f"the editor {shown(command)} {how}" if code else ""
