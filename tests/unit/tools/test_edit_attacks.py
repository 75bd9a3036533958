"""What `edit` and `write` cannot change, whatever a model asks for and whatever happens to the files meanwhile.

EDIT_TRIES sets the number of tries against links that are swapped in, 10 by default.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from run_specialist.errors import ToolError, UsageError
from run_specialist.safety import safe_files
from run_specialist.tools.text_edit import MOST
from tests.link_swapper import can_swap, swapped
from tests.unit.tools.edited_files import EditingRun, names_in

TRIES = int(os.environ.get("EDIT_TRIES", "10"))

CLOSED = """
    .git/config .git/hooks/pre-commit sub/.git/x .GIT/config .git./config .g\u200cit/config GIT~1/config
    .git::$INDEX/x .gitignore sub/.gitignore .gitattributes .gitmodules .Gitignore .env .ENV sub/.env.local .env.
    id_rsa ID_RSA key.pem KEY.PEM .ssh/x .aws/credentials .npmrc x.evals.yaml specialists/a.md Specialists/a.md
    sub/specialists/a.md .claude/agents/a.md .claude/settings.json .CLAUDE/x .github/agents/a.agent.md
    .github/workflows/ci.yml .gemini/agents/a.md .opencode/agent/a.md .codex/config.toml .cursor/agents/a.md
    .agents/skills/x/SKILL.md skills/x/skill.md AGENTS.md sub/agents.md CLAUDE.md claude.local.md GEMINI.md
    pyproject.toml .mcp.json opencode.json .cursorrules .vscode/tasks.json .husky/pre-commit mise.toml .tool-versions
    docs/x.agent.md \uff0egit/config own/run-specialist/trusted/a.json
""".split()  # noqa: SIM905 - easier to read
ALLOWED = """
    a.md sub/deep/a.md git/config .gitkeep specialist/a.md specialists.md github/x .environment keys.md agents/a.md
    .env.example docs/pyproject.toml.md
""".split()  # noqa: SIM905 - easier to read


@pytest.fixture
def run(root):
    """Return a run that may change everything below its root but one folder."""
    return EditingRun(root, ".", closed=((root / "own").resolve(),))


def refused(run, path, name="write", **arguments):
    """Return why a call fails; nothing was recorded, and no file was made."""
    before = sorted(map(str, run.root.rglob("*")))
    arguments = arguments or {"content": "x"}
    with pytest.raises(ToolError) as error:
        run.call(name, path=path, **arguments)
    assert sorted(map(str, run.root.rglob("*"))) == before
    return str(error.value)


@pytest.mark.parametrize("path", CLOSED)
def test_what_decides_about_agents_and_programs_is_closed(run, path):
    """Git, secrets, agent files and settings of any program, in any spelling, although all is writable."""
    assert "may not be changed: " in refused(run, path)


@pytest.mark.parametrize("path", ALLOWED)
def test_files_with_similar_names_are_open(run, path):
    """Only whole names count."""
    run.call("write", path=path, content="x")
    assert (run.root / path).read_text() == "x"


OUTSIDE = ["../x.md", "/etc/x.md", "sub/../../x.md", "~/x.md/../../../x.md", "a\0b", "a\nb", "", ".", "x" * 5_000]


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_that_lead_out_or_are_none_are_refused(run, path):
    """`..`, absolute paths, NUL, line breaks, the root itself, and paths that are too long."""
    assert refused(run, path)


@pytest.mark.parametrize(
    ("writable", "allowed", "others"),
    [
        (("docs/",), "docs/a.md", ["a.md", "docs", "docs.md", "Docs/a.md", "other/docs/a.md"]),
        (("docs/a.md",), "docs/a.md", ["docs/b.md", "docs/a.md/x"]),
        (("src/**/*.py",), "src/x/y.py", ["src/x/y.md", "y.py"]),
        (("*.md",), "a.md", ["a.py"]),
        ((), None, ["a.md", "docs/a.md"]),
    ],
)
def test_only_writable_paths_are_changed(root, writable, allowed, others):
    """Folders, files and globs, as in `paths`; an empty list is nothing."""
    run = EditingRun(root, *writable)
    if allowed:
        run.call("write", path=allowed, content="x")
    for path in others:
        assert "you may change" in refused(run, path) or "cannot be changed" in refused(run, path)


def test_a_writable_folder_that_leads_out_is_refused(root, tmp_path):
    """By a link that exists when the run begins."""
    (root / "docs").symlink_to(tmp_path)
    with pytest.raises(UsageError, match=r"writable: 'docs/' is outside the root"):
        EditingRun(root, "docs/")


def test_links_are_followed_and_then_checked(run, write, tmp_path):
    """To a file outside, into `.git`, to a secret, and to one that may be changed, which stays a link."""
    write({"a.md": "a\n", ".git/config": "x", "docs/b.md": "b\n"})
    for name, target in {"out": tmp_path / "secret.txt", "git": run.root / ".git", "ok.md": run.root / "a.md"}.items():
        (run.root / name).symlink_to(target)
    (run.root / "gone").symlink_to(tmp_path / "new.txt")
    assert "outside the root" in refused(run, "out")
    assert "outside the root" in refused(run, "gone")
    assert "belongs to git" in refused(run, "git/config")
    run.call("read", path="ok.md")
    assert "Changed a.md" in run.call("edit", path="ok.md", old="a", new="b")
    assert (run.root / "ok.md").is_symlink()
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_only_regular_files_are_changed(run):
    """Folders, FIFOs, sockets, devices and kernel files are neither read nor written, and nothing blocks."""
    (run.root / "folder").mkdir()
    os.mkfifo(run.root / "fifo")
    there = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(run.root)
    there.bind("socket")
    os.chdir(here)
    for path in ("folder", "fifo", "socket", "fifo/x"):
        assert "cannot be changed" in refused(run, path), path
    there.close()
    for root, paths in {"/dev": ("null", "zero"), "/proc/self": ("comm", "environ", "new", "cwd/new")}.items():
        kernel = EditingRun(Path(root), ".")
        for path in paths:
            with pytest.raises(ToolError):
                kernel.call("write", path=path, content="x")


def test_hard_links_and_read_only_files_are_not_replaced(run, write, tmp_path):
    """The other name would keep the old content; and read-only means that."""
    write({"a.md": "a\n", "b.md": "b\n"})
    os.link(run.root / "a.md", tmp_path / "other-name.md")
    (run.root / "b.md").chmod(0o444)
    for path, reason in {"a.md": "hard link", "b.md": "read-only"}.items():
        run.call("read", path=path)
        with pytest.raises(ToolError, match=reason):
            run.call("edit", path=path, old=path[0], new="x")
        assert (run.root / path).read_text() == f"{path[0]}\n"
    assert names_in(run.root) == ["a.md", "b.md"]


def test_files_that_are_too_large_or_not_text_are_refused(run, write):
    """Before and after the change; files that are not UTF-8 text stay unchanged."""
    write({"big.md": "x" * (MOST + 1), "latin.md": "ä".encode("latin-1"), "nul.md": b"a\0b" * 40, "a.md": "a"})
    for path in ("big.md", "latin.md", "a.md"):
        run.call("read", path=path)
    assert "larger than 2,000,000 bytes" in refused(run, "big.md", "edit", old="x", new="y")
    assert "not UTF-8" in refused(run, "latin.md", "edit", old="x", new="y")
    assert "read it first" in refused(run, "nul.md")
    assert "at most 2,000,000" in refused(run, "a.md", content="x" * (MOST + 1))
    assert "at most 2,000,000" in refused(run, "a.md", "edit", old="a", new="x" * (MOST + 1))
    assert "NUL" in refused(run, "new.md", content="a\0")


SWAPS = {
    "the file by another content": lambda root, away: (root / "docs/a.md").write_text("mine\n"),
    "the file by a link": lambda root, away: ((root / "docs/a.md").unlink(), (root / "docs/a.md").symlink_to(away)),
    "the file by a folder": lambda root, away: ((root / "docs/a.md").unlink(), (root / "docs/a.md").mkdir()),
    "no file": lambda root, away: (root / "docs/a.md").unlink(),
    "the folder by a link": lambda root, away: (
        (root / "docs").rename(root / "moved"),
        (root / "docs").symlink_to(away.parent),
    ),
    "the folder by another one": lambda root, away: ((root / "docs").rename(root / "moved"), (root / "docs").mkdir()),
    "no folder": lambda root, away: (root / "docs").rename(root / "moved"),
}


@pytest.mark.parametrize("moment", ["recorded", "written"])
@pytest.mark.parametrize("swap", SWAPS)
def test_what_is_swapped_before_the_replacement_is_noticed(root, write, tmp_path, monkeypatch, swap, moment):
    """After the change is recorded, and after the new content is on the disk: nothing is replaced, no rest is left."""
    away = tmp_path / "away" / "a.md"
    away.parent.mkdir()
    away.write_text("two\n")
    write({"docs/a.md": "two\n"})
    run, swapped_once = EditingRun(root, "docs/"), []
    run.call("read", path="docs/a.md")

    def swap_now():
        if not swapped_once:
            swapped_once.append(SWAPS[swap](root, away))

    if moment == "recorded":
        run.log.before_storing = swap_now
    else:
        original = safe_files._write_new
        monkeypatch.setattr(safe_files, "_write_new", lambda *given: (original(*given), swap_now()))
    with pytest.raises(ToolError, match="was not changed: "):
        run.call("edit", path="docs/a.md", old="two", new="2")
    assert (swapped_once != [], away.read_text(), run.log.events) == (True, "two\n", [])
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".tmp")]
    assert "2\n" not in {path.read_text() for path in tmp_path.rglob("*.md") if path.is_file()}


def test_a_new_file_does_not_replace_one_that_appears(root, write, monkeypatch):
    """It is created only if there is none, also where the file system has no hard links."""
    write({"docs/x": ""})
    run = EditingRun(root, "docs/")
    run.log.before_storing = lambda: (root / "docs/a.md").write_text("mine\n")
    with pytest.raises(ToolError, match="was created in the meantime"):
        run.call("write", path="docs/a.md", content="theirs\n")
    monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(PermissionError))
    (root / "docs/a.md").unlink()
    with pytest.raises(ToolError, match="was created in the meantime"):
        run.call("write", path="docs/a.md", content="theirs\n")
    assert (root / "docs/a.md").read_text() == "mine\n"
    run.log.before_storing = lambda: None
    run.call("write", path="docs/b.md", content="b\n")
    assert names_in(root / "docs") == ["a.md", "b.md", "x"]


@pytest.mark.skipif(not can_swap(), reason="only Linux exchanges two names in one step")
def test_links_that_are_swapped_all_the_time_lead_no_change_out(root, write, tmp_path):
    """While another process exchanges a folder and a file with links to outside, nothing outside changes."""
    write({"folder/x.md": "word\n", "file.md": "word\n"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("word\n")
    (tmp_path / "one").symlink_to(outside)
    (tmp_path / "two").symlink_to(outside / "x.md")
    run, changed = EditingRun(root, "."), 0
    with swapped((root / "folder", tmp_path / "one"), (root / "file.md", tmp_path / "two")):
        for number in range(TRIES):
            for path in ("folder/x.md", "file.md", f"folder/new{number}.md"):
                with suppress(ToolError):
                    run.call("read", path=path)
                with suppress(ToolError):
                    run.call("write", path=path, content=f"word {number}\n")
                    changed += 1
    assert names_in(outside) == ["x.md"]
    assert (outside / "x.md").read_text() == "word\n"
    assert not [*tmp_path.rglob("*.tmp")]
