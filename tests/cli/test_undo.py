"""The flag `--dry-run`, the lines of changes, and the command `specialists undo`."""

import json
import shutil
import subprocess

import pytest

from run_specialist.record.events import BudgetSpent, Called, ChildTold, FileChanged
from tests.cli.specialists_command import call as specialists
from tests.cli.test_live import lines_of
from tests.wire.simulator.replies import answers, calls

READ = calls("read", {"path": "notes/owls.md"})
EDIT = calls("edit", {"path": "notes/owls.md", "old": "mice", "new": "voles"})
NEW = calls("write", {"path": "notes/new/bats.md", "content": "# Bats\n"})
PATCH = "diff --git a/notes/new/bats.md b/notes/new/bats.md\nnew file mode 100644\n"


@pytest.fixture
def changed(api, write, call, store):
    """Return a function that lets a specialist edit one note and write another one; returns the result."""
    write("editor", "tools: read, edit, write", "writable: notes/")

    def ask(*flags):
        api([READ, EDIT, NEW, answers("Owls eat voles.")])
        return call("editor", "Correct it.", "--model", "haiku", "--trust", *flags)

    return ask


@pytest.fixture
def undo(store):
    """Return a function that undoes the newest run; returns the exit code, and the lines of both outputs."""

    def call_command(*flags, run="last"):
        done = specialists("undo", run, *flags)
        return done.exit_code, done.stdout, done.stderr

    return call_command


def test_changes_are_taken_back_and_others_are_named(changed, undo, notes):
    """What others have touched since is left alone, with exit code 4; a dry run only shows it."""
    assert changed().exit_code == 0
    owls, bats = notes / "notes/owls.md", notes / "notes/new/bats.md"
    code, out, _ = undo("--dry-run")
    assert (code, "voles" in owls.read_text(), bats.exists()) == (0, True, True)
    assert out.startswith("would be deleted  notes/new/bats.md (+0 -1 lines)\nwould be restored  notes/owls.md (+1 -1")
    assert "-Owls eat voles at night.\n+Owls eat mice at night.\n" in out
    bats.write_text("mine\n")
    left = "left alone  notes/new/bats.md: changed since\n"
    assert undo()[:2] == (4, f"{left}restored  notes/owls.md (+1 -1 lines)\n")
    assert undo()[:2] == (4, f"{left}as before already  notes/owls.md\n")
    assert (owls.read_text(), bats.read_text()) == ("# Owls\n\nOwls eat mice at night.\n", "mine\n")
    bats.write_text("# Bats\n")
    code, out, _ = undo("--json")
    results = [(one["path"], one["result"]) for one in json.loads(out)["files"]]
    assert (code, results) == (0, [("notes/new/bats.md", "deleted"), ("notes/owls.md", "unchanged")])
    assert not bats.parent.exists()


@pytest.mark.exhaustive
def test_what_cannot_be_undone_says_why(changed, undo, notes, monkeypatch, tmp_path, write, call):
    """No change, another project, a deleted folder, an unknown run, and a run that was not stored."""
    write("finder")
    call("finder", "What?", "--model", "offline")
    code, out, told = undo()
    assert (code, out, told.strip().endswith("has changed no file")) == (0, "", True)
    changed()
    run_id = json.loads(specialists("runs", "--json").stdout)["runs"][0]["run_id"]
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    monkeypatch.chdir(other)
    code, _, told = undo(run=run_id)
    assert (code, "outside this project; add --all-projects" in told) == (2, True)
    assert undo("--all-projects", run=run_id)[0] == 0
    shutil.rmtree(notes)
    assert "is not a folder any more" in undo("--all-projects", run=run_id)[2]
    assert undo(run="nothing")[0] == 2


@pytest.mark.exhaustive
def test_a_dry_run_prints_a_patch_that_git_applies(changed, notes, undo):
    """Below the answer; with --output alone in the file; with --json as a field; nothing on the disk is changed."""
    printed = changed("--dry-run")
    assert printed.stdout.startswith(f"Owls eat voles.\n\n{PATCH}")
    assert changed("--dry-run", "--output", "x.patch").stdout == "Owls eat voles.\n"
    patch = (notes / "x.patch").read_text()
    assert printed.stdout == f"Owls eat voles.\n\n{patch}"
    assert json.loads(changed("--dry-run", "--json").stdout)["patch"] == patch
    events = [json.loads(line) for line in changed("--dry-run", "--events", "--output", "y.patch").stdout.splitlines()]
    assert ((notes / "y.patch").read_text(), events[-1]["outcome"]["patch"]) == (patch, patch)
    assert not (notes / "notes/new").exists()
    assert undo()[:2] == (0, "")
    subprocess.run([str(shutil.which("git")), "apply", "x.patch"], check=True, capture_output=True)
    assert "voles" in (notes / "notes/owls.md").read_text()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (FileChanged("c", "a.md", "", 3, 1), "      changed a.md  +3 -1"),
        (
            FileChanged("c", "b.md", "", 3, 0, is_new=True, dry_run=True, change="created"),
            "      would create b.md  +3 -0",
        ),
        (FileChanged("c", "a\x1b[2J\n.md", "", 0, 12), "      changed a\ufffd[2J .md  +0 -12"),
    ],
)
def test_the_live_view_has_a_line_for_each_change(event, line):
    """With its path, without control characters; those of child runs are indented."""
    first, *_, last = lines_of(event, ChildTold("run-2", "child", event), width=80)
    assert (first, last) == (line, f"    {line}")
    (narrow,) = lines_of(event, width=24)
    assert (len(narrow), narrow.endswith(line[-6:])) == (min(len(line), 24), True)


def test_p_5_a_call_shows_its_first_changes_and_counts_the_others():
    """Removed files, and those that cannot be undone, are named as such, each below its call, also of several."""
    events = [Called("started", call_id, "edit", {}) for call_id in ("a", "b")]
    events += [FileChanged(call_id, f"{call_id}.md", "", 1, 1) for call_id in ("b", "a")]
    for call_id in ("a", "b"):
        events.append(Called("finished", call_id, "edit", {"path": f"{call_id}.md"}))
        events.append(BudgetSpent("tool_calls", 9, 1, 8, "silent"))
    told = [" ".join(line.split()) for line in lines_of(*events)]
    assert told == ["1 edit a.md", "changed a.md +1 -1", "2 edit b.md", "changed b.md +1 -1"]
    lines = lines_of(
        Called("started", "a", "bash", {}),
        FileChanged("a", "old.md", "", 0, 3, change="removed"),
        FileChanged("a", "large", "", None, None, change="removed", undoable=False),
        *(FileChanged("a", f"{number}", "", 1, 0, is_new=True, change="created") for number in range(20)),
        Called("finished", "a", "bash", {"command": "x"}),
        BudgetSpent("tool_calls", 9, 1, 8, "silent"),
    )
    shown = [" ".join(line.split()) for line in lines]
    assert shown[1:4] == ["removed old.md +0 -3", "removed large cannot be undone", "created 0 +1 -0"]
    assert (len(shown), shown[-1]) == (12, "and 12 more files")
