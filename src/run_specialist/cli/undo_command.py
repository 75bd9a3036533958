"""The command `specialists undo`: revert what a run has changed in files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from run_specialist.cli.console import fail, guarded, print_json, print_line, say
from run_specialist.cli.diff_lines import print_diff
from run_specialist.cli.flags import Json, StoreUrl
from run_specialist.cli.stored_run_flags import AllProjects, RunId, RunsRoot, find_run, open_store, project_filter

if TYPE_CHECKING:
    from run_specialist.store.file_changes import StoredChange
    from run_specialist.tools.editing.undoing import UndoneFile

LEFT = 4
"""Exit code if a file was not reverted."""
_VERBS = {
    "restored": "restored",
    "deleted": "deleted",
    "unchanged": "as before already",
    "partly": "partly restored",
    "left": "left alone",
}


def undo(
    run: RunId,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")] = False,
    all_projects: AllProjects = False,
    root: RunsRoot = None,
    store: StoreUrl = None,
    json_: Json = False,
) -> None:
    """Undo the file changes of a run and its child runs.

    Reverts only files that still have the content that the run left. Others are listed, and the exit code is 4.
    """
    with guarded(), open_store(store) as opened:
        project = project_filter(root, all_projects=all_projects)
        listed = opened.find(find_run(opened, run, project))
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
        done = [
            (where, one) for where, of_root in _by_root(changes).items() for one in _undone(where, of_root, dry_run)
        ]
        left = [one for _, one in done if one.result in {"left", "partly"}]
        if killed and not dry_run and not left:
            _forget(killed)
        if json_:
            files = [{"root": str(where), **_as_json(one)} for where, one in done]
            print_json({"run_id": run_id, "dry_run": dry_run, "files": files})
        else:
            _print(run_id, done, dry_run=dry_run)
    raise typer.Exit(LEFT if left else 0)


def _left_by_killed_command(run_id: str, dry_run: bool) -> "list[StoredChange] | None":
    """Return what a command has changed during which the run was killed; None if there was none."""
    from run_specialist.store.file_changes import StoredChange  # noqa: PLC0415 - fast `--help`
    from run_specialist.tools.editing.file_checkpoint import recovered  # noqa: PLC0415 - as above

    found = recovered(run_id, dry_run=dry_run)
    if found is None:
        return None
    if found.files:
        say(f"{run_id} was killed during a command; later changes in its writable folders cannot be told from its own")
    return [StoredChange(run_id, found.root, one.record) for one in found.files]


def _forget(killed: list[str]) -> None:
    from run_specialist.tools.editing.file_checkpoint import forget  # noqa: PLC0415 - fast `--help`

    for run_id in killed:
        forget(run_id)


def _by_root(changes: "list[StoredChange]") -> "dict[Path, list[StoredChange]]":
    found: dict[Path, list[StoredChange]] = {}
    for change in changes:
        found.setdefault(Path(change.root), []).append(change)
    return found


def _undone(root: Path, changes: "list[StoredChange]", dry_run: bool) -> "list[UndoneFile]":
    from run_specialist.tools.editing.undoing import undo  # noqa: PLC0415 - fast `--help`

    if not root.is_dir():
        fail(f"{root}, where the run worked, is not a folder any more")
    return undo(root, [one.change for one in changes], dry_run=dry_run)


def _as_json(one: "UndoneFile") -> dict[str, object]:
    return {"path": one.path, "result": one.result, "reason": one.reason, "diff": one.diff.text}


def _print(run_id: str, done: "list[tuple[Path, UndoneFile]]", *, dry_run: bool) -> None:
    if not done:
        say(f"{run_id} has changed no file")
    for _, one in done:
        would = "would be " if dry_run and one.result in {"restored", "deleted", "partly"} else ""
        counts = f" ({one.diff.counts} lines)" if one.diff.added or one.diff.removed else ""
        reason = f": {one.reason}" if one.reason else ""
        print_line(f"{would}{_VERBS[one.result]}  {one.path}{counts}{reason}")
        if dry_run and one.diff.text:
            print_diff(one.diff.text)
