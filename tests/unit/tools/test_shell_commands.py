"""Commands of `bash`: what they see and may change, their result, and their end with call, run and program."""

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from run_specialist.errors import ToolError
from run_specialist.spawning.extra_tools import shell_offer
from run_specialist.specialist.fields import Specialist
from run_specialist.tools import file_checkpoint
from run_specialist.tools.edit import Patch, WorkingCopy
from run_specialist.tools.files import file_tools
from run_specialist.tools.shell import places as shown_files
from run_specialist.tools.shell import process, system_sandbox
from run_specialist.tools.shell.places import command_files, git_paths, kernel_folders, plain_config, writable_places
from run_specialist.tools.shell.process import SandboxedProcess
from run_specialist.tools.threads import in_thread
from tests.forked_program import ForkedProgram
from tests.unit.tools.sandboxed_commands import (
    PATIENCE,
    Commands,
    needs_bubblewrap,
    processes_with,
    unique_mark,
    wait_for,
)

pytestmark = needs_bubblewrap
FIND = "find . -path ./.git -prune -o -type f -print | sort | while read f; do cat $f >/dev/null 2>&1 && echo $f; done"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a command in the root of an empty project."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    return Commands(tmp_path / "project")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({}, "./.gitignore ./docs/a.md ./docs/b.txt ./src/main.py"),
        ({"paths": ("docs",)}, "./docs/a.md ./docs/b.txt"),
        ({"paths": ("docs/*.md", "src/main.py")}, "./docs/a.md ./src/main.py"),
        ({"paths": (".env", "src")}, "./.env ./src/main.py"),
        ({"paths": ("nowhere",)}, ""),
        ({"writable": ("build",)}, "./.gitignore ./build/made ./docs/a.md ./docs/b.txt ./src/main.py"),
    ],
)
async def test_commands_see_the_files_that_read_may_see(run, settings, shown):
    """Secrets and ignored files are hidden, `paths` selects, and what is writable is shown even if it is ignored."""
    for file in ("docs/a.md", "docs/b.txt", "src/main.py", "build/made", "build/.env", "src/deep/.env", ".env"):
        run.write(file)
    run.write(".gitignore", "build/\n")
    output = await run(FIND, **settings)
    assert output.text.split() == shown.split()


async def test_too_many_files_are_an_error(run, monkeypatch):
    """What cannot be hidden is not shown, and what cannot be checked later is not opened: the command is not run."""
    for number in range(4):
        run.write(f"{number}.key")
        run.write(f"out/{number}")
    monkeypatch.setattr(file_checkpoint, "MOST_ENTRIES", 2)
    with pytest.raises(ToolError, match="more than 2 files"):
        await run("echo ok", writable=("out",))
    monkeypatch.setattr(shown_files, "MOST_HIDDEN", 3)
    with pytest.raises(ToolError, match=r"more than 3 places .* `paths`"):
        await run("echo ok")
    monkeypatch.setattr(shown_files, "MOST_ENTRIES", 3)
    with pytest.raises(ToolError, match="more than 3 files and folders"):
        await run("echo ok", paths=("src", "."))


async def test_history_is_shown_without_addresses(run):
    """Git works, also where the files belong to somebody else; its remotes and credentials are not there."""
    run.git("init", "-q")
    run.write("a.md")
    run.git("add", "a.md")
    run.git("commit", "-qm", "first change")
    run.git("remote", "add", "origin", "https://token@example.com/x")
    (run.root / ".git" / ".git-credentials").write_text("token")
    output = await run("git log --format=%s; git status --short; git remote -v; cat .git/config .git/.git-credentials")
    assert "first change" in output.text
    assert "token" not in output.text
    assert (await run("git log", paths=("a.md",))).note == "[exit code 128]"


async def test_a_worktree_has_its_history(run, tmp_path):
    """The repository of a worktree is shown; a folder that only claims to be one is not."""
    run.git("init", "-q")
    run.git("commit", "-qm", "first change", "--allow-empty")
    run.git("worktree", "add", "-q", str(tmp_path / "tree"))
    assert (await Commands(tmp_path / "tree")("git log --format=%s; git status")).text.startswith("first change")
    liar = Commands(tmp_path / "liar")
    liar.write(".git", f"gitdir: {run.root}/.git/worktrees/tree\n")
    assert "first change" not in (await liar(f"git log; ls {run.root}")).text
    assert git_paths(liar.root) == []


def test_settings_of_git_are_kept_only_where_they_are_needed(tmp_path):
    """Programs, addresses and included files are left out; a hostile file of blank lines blocks nothing."""
    file = tmp_path / "config"
    file.write_text(
        "[core]\n\tbare = false\n\tfsmonitor = evil\n\trepositoryformatversion = 0\n[include]\n\tpath = /etc/x\n"
        '[remote "o"]\n\turl = https://token@x\n[extensions]\n\tobjectFormat = sha256\n'
    )
    kept = "[core]\n\tbare = false\n[core]\n\trepositoryformatversion = 0\n[extensions]\n\tobjectFormat = sha256\n"
    assert plain_config(file) == kept
    assert plain_config(tmp_path / "missing") == ""
    file.write_text("\n" * 900_000 + "[core]\r\n\tbare = false\r\n", newline="")
    assert plain_config(file) == "[core]\n\tbare = false\n"


async def test_writable_folders_can_be_changed_and_nothing_else(run):
    """A change stays on the disk; secrets in the folder stay hidden."""
    for file in ("out/old.txt", "out/.env", "src/main.py"):
        run.write(file)
    output = await run("echo new > out/new.txt; rm out/old.txt; echo x > src/main.py; cat out/.env", writable=("out",))
    assert "Read-only file system" in output.text
    assert "Permission denied" in output.text
    assert sorted(one.name for one in (run.root / "out").iterdir()) == [".env", "new.txt"]
    assert (run.root / "src" / "main.py").read_text() == "plain\n"


async def test_links_made_in_writable_folders_lead_nowhere(run, tmp_path):
    """Neither the same command, nor a later one, nor one for which the link is writable leaves the root by it."""
    (tmp_path / "outside").mkdir()
    run.write("out/deep/x")
    attack = "rm -r out/deep; ln -s {0} out/deep; echo x > out/deep/a; ln -s {0} out/link; echo x > out/link/b"
    await run(attack.format(tmp_path / "outside"), writable=("out", "out/deep"))
    await run("echo x > out/deep/c; echo x > out/link/d", writable=("out",))
    assert list((tmp_path / "outside").iterdir()) == []
    assert writable_places(run.root, ["out/deep", "out/link"]) == (
        [],
        ["out/deep: it is a link, or below one", "out/link: it is a link, or below one"],
    )


ATTACK = """
echo evil >> .git/hooks/pre-commit; echo '[core] fsmonitor = evil' >> .git/config; mv .git old; rm -rf .git
mkdir -p sub/new/.git/hooks .vscode .claude/agents; echo evil > sub/new/.git/hooks/x; echo evil > .mcp.json
echo evil > specialists/evil.md; echo evil > CLAUDE.md; rm -f AGENTS.md; ln -s /etc AGENTS.md; git init -q inner
mv specialists other; echo done
"""


def entries(root):
    """Return the paths of all files and folders below a root."""
    return {path.relative_to(root).as_posix() for path in root.rglob("*")}


async def test_what_others_run_or_obey_later_cannot_be_changed(run):
    """Hooks and settings of git, agents, servers and instructions stay as they are, and new ones are renamed."""
    run.git("init", "-q")
    for file in ("specialists/finder.md", "real.md", ".git/hooks/pre-commit"):
        run.write(file)
    (run.root / "AGENTS.md").symlink_to("real.md")
    before = entries(run.root)
    output = await run(ATTACK, writable=(".",))
    assert "done" in output.text
    assert "undone, because nothing may be changed there" in output.note
    # The folders in which they were made are left.
    new = entries(run.root) - before
    assert {path for path in new if ".undone-" not in path} == {"sub", "sub/new", "inner"}
    # Nothing is lost that somebody else may have made in the meantime.
    assert [(run.root / path).read_text() for path in new if path.startswith(".mcp.json.undone-")] == ["evil\n"]
    assert before <= entries(run.root)
    assert (run.root / "AGENTS.md").readlink() == Path("real.md")
    for file in ("specialists/finder.md", ".git/hooks/pre-commit"):
        assert (run.root / file).read_text() == "plain\n"
    assert "evil" not in (run.root / ".git" / "config").read_text()


PROTECTED = (
    "CLAUDE.md",
    "pyproject.toml",
    ".vscode/tasks.json",
    ".claude/agents/x.md",
    ".config/mise/a",
    "deep/AGENTS.md",
)
EVIL = "; ".join(f"mkdir -p $(dirname {name}); echo EVIL > {name}" for name in PROTECTED)
"""Writes all of them in the working folder."""


@pytest.mark.parametrize(
    "command",
    [
        f"mv app app2; mkdir app; cd app; {EVIL}",
        f"rm -rf app; mkdir app; cd app; {EVIL}",
        f"mkdir new; cd new; {EVIL}; cd ..; mv -T --exchange new app || mv -T new app; cp -r new/. app",
        f"mv app/deep app/other; mkdir app/deep; cd app; {EVIL}",
        f"mkdir -p new; cd new; {EVIL}; cd ..; mv app gone; ln -s new app",
        "for f in app/CLAUDE.md app/deep/AGENTS.md; do ln $f copy && echo EVIL > copy; rm -f copy; done; true",
        "ln -sfn /etc app/.vscode; ln -sf /etc/passwd app/CLAUDE.md; rmdir app/.config; mkfifo app/CLAUDE.md",
        "echo EVIL > app/second; echo EVIL > linked.md; echo EVIL >> behind.md; rm -f second behind.md; mv linked.md x",
        'python3 -c \'import os; os.rename("app", "b")\'; mkdir -p b; chmod 000 b; chmod -R 777 app',
    ],
    ids=["rename", "remove", "exchange", "inner", "link", "hard-link", "symlink", "other-names", "chmod"],
)
async def test_p_4_no_command_replaces_a_protected_file(run, command):
    """Not by a folder above it either: renamed, removed, exchanged, or replaced by a link; and not by a second name."""
    for name in PROTECTED:
        run.write(f"packages/app/{name}")
    os.link(run.root / "packages/app/CLAUDE.md", run.root / "packages/app/second")
    os.link(run.root / "packages/app/.claude/agents/x.md", run.root / "packages/linked.md")
    run.write("packages/behind.md")
    (run.root / "packages/app/.claude/agents/y.md").symlink_to("../../../behind.md")
    identities = {name: (run.root / "packages/app" / name).stat().st_ino for name in PROTECTED}
    output = await run(f"cd packages; {command}", writable=("packages",))
    assert output.note.startswith("[exit code")
    for name in PROTECTED:
        file = run.root / "packages/app" / name
        assert (name, file.read_text(), file.stat().st_ino) == (name, "plain\n", identities[name])
        assert not file.is_symlink()
    assert (run.root / "packages/app/.claude/agents/y.md").read_text() == "plain\n"
    # New ones elsewhere have other names.
    found = {path.relative_to(run.root / "packages").as_posix() for path in (run.root / "packages").rglob("*")}
    names = {Path(name).name for name in PROTECTED}
    left = {path for path in found if Path(path).name in names and ".undone-" not in path}
    assert left == {f"app/{name}" for name in PROTECTED}


@pytest.mark.parametrize("instead", ["mkdir app; cd app; {}", "ln -s ../elsewhere app", "echo > app", "true"])
async def test_p_4_a_protected_file_that_was_moved_all_the_same_comes_back(run, monkeypatch, instead):
    """Where the folders above it are not pinned, the comparison after the command brings it back."""
    plain = command_files

    def unpinned(*given):
        files = plain(*given)
        files.pinned = []
        return files

    monkeypatch.setattr(process, "command_files", unpinned)
    for name in PROTECTED:
        run.write(f"packages/app/{name}")
    run.write("elsewhere/x")
    output = await run(f"cd packages; mv app app2; {instead.format(EVIL)}", writable=("packages",))
    assert "packages/app/CLAUDE.md" in output.note
    for name in PROTECTED:
        assert (run.root / "packages/app" / name).read_text() == "plain\n"
        assert not (run.root / "packages/app2" / name).exists()
    assert not (run.root / "packages/app").is_symlink()
    assert [path.name for path in (run.root / "elsewhere").iterdir()] == ["x"]


async def test_p_4_many_files_and_deep_folders_do_not_hide_a_protected_file(run, monkeypatch):
    """After a command all entries are searched, however many there are, and so are folders that it made unreadable."""
    monkeypatch.setattr(file_checkpoint, "MOST_ENTRIES", 20)
    run.write("out/x")
    command = "cd out; mkdir -p z/z; touch {1..50} z/z/{1..50}; echo evil > z/z/CLAUDE.md; chmod 000 z/z z"
    output = await run(command, writable=("out",))
    assert "undone, because nothing may be changed there: out/z/z/CLAUDE.md" in output.note
    assert not (run.root / "out/z/z/CLAUDE.md").exists()


@pytest.mark.parametrize("writable", [".", "home/config"])
async def test_p_4_folders_of_the_user_cannot_be_changed(run, writable):
    """Settings and stored runs of the user stay as they are, also where a writable folder is above or below them."""
    run.write("home/config/a", "plain\n")
    copy = WorkingCopy(run.root, closed=lambda: (run.root / "home",))
    settings = Specialist(name="finder", description="", prompt="", tools=("bash",), writable=(writable,))
    output = await run("echo evil > home/config/a; mv home x", tool=shell_offer(copy).make(settings, run.root))
    assert "Read-only file system" in output.text
    assert (run.root / "home/config/a").read_text() == "plain\n"


def test_p_5_a_protected_file_is_no_change_of_a_command(tmp_path):
    """What happened to it meanwhile was done by others, so it is not listed, and nothing offers to undo it."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "AGENTS.md").write_text("as it was")
    checkpoint = file_checkpoint.FileCheckpoint.take(tmp_path, ["app"], (), "run", "call")
    (app / "AGENTS.md").write_text("by an editor")
    (app / "made.txt").write_text("by the command")
    changes = checkpoint.compare(puts_back=False)
    checkpoint.discard()
    assert [changed.path for _, changed in changes.files] == ["app/made.txt"]


async def test_p_5_a_command_does_not_run_without_a_checkpoint(run, monkeypatch):
    """If the content so far cannot be copied, nothing is run, and the error says why."""
    run.write("out/x")

    def full(*_args, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_checkpoint, "_new_place", full)
    with pytest.raises(ToolError, match="nothing was run, because no checkpoint can be made: No space left on device"):
        await run("rm out/x", writable=("out",))
    assert (run.root / "out/x").exists()


async def test_no_file_with_the_rights_of_others_is_made(run):
    """A program that runs with the rights of this user, for everybody, cannot be made in a writable folder."""
    run.write("out/x")
    script = "import os; os.open('out/z', os.O_CREAT | os.O_WRONLY, 0o4755)"
    command = (
        f'cp /bin/sh out/y; chmod u+s out/y; chmod 2755 out/x; install -m 4755 /bin/sh out/w; python3 -c "{script}"'
    )
    output = await run(command, writable=("out",))
    assert output.text.count("Operation not permitted") >= 3
    assert not any(file.stat().st_mode & 0o6000 for file in (run.root / "out").iterdir())


async def test_what_is_hidden_by_the_name_of_its_folder_stays_hidden(run):
    """The folder cannot be renamed, so that a later command would see what is in it."""
    run.write(".docker/config.json", "canary")
    await run("mv .docker plain; mv .docker/config.json x; echo ok > .docker/new", writable=(".",))
    output = await run("cat plain/* .docker/* x", writable=(".",))
    assert "canary" not in output.text
    assert sorted(one.name for one in (run.root / ".docker").iterdir()) == ["config.json", "new"]


async def test_processes_and_devices_below_the_root_are_hidden(run, tmp_path):
    """As in the root of another system, in which the kernel shows the processes of this one."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"22 1 0:21 / {run.root}/system/a\\040b rw,nosuid shared:5 - proc proc rw\n"
        f"23 1 0:22 / {run.root}/disk rw - ext4 /dev/x rw\n24 1 0:23 / /proc rw - proc proc rw\n"
        f"25 1 0:24 / {run.root} rw - proc proc rw\n"
    )
    assert kernel_folders(run.root, str(mounts)) == {"system/a b"}
    assert kernel_folders(run.root, str(tmp_path / "missing")) == frozenset()


async def test_a_folder_of_git_that_is_not_understood_is_hidden(run, monkeypatch):
    """Its settings may contain credentials; so may those of submodules."""
    run.git("init", "-q")
    run.write(".git/modules/inner/config", "canary")
    assert "canary" not in (await run("cat .git/modules/inner/config; ls .git/modules")).text
    monkeypatch.setattr(shown_files, "git_paths", lambda root: [])
    assert (await run("ls -A .git")).text == ""


async def test_the_file_of_the_specialist_cannot_be_changed(run):
    """Wherever it lies: a run must not extend its own rights."""
    file = run.write("agents/finder.md")
    await run("echo evil > agents/finder.md; rm agents/finder.md; echo x > agents/new", writable=("agents",), path=file)
    assert sorted(one.name for one in file.parent.iterdir()) == ["finder.md", "new"]
    assert file.read_text() == "plain\n"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("src/*.py", "a pattern is no folder"),
        ("missing", "cannot be opened: No such file"),
        (".git", "nothing may be changed"),
        (".git/hooks", "nothing may be changed"),
        ("specialists", "nothing may be changed"),
        (".env", "nothing may be changed"),
        ("fifo", "no folder and no file"),
    ],
)
async def test_what_cannot_be_opened_for_writing(run, path, why):
    """Patterns, missing and special files, secrets, and what other programs obey."""
    run.git("init", "-q")
    for file in ("src/main.py", "specialists/x.md", ".env"):
        run.write(file)
    os.mkfifo(run.root / "fifo")
    places, (reason,) = writable_places(run.root, [path])
    assert places == []
    assert why in reason


@pytest.mark.parametrize(
    ("folders", "runs"),
    [(("out", "out"), "aa"), (("out", "out"), "ab"), (("out", "out/in"), "ab"), ((".", "out/in"), "ab")],
)
async def test_p_5_commands_that_change_the_same_files_wait_for_each_other(run, folders, runs):
    """Within a run one could move a file that another must protect; of two, each would list the other's changes."""
    run.write("out/in/x")
    command = "mkdir out/in/busy && sleep 0.05 && rmdir out/in/busy && echo alone"
    tools = [run.tool(writable=(one,)) for one in folders]
    tools = tools[:1] * 2 if runs == "aa" else tools
    outputs = await asyncio.gather(*(run(command, tool=one, run_id=at) for one, at in zip(tools, runs, strict=True)))
    assert [output.text for output in outputs] == ["alone\n"] * 2


async def test_p_5_commands_with_other_folders_do_not_wait(run):
    """Each of two commands ends only if the other one runs at the same time."""
    for name in ("one", "two"):
        run.write(f"{name}/x")
    command = "touch {0}/here; until [ -e {1}/here ]; do sleep 0.01; done; echo met"
    pairs = [("one", "two"), ("two", "one")]
    calls = (run(command.format(*pair), run_id=pair[0], writable=(pair[0],)) for pair in pairs)
    outputs = await asyncio.gather(*calls)
    assert [output.text for output in outputs] == ["met\n"] * 2


@pytest.mark.parametrize(
    ("writable", "patch", "changes"), [(("docs",), None, 1), ((), None, 0), (("docs",), Patch(), 0)]
)
async def test_a_search_sees_what_a_command_has_made(run, writable, patch, changes):
    """The index is built again after a command that may have changed files; in a dry run none may."""
    run.write("docs/a.md", "about owls\n")
    copy = WorkingCopy(run.root, patch)
    search = next(tool for tool in file_tools(run.root, (), 1_000, copy) if tool.name == "search")
    assert "b.md" not in (await search.call({"query": "zebras"})).text
    settings = Specialist(name="finder", description="", prompt="", tools=("bash",), writable=writable)
    await run("echo about zebras > docs/b.md", tool=shell_offer(copy).make(settings, run.root))
    assert copy.changes == changes
    assert ("b.md" in (await search.call({"query": "zebras"})).text) is bool(changes)


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(
    ("command", "text", "note"),
    [
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n", "[exit code 0]"),
        ("exit 7", "", "[exit code 7]"),
        ("kill -9 $$", "", "[exit code 137]"),
        ("-x", "/bin/bash: line 1: -x: command not found\n", "[exit code 127]"),
        ("cat; read x || echo empty", "empty\n", "[exit code 0]"),
        ("printf 'a\\r\\nb\\rc\\033[31m\\0d\\377'", "a\nb\nc[31md\N{REPLACEMENT CHARACTER}", "[exit code 0]"),
        ("pwd | tail -c 8; whoami; echo $HOME $LANG $TERM", "project\nuser\n/tmp C.UTF-8 dumb\n", "[exit code 0]"),
        ("cd /tmp; echo x > y; cat y", "x\n", "[exit code 0]"),
        ("cat /tmp/y", "cat: /tmp/y: No such file or directory\n", "[exit code 1]"),
    ],
)  # fmt: skip
async def test_the_result_has_both_outputs_and_the_exit_code(run, command, text, note):
    """Also of commands that look like options, want input, print bytes, or need files of an earlier call."""
    output = await run(command)
    assert (output.text, output.note, output.is_error) == (text, note, False)


async def test_a_long_output_keeps_its_beginning_and_its_end(run):
    """The middle is left out, with the length of the whole."""
    output = await run("seq 100000", tool_result_limit=500)
    assert len(output.text) <= 500
    assert output.text.startswith("1\n2\n3\n")
    assert output.text.endswith("\n99999\n100000\n")
    assert "[... of 588,895 bytes only the beginning and the end are here ...]" in output.text


async def test_a_timeout_keeps_what_was_printed(run):
    """The command is stopped a little before the call would be given up."""
    mark = unique_mark()
    output = await run(f"echo begun; sleep 300; : {mark}", seconds=0.5)
    assert (output.text, output.note) == ("begun\n", "[stopped: it took more than 0.475 seconds]")
    assert output.is_error
    assert processes_with(mark) == []


async def test_a_cancelled_call_ends_its_processes(run):
    """As at Ctrl-C, and when the time of a run is up."""
    mark = unique_mark()
    work = asyncio.ensure_future(run(f"trap '' TERM; setsid sleep 300 & sleep 300; : {mark}"))
    await in_thread(lambda: wait_for(mark, 3))
    work.cancel()
    await asyncio.wait([work])
    assert work.cancelled()
    assert processes_with(mark) == []


PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.unit.tools.sandboxed_commands import Commands
asyncio.run(Commands(Path(sys.argv[1]))(f"(setsid nohup sleep 300 >/dev/null 2>&1 &) ; sleep 300; : {sys.argv[2]}"))
"""


@pytest.mark.exhaustive
def test_a_killed_program_leaves_no_process(run):
    """After kill -9 of the program the kernel ends everything in the sandbox."""
    mark = unique_mark()
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(run.root), mark]
    with ForkedProgram(command) as program:
        # Besides the program: `bwrap`, the first process of the sandbox, the shell, and sometimes one that it starts.
        held = []
        for pid in wait_for(mark, 4):
            with suppress(ProcessLookupError):
                held += [os.pidfd_open(pid)] if pid != program.pid else []
        program.send_signal(signal.SIGKILL)
        program.wait()
    assert len(held) >= 2
    for one in held:
        assert select.select([one], [], [], PATIENCE)[0] == [one]
        os.close(one)
    assert processes_with(mark) == []


async def test_a_command_waits_for_the_program(run, monkeypatch):
    """If the program ends before it lets the command begin, the command is never run."""

    def end(_self, tell):
        os.dup2(os.open(os.devnull, os.O_WRONLY), tell)

    monkeypatch.setattr(SandboxedProcess, "_begin", end)
    output = await run("echo run")
    assert (output.text, output.note) == ("", "[exit code 1]")


async def test_without_namespaces_the_command_has_a_folder_of_its_own(run, monkeypatch, tmp_path):
    """As on macOS; here the command that would be run by `sandbox-exec` is run as it is."""
    program = tmp_path / "sandbox-exec"
    program.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(system_sandbox, "SANDBOX_EXEC", str(program))
    output = await run("pwd; test $HOME = $TMPDIR && touch $HOME/x && rm $HOME/x && echo $#; exit 3")
    assert (output.text, output.note) == (f"{run.root}\n0\n", "[exit code 3]")
    mark = unique_mark()
    output = await run(f"sleep 300; : {mark}", seconds=0.3)
    assert output.note.startswith("[stopped: it took more than")
    assert processes_with(mark) == []


@pytest.mark.parametrize(("command", "reason"), [("echo \0", "NUL"), ("x" * 100_001, "at most 100,000 characters")])
async def test_impossible_commands_are_errors(run, command, reason):
    """The model reads what is wrong."""
    with pytest.raises(ToolError, match=reason):
        await run(command)


async def test_a_sandbox_that_cannot_be_made_is_an_error(run, monkeypatch):
    """Nothing is run, and the error says why; a program that is missing too."""
    monkeypatch.setattr(process, "filter_for", lambda: b"\xff" * 8)
    with pytest.raises(ToolError, match=r"the sandbox cannot be made: .*system call filtering"):
        await run("echo ok")
    monkeypatch.setattr(system_sandbox, "program", lambda: "/missing/bwrap")
    with pytest.raises(ToolError, match=r"the sandbox cannot be started: .*No such file"):
        await run("echo ok")


@pytest.fixture
def interpreter(tmp_path, monkeypatch):
    """Return the folder of an interpreter that uv has installed, in a home folder with a secret."""
    home = tmp_path / "home"
    monkeypatch.delenv("UV_PYTHON_INSTALL_DIR", raising=False)
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    made = home / "data" / "uv" / "python" / "cpython-3.11"
    for folder in (home, made):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python3.11").write_text("#!/bin/sh\necho python of $0\n")
        (folder / "bin" / "python3.11").chmod(0o755)
    (home / "secret").write_text("private")
    return made


def environment(root, python):
    """Make the Python environment of a project, with a file that can contain a password."""
    for folder in ("bin", "lib"):
        (root / ".venv" / folder).mkdir(parents=True)
    for file, text in (("pyvenv.cfg", "home = x\n"), ("pip.conf", "password"), (".gitignore", "*")):
        (root / ".venv" / file).write_text(text)
    (root / ".venv" / "bin" / "python").symlink_to(python)


@pytest.mark.parametrize("settings", [{}, {"paths": ("src",)}, {"writable": (".",)}])
async def test_commands_run_the_python_of_the_project(run, interpreter, settings):
    """Its environment comes first on PATH, read-only as the interpreter; nothing else of the home folder is seen."""
    run.write("src/a.py")
    environment(run.root, interpreter / "bin" / "python3.11")
    text = (
        await run(
            "python; echo x > .venv/bin/new; cat .venv/pip.conf; ls -A $OLDPWD ../home ../home/data/uv/python",
            **settings,
        )
    ).text
    assert text.startswith(f"python of {run.root}/.venv/bin/python\n")
    assert not [word for word in ("private", "secret", "password") if word in text]
    assert not (run.root / ".venv" / "bin" / "new").exists()
    await run(f"echo x > {interpreter}/new", **settings)
    assert not (interpreter / "new").exists()


@pytest.mark.parametrize("link", [".venv", ".venv/bin", ".venv/lib", ".venv/pyvenv.cfg", ".venv/bin/python", "version"])
async def test_an_environment_opens_no_other_folder(run, interpreter, link):
    """A link in it that leads to the home folder shows nothing there."""
    home = interpreter.parents[3]
    environment(run.root, interpreter / "bin" / "python3.11")
    place, target = run.root / link, home / "bin" / "python3.11" if link.endswith("python") else home
    if link == "version":
        place = interpreter.with_name("cpython-3.12")
        (run.root / ".venv" / "bin" / "python").unlink()
        (run.root / ".venv" / "bin" / "python").symlink_to(place / "bin" / "python3.11")
    elif place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()
    place.symlink_to(target)
    text = (await run(f"python; cat {home}/secret {place}/secret; ls -A {home}")).text
    assert "python of" not in text
    assert "private" not in text


@pytest.fixture
def real_environment(run, monkeypatch):
    """Make the environment of a project with the interpreter of these tests, as if uv or pyenv had installed it."""
    prefix = Path(sys.base_prefix)
    monkeypatch.setenv("PYENV_ROOT", str(prefix.parents[1]))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(prefix.parent))
    python = os.path.realpath(prefix / "bin" / "python3")
    subprocess.run([python, "-m", "venv", "--without-pip", run.root / ".venv"], check=True)


@pytest.mark.usefixtures("real_environment")
async def test_commands_run_the_tests_of_a_project(run):
    """A real environment, whose interpreter may lie in the home folder, runs them."""
    run.write(
        "test_a.py", "import unittest\nclass A(unittest.TestCase):\n    def test(self):\n        assert 1 + 1 == 2\n"
    )
    assert "OK" in (await run("python -m unittest 2>&1")).text
