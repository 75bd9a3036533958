"""A folder of files, and a project whose specialists are what each test writes, for the tests of this folder."""

import pytest

from run_specialist.spawning.trust import RunContext, Trust, origins_of_stored
from run_specialist.specialist.loader import load
from run_specialist.specialist.origins import ValueOrigins
from tests.projects import project


@pytest.fixture
def root(tmp_path):
    """Create a folder with notes, plans and a top-level file."""
    for name in ("notes/owls.md", "notes/deep/bats.md", "plans/next.md", "top.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"all about {name}\n")
    return tmp_path


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Set a home folder that does not exist yet, and return it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def app(tmp_path):
    """Create an empty project."""
    with project(tmp_path / "project") as made:
        yield made


@pytest.fixture
def context_of(app, tmp_path):
    """Return a function that writes a specialist of the project and returns the context of its run."""

    def write(*lines, trust=False, by_program=False, resumed=None):
        file = load(app.specialist(*lines))
        settings = file.specialist.model_copy(update=resumed or {})
        origins = None if resumed is None else origins_of_stored(settings, file)
        origins = ValueOrigins() if by_program else origins
        trusting = Trust(given=trust, folder=tmp_path / "trusted")
        return RunContext(file, settings, app.root, trusting, origins, resumed=resumed is not None)

    return write


@pytest.fixture
def own(home):
    """Return a function that writes a specialist into a folder of the user and returns its path."""

    def write(*lines, folder=".claude/agents"):
        path = home / folder / "mine.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["---", "name: mine", "description: Mine.", *lines, "---", "Mine.", ""]))
        return path

    return write
