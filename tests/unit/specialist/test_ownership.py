"""Specialists in other users' folders are not loaded by default, and the message explains how to load them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from run_specialist import Runner
from run_specialist.cli import ask, manage
from run_specialist.errors import SpecialistNotFound, with_flags
from run_specialist.specialist.project import VARIABLE, ownership_problem, packaged, places, project_root
from run_specialist.specialist.registry import Registry

if not hasattr(os, "geteuid"):
    pytest.skip("nobody owns a file here", allow_module_level=True)

OTHER = 4_242
TEXT = "---\nname: thoughts-analyzer\ndescription: Of a stranger.\n---\nYou find notes.\n"

Give = Callable[..., None]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set an empty home directory, and unset SUDO_UID."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """Return a function that makes paths appear to belong to another user, whether or not the tests run as root."""
    strangers: set[str] = set()
    real = os.stat

    def stat(path, *arguments, follow_symlinks=True, **options):
        info = real(path, *arguments, follow_symlinks=follow_symlinks, **options)
        at = os.path.realpath(path) if follow_symlinks else os.path.abspath(path)  # noqa: PTH100 - keeps a link
        if at not in strangers:
            return info
        return os.stat_result((*info[:4], OTHER, *info[5:]))

    def give_away(*paths: Path) -> None:
        strangers.update(map(str, paths))
        monkeypatch.setattr("run_specialist.specialist.project.os.stat", stat)

    return give_away


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project whose specialist has the name of a packaged one, and change into a subfolder."""
    root = tmp_path / "shared"
    for folder in (".git", "specialists", ".claude/agents", "mine"):
        (root / folder).mkdir(parents=True)
    (root / "specialists" / "a.md").write_text(TEXT)
    monkeypatch.chdir(root / "mine")
    return root


def found(root: Path, **how: bool) -> Path:
    """Return the path of the file that is found by the name."""
    return Registry(places(root, **how)).find("thoughts-analyzer").path


@pytest.mark.parametrize("what", ["", ".git"])
def test_a_folder_of_another_user_is_not_taken_as_the_project(shared: Path, give: Give, what: str) -> None:
    """If the folder or its `.git` is another user's, the current folder is the root, and nothing above it is loaded."""
    assert project_root(shared / "mine") == shared
    assert found(shared) == shared / "specialists" / "a.md"
    give(shared / what)
    root = project_root(shared / "mine")
    assert root == shared / "mine"
    assert found(root) == packaged() / "thoughts-analyzer.md"
    assert found(shared) == packaged() / "thoughts-analyzer.md"


@pytest.mark.parametrize("what", ["specialists", ".claude", ".claude/agents"])
def test_a_specialist_folder_of_another_user_is_not_loaded(shared: Path, give: Give, what: str) -> None:
    """Another user's specialist folder, as anyone can create in `/tmp`, is skipped; the project's others load."""
    (shared / ".claude" / "agents" / "b.md").write_text(TEXT.replace("thoughts-analyzer", "b"))
    give(shared / what)
    registry = Registry(places(shared))
    status = {file.name: file.status for file in registry.files()}
    if what == "specialists":
        assert (status["specialists"], status["b"]) == ("error", "ok")
    else:
        assert (status["agents"], "b" in status) == ("error", False)
        assert found(shared) == shared / "specialists" / "a.md"


def test_messages_name_the_owner_and_the_remedy(shared: Path, give: Give) -> None:
    """`list`, a failed lookup and a run, which still answers, each show the owner and the remedy on one line."""
    give(shared)
    line = (
        f"{shared}/specialists:1:1: {shared} belongs to another user (uid {OTHER}); its files are not loaded; if you "
        f"trust it, use `root={shared}`, or set {VARIABLE}={shared}"
    )
    listed = CliRunner().invoke(manage.app, ["list"]).output.splitlines()
    assert with_flags(line.replace(":1:1: ", ":1:1: error: ", 1)) in listed
    assert len([text for text in listed if "another user" in text]) == 2
    with pytest.raises(SpecialistNotFound) as caught:
        Registry(places(shared / "mine")).find("a")
    assert line in str(caught.value)
    (shared / "mine" / "thoughts").mkdir()
    (shared / "mine" / "thoughts" / "owls.md").write_text("# Owls\n\nOwls eat mice.\n")
    done = CliRunner().invoke(ask.app, ["thoughts-analyzer", "What do owls eat?", "--model", "offline"])
    assert (done.exit_code, "mice" in done.stdout) == (0, True)
    assert f"warning: {with_flags(line)}" in done.stderr
    assert CliRunner().invoke(manage.app, ["check"]).exit_code == 2


@pytest.mark.parametrize("value", ["{}", "/nowhere:{}", "*"])
def test_the_environment_variable_allows_the_folders_it_names(shared: Path, give: Give, monkeypatch, value) -> None:
    """The variable allows the folders it names, as for a container's mounted folder, and no others."""
    give(shared)
    monkeypatch.setenv(VARIABLE, value.format(shared).replace(":", os.pathsep))
    assert project_root(shared / "mine") == shared
    assert found(shared) == shared / "specialists" / "a.md"
    monkeypatch.setenv(VARIABLE, str(shared.parent))
    assert project_root(shared / "mine") == shared / "mine"


def test_an_explicit_root_or_folder_is_loaded(shared: Path, give: Give) -> None:
    """An explicit `--root`, `root=` or `--dir` loads that folder; a `--root` of another folder does not."""
    give(shared)
    assert found(shared, meant=True) == shared / "specialists" / "a.md"
    assert Runner(root=shared).registry.find("thoughts-analyzer").path == shared / "specialists" / "a.md"
    assert Runner(root=shared / "mine").registry.find("thoughts-analyzer").path.parent == packaged()
    assert Runner(dir=shared / "specialists").registry.find("thoughts-analyzer").path.parent == shared / "specialists"
    for flag in (["--root", str(shared)], ["--dir", str(shared / "specialists")]):
        printed = CliRunner().invoke(manage.app, ["show", "thoughts-analyzer", *flag]).output
        assert "Of a stranger." in printed


def test_folders_of_root_and_of_the_sudo_user_are_accepted(shared: Path, give: Give, monkeypatch) -> None:
    """As in ssh and git, root's folders are accepted, and under sudo also those of the calling user."""
    assert ownership_problem(shared) is None
    if Path("/").stat().st_uid == 0:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER)
        assert ownership_problem(Path("/")) is None
    give(shared)
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    monkeypatch.setattr(os, "geteuid", lambda: OTHER - 1)
    assert ownership_problem(shared) == f"{shared} belongs to another user (uid {OTHER})"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (shared / ".git").rmdir()
    assert ownership_problem(shared) is None
    monkeypatch.setenv("SUDO_UID", "nonsense")
    assert ownership_problem(shared) is not None


def test_the_owner_of_a_link_itself_counts(shared: Path, give: Give) -> None:
    """The owner of the link itself counts, because another user's link may point to one's own folder."""
    (shared / "specialists").rename(shared / "mine" / "notes")
    (shared / "specialists").symlink_to("mine/notes")
    assert found(shared).parent == shared / "specialists"
    give(shared / "specialists")
    assert found(shared).parent == packaged()


def test_packaged_specialists_load_from_a_checkout_of_another_user(shared: Path, give: Give, monkeypatch) -> None:
    """Packaged specialists load even from another user's checkout, but are refused as that project's files."""
    monkeypatch.setattr("run_specialist.specialist.project.packaged", lambda: shared / "specialists")
    give(shared)
    assert [file.status for file in Registry(places(shared)).files()] == ["error", "error", "ok"]
    assert found(shared) == shared / "specialists" / "a.md"


def test_a_subfolder_used_as_root_is_its_own_project(shared: Path) -> None:
    """A subfolder used as the root is its own project, as with `--root`; nothing above it is searched."""
    assert shared not in [place.path.parent for place in places(shared / "mine")]


def test_an_mcp_json_of_another_user_is_ignored(shared: Path, give: Give) -> None:
    """Another user's `.mcp.json` above the current folder is ignored; one in the current folder is used."""
    from run_specialist.specialist.mcp_servers import project_file

    (shared / ".git").rmdir()
    (shared / ".mcp.json").write_text("{}")
    assert project_file(shared / "mine") == shared / ".mcp.json"
    give(shared / ".mcp.json")
    assert project_file(shared / "mine") is None
    assert project_file(shared) == shared / ".mcp.json"
