"""A project's links are followed inside the project only; the user's own links may lead anywhere."""

import os
import socket
from pathlib import Path

import pytest

from run_specialist.errors import UsageError
from run_specialist.specialist.loader import SpecialistFile, load, write_new
from run_specialist.specialist.project import SearchFolder, places, project_of, project_root
from run_specialist.specialist.registry import Registry
from tests.link_swapper import can_swap, swapped

TEXT = "---\nname: NAME\ndescription: Finds.\n---\nYou find notes.\n"
TRIES = 40


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set an empty home directory, and disable the packaged specialists."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("run_specialist.specialist.project.packaged", lambda: tmp_path / "none")
    return tmp_path / "home"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a project with a folder next to its specialists."""
    for folder in (".git", "specialists", "prompts"):
        (tmp_path / "project" / folder).mkdir(parents=True)
    return tmp_path / "project"


def write(path: Path, name: str = "") -> Path:
    """Write a specialist's file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TEXT.replace("NAME", name or path.stem))
    return path


def link(path: Path, target: str | Path) -> Path:
    """Create a symlink."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


def listed(root: Path, folder: Path | None = None) -> dict[str, str]:
    """Return the status of each specialist that is found, by name."""
    return {file.name: file.status for file in Registry(places(root, folder)).files()}


def test_a_link_that_stays_in_the_project_is_followed(root: Path) -> None:
    """Relative, absolute and chained links are followed, also ones that leave the project and return to it."""
    write(root / "prompts" / "a.md")
    link(root / "specialists" / "relative.md", "../prompts/a.md")
    assert listed(root) == {"a": "ok"}
    for number, target in enumerate([root / "prompts/b.md", "../hop/b.md", "../../project/prompts/b.md"]):
        write(root / "prompts" / "b.md", f"b{number}")
        link(root / "hop", "prompts") if not (root / "hop").exists() else None
        (root / "specialists" / "b.md").unlink(missing_ok=True)
        link(root / "specialists" / "b.md", target)
        assert listed(root) == {"a": "ok", f"b{number}": "ok"} or listed(root) == {f"b{number}": "ok", "a": "ok"}


def test_a_linked_folder_in_the_project_is_searched(root: Path) -> None:
    """`.claude/agents` may link to `specialists`, which is then listed once, or to any other project folder."""
    write(root / "specialists" / "a.md")
    link(root / ".claude" / "agents", "../specialists")
    assert listed(root) == {"a": "ok"}
    (root / ".claude" / "agents").unlink()
    write(root / "prompts" / "deep" / "b.md")
    link(root / ".claude" / "agents", root / "prompts")
    assert listed(root) == {"a": "ok", "b": "ok"}


def test_the_project_itself_may_be_reached_by_a_link(root: Path, tmp_path: Path, monkeypatch) -> None:
    """A project reached through a link, like `/tmp` on macOS, works by either path and from inside."""
    write(root / "prompts" / "a.md")
    alias = link(tmp_path / "alias", root)
    link(root / "specialists" / "a.md", alias / "prompts" / "a.md")
    for one in (root, alias):
        assert listed(one) == {"a": "ok"}
        assert project_root(one / "prompts") == one
        assert Registry(places(one)).find(str(alias / "specialists" / "a.md")).status == "ok"
    monkeypatch.chdir(alias)
    assert Registry(places(Path())).find("specialists/a.md").status == "ok"


@pytest.mark.parametrize("has_git", [True, False])
def test_a_link_out_of_the_project_does_not_reveal_its_target(root: Path, tmp_path: Path, *, has_git: bool) -> None:
    """The error is the same whether or not the target exists, with git or without."""
    if not has_git:
        (root / ".git").rmdir()
    write(tmp_path / "outside.md", "secret")
    link(root / "specialists" / "a.md", tmp_path / "outside.md")
    link(root / "specialists" / "b.md", tmp_path / "nowhere.md")
    link(root / ".claude" / "agents", tmp_path)
    assert listed(root) == {"a": "error", "b": "error", "agents": "error"}
    one, other, folder = Registry(places(root)).files()
    text = f"it leads outside the project {root}; copy the target into the project"
    assert [str(problem) for problem in one.problems] == [f"{one.path}:1:1: cannot be read: {text}"]
    assert one.problems[0].text == other.problems[0].text
    assert str(folder.problems[0]) == f"{root}/.claude/agents:1:1: cannot be listed: {text}"


def test_a_project_link_to_a_file_of_the_user_is_refused(root: Path, home: Path) -> None:
    """A project's link to a user's file or folder is refused, and the user's own file is still found."""
    mine = write(home / ".claude" / "agents" / "mine.md")
    link(root / "specialists" / "mine.md", mine)
    link(root / ".claude" / "agents", mine.parent)
    files = Registry(places(root)).files()
    assert [(file.path, file.status) for file in files] == [
        (root / "specialists" / "mine.md", "error"),
        (root / ".claude" / "agents", "error"),
        (mine, "warning"),
    ]


def test_links_of_the_user_may_lead_anywhere(root: Path, home: Path, tmp_path: Path) -> None:
    """Links in the user's folders, a given folder outside projects and a command-line path may lead anywhere."""
    elsewhere = write(tmp_path / "elsewhere" / "a.md")
    link(home / ".claude" / "agents" / "a.md", elsewhere)
    link(tmp_path / "given" / "b.md", write(tmp_path / "elsewhere" / "b.md"))
    assert listed(root, tmp_path / "given") == {"a": "ok", "b": "ok"}
    (home / ".git").mkdir()
    assert listed(root)["a"] == "ok"
    assert Registry(places(root)).find(str(tmp_path / "given" / "b.md")).status == "ok"


def test_a_linked_project_file_must_stay_in_its_project(root: Path, home: Path, tmp_path: Path) -> None:
    """A linked project file is refused once it becomes a link out of its own project."""
    other = tmp_path / "team"
    (other / ".git").mkdir(parents=True)
    link(home / ".claude" / "agents" / "a.md", write(other / "agents" / "a.md"))
    assert listed(root) == {"a": "ok"}
    (other / "agents" / "a.md").unlink()
    link(other / "agents" / "a.md", write(tmp_path / "outside.md"))
    assert listed(root) == {"a": "error"}


def test_a_given_folder_is_restricted_to_its_project(root: Path, tmp_path: Path) -> None:
    """A given folder is restricted to the project that contains it, be it the current project or another one."""
    outside = write(tmp_path / "outside.md")
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    for folder in (root / "specialists", other / "agents"):
        path = link(folder / "a.md", outside)
        assert listed(root, folder) == {"a": "error"}
        assert Registry(places(root)).find(str(path)).status == "error"
        assert Registry([folder]).files()[0].status == "error"
        assert project_of(path) == folder.parent


@pytest.mark.parametrize("own", [True, False])
def test_special_files_are_never_opened(root: Path, home: Path, *, own: bool) -> None:
    """FIFOs, devices, sockets and `/proc` files are refused without blocking, also in the user's own folders."""
    folder = home / ".claude" / "agents" if own else root / "specialists"
    folder.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / "pipe.md")
    os.mkfifo(root / "pipe")
    link(folder / "device.md", "/dev/zero")
    link(folder / "linked.md", root / "pipe")
    link(folder / "loop.md", "loop.md")
    link(folder / "process.md", "/proc/self/environ")
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(folder)  # socket paths have a small maximum length
        try:
            listening.bind("socket.md")
        finally:
            os.chdir(here)
        assert set(listed(root).values()) == {"error"}
        assert len(listed(root)) == 6


def schema(root: Path, value: str, project: Path | None) -> SpecialistFile:
    """Load a specialist with an answer schema."""
    path = root / "specialists" / "a.md"
    path.write_text(TEXT.replace("NAME", f"a\noutput_schema: {value}"))
    return load(path, project)


def test_a_schema_path_must_stay_in_the_project(root: Path, tmp_path: Path) -> None:
    """A schema path must stay in the project, also through links; otherwise one error gives line and column."""
    (tmp_path / "shape.json").write_text('{"type": "object"}')
    (root / "shape.json").write_text('{"type": "object"}')
    link(root / "inside.json", "specialists/../shape.json")
    link(root / "outside.json", "../shape.json")
    for good in ("../shape.json", str(root / "shape.json"), "../inside.json"):
        assert schema(root, good, root).problems == ()
    for bad in ("../../shape.json", str(tmp_path / "shape.json"), "../outside.json", "/proc/self/environ"):
        (problem,) = schema(root, bad, root).problems
        assert (problem.line, problem.column, problem.key, problem.level) == (3, 16, "output_schema", "error")
        assert "it leads outside the project" in problem.text
        assert "object" not in problem.text
    # The user's own file may name any path.
    assert schema(root, str(tmp_path / "shape.json"), None).problems == ()


@pytest.mark.parametrize("force", [False, True])
def test_new_writes_nothing_outside_of_the_project(root: Path, tmp_path: Path, *, force: bool) -> None:
    """`new` writes through no link that leaves the project; links inside it are allowed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("precious")
    given = {"description": "Answers when something changed, from the changelog of the project."}
    link(root / "linked", outside)
    link(root / "specialists" / "a.md", outside / "victim")
    for folder in (root / "linked", root / "specialists"):
        with pytest.raises(UsageError, match=r"leads outside the project|already exists"):
            write_new(folder, "a", given, overwrite=force, project=root)
    link(root / "specialists" / "dangling.md", "../prompts/none.md")
    if not force:
        with pytest.raises(UsageError, match="already exists"):
            write_new(root / "specialists", "dangling", given, project=root)
        assert not (root / "prompts" / "none.md").exists()
    assert [path.name for path in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text() == "precious"
    link(root / ".claude" / "agents", "../prompts")
    assert write_new(root / ".claude" / "agents", "b", given, overwrite=force, project=root).is_file()
    assert write_new(root / "linked", "c", given, overwrite=force).is_file()


def test_new_replaces_a_longer_file_completely(root: Path) -> None:
    """Overwriting leaves nothing of a longer file behind; a FIFO in its place is refused."""
    given = {"description": "Answers when something changed, from the changelog of the project."}
    path = root / "specialists" / "a.md"
    path.write_text("x" * 100_000)
    write_new(path.parent, "a", given, overwrite=True, project=root)
    assert load(path, root).status == "ok"
    assert "xxx" not in path.read_text()
    os.mkfifo(path.parent / "b.md")
    with pytest.raises(UsageError, match="cannot be written"):
        write_new(path.parent, "b", given, overwrite=True, project=root)


@pytest.mark.exhaustive
def test_swapping_links_during_reads_discloses_nothing(root: Path, tmp_path: Path) -> None:
    """Swapping a file or folder for a link during reads discloses nothing from outside the project."""
    if not can_swap():
        pytest.skip("only Linux exchanges two names in one step")
    write(root / "specialists" / "a.md", "harmless")
    write(root / ".claude" / "agents" / "deep" / "b.md", "harmless")
    outside = tmp_path / "outside"
    write(outside / "deep" / "secret.md", "secret")
    one, two = link(tmp_path / "one", outside / "deep" / "secret.md"), link(tmp_path / "two", outside)
    with swapped((root / "specialists" / "a.md", one), (root / ".claude" / "agents", two)):
        for _ in range(TRIES):
            registry = Registry([*places(root), SearchFolder(root / "specialists" / "a.md", root)])
            told = [(file.name, file.description, file.path, file.problems) for file in registry.files()]
            assert "secret" not in str(told)
