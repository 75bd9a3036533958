"""Trust: given once for what a file would start and import, remembered by content, and never assumed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist.errors import NotTrusted, UsageError
from run_specialist.spawning.extra_tools import wanted_by
from run_specialist.spawning.trust import Claim, Demand, RunContext, Trust, origins_of_stored
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile, load
from tests.forked_program import ForkedProgram

DEMAND = Demand("f.md:4:1: python_tools", "import app.tools", "mark")


@pytest.fixture
def app(app):
    """Write a module, and a specialist that names its function."""
    app.write("PKG/__init__.py")
    app.write("PKG/tools.py", "def lookup() -> str:", "    return ''")
    app.specialist("python_tools: ['PKG.tools:lookup']")
    return app


def claim(folder: Path, **changed: object) -> Claim:
    """Return the claim of a file, with changes."""
    return replace(Claim(folder / "f.md", "digest", folder, (DEMAND,)), **changed)


def claim_of(app, path: Path | None = None, **how: bool) -> Claim:
    """Return what a specialist's file would start and import."""
    file = load(path or app.root / "specialists" / "finder.md")
    origins = origins_of_stored(file.specialist, file) if how.get("resumed") else None
    return wanted_by(RunContext(file, file.specialist, app.root, origins=origins, **how)).claim


@pytest.mark.parametrize(
    "changed",
    [
        {"digest": "other"},
        {"project": Path("/elsewhere")},
        {"demands": (replace(DEMAND, fingerprint="other"),)},
        {"demands": (DEMAND, replace(DEMAND, fingerprint="more"))},
    ],
    ids=["file", "project", "module", "one more"],
)
def test_a_change_requires_trust_again(tmp_path, changed):
    """A changed file, module, server or project needs trust again; earlier permissions remain valid, also later.

    A file without demands needs no trust.
    """
    assert not Trust(folder=tmp_path).is_known(claim(tmp_path))
    assert Trust(folder=tmp_path, given=True).check(claim(tmp_path)) == ()
    with pytest.raises(NotTrusted):
        Trust(folder=tmp_path).check(claim(tmp_path, **changed))
    assert Trust(folder=tmp_path).check(claim(tmp_path)) == ()
    assert Trust(folder=tmp_path).is_known(claim(tmp_path))
    assert Trust(folder=tmp_path).check(claim(tmp_path, **changed | {"demands": ()})) == ()


def test_trust_is_stored_in_a_private_file(tmp_path, monkeypatch):
    """Trust is stored in the data directory as small, human-readable JSON, readable by its owner only."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    Trust(given=True).check(claim(tmp_path))
    (kept,) = (tmp_path / "data" / "run-specialist" / "trusted").iterdir()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    told = json.loads(kept.read_text())
    assert (told["file"], told["allowed"]) == (str(tmp_path / "f.md"), ["import app.tools"])
    kept.unlink()
    with pytest.raises(NotTrusted):
        Trust().check(claim(tmp_path))


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{}", '{"mark": "another"}', "\0" * 100, "[" * 100_000])
def test_a_damaged_trust_file_grants_nothing(tmp_path, content):
    """A damaged trust file, or a folder in its place, grants nothing; trust that is given again repairs a file."""
    asked = claim(tmp_path)
    path = tmp_path / f"{asked.fingerprint}.json"
    path.mkdir()
    for _ in ("a folder", "a file"):
        with pytest.raises(NotTrusted, match="not allowed yet"):
            Trust(folder=tmp_path).check(asked)
        assert not Trust(folder=tmp_path).is_known(asked)
        if path.is_dir():
            path.rmdir()
            path.write_text(content)
    assert Trust(folder=tmp_path, given=True).check(asked) == ()
    assert Trust(folder=tmp_path).is_known(asked)


def test_unstorable_trust_is_valid_for_one_runner(tmp_path):
    """If trust cannot be stored, a warning names the folder, and trust holds for this runner only."""
    (tmp_path / "file").write_text("")
    trust = Trust(folder=tmp_path / "file" / "trusted", given=True)
    (warning,) = trust.check(claim(tmp_path))
    assert f"cannot store the permission in {tmp_path}/file/trusted (" in warning
    assert trust.check(claim(tmp_path)) == ()
    with pytest.raises(NotTrusted):
        Trust(folder=tmp_path / "file" / "trusted").check(claim(tmp_path))


MANY = """
import sys
from pathlib import Path
from run_specialist.spawning.trust import Claim, Demand, Trust
folder = Path(sys.argv[1])
for number in range(30):
    demands = (Demand("f.md:4:1: python_tools", "import app", f"mark {number % 10}"),)
    assert Trust(folder=folder, given=True).check(Claim(folder / "f.md", "digest", folder, demands)) == ()
    assert Trust(folder=folder).is_known(Claim(folder / "f.md", "digest", folder, demands))
"""


@pytest.mark.exhaustive
def test_several_processes_may_store_trust_at_once(tmp_path):
    """Concurrent writers lose no permission, and no partially written file is ever read."""
    command = [sys.executable, "-W", "error", "-c", MANY, str(tmp_path)]
    processes = [ForkedProgram(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode) for process in processes] == [("", 0)] * 2
    assert len(list(tmp_path.iterdir())) == 10


def test_one_error_names_every_demand_with_its_place_and_module(app):
    """One line names the place of each key, the module with its file, the command, and the argument that allows it."""
    app.specialist("python_tools: ['PKG.tools:lookup']", "mcp_servers: {files: {command: serve}}")
    with pytest.raises(NotTrusted) as caught:
        Trust().check(claim_of(app))
    assert isinstance(caught.value, UsageError)
    said, path = str(caught.value), app.root / "specialists" / "finder.md"
    module = f"{app.package}.tools ({app.root / app.package / 'tools.py'})"
    assert said.startswith(f"{path}:4:1: python_tools: would import {module}; ")
    assert f"{path}:5:1: mcp_servers: would start serve;" in said
    assert ("`trust=True`" in said, "\n" in said) == (True, False)


@pytest.mark.parametrize("path", ["PKG/tools.py", "PKG/__init__.py", "specialists/finder.md"])
def test_a_change_to_any_file_of_the_chain_changes_the_claim(app, path):
    """Changing the specialist, module or a parent package changes the claim; reverting it restores it."""
    before = claim_of(app).fingerprint
    file = app.root / path.replace("PKG", app.package)
    text = file.read_text()
    file.write_text(text + "\n")
    assert claim_of(app).fingerprint != before
    file.write_text(text)
    assert claim_of(app).fingerprint == before


def test_the_claim_covers_the_bytes_that_were_read(app):
    """The claim covers the bytes read; a later change to the file affects only later loads."""
    path = app.root / "specialists" / "finder.md"
    context = RunContext(file := load(path), file.specialist, app.root)
    before = wanted_by(context).claim.fingerprint
    path.write_text(path.read_text() + "\nMore.")
    assert wanted_by(context).claim.fingerprint == before
    assert claim_of(app).fingerprint != before


SERVERS = {
    "{command: [npx, -y, files]}": "start npx -y files",
    "{url: 'https://example.org/mcp'}": "connect to https://example.org/mcp",
    "{url: 'http://127.0.0.1:8000/mcp'}": "connect to http://127.0.0.1:8000/mcp",
    "{url: 'http://localhost:8000/mcp'}": "connect to http://localhost:8000/mcp",
    "{url: 'http://[::1]:8000/mcp'}": "connect to http://[::1]:8000/mcp",
    "{url: 'http://localhost/${KEY}', headers: {A: '${TOKEN}'}}": (
        "connect to http://localhost/${KEY}, with KEY, TOKEN from the environment"
    ),
    "{url: 'http://localhost.example.org/mcp'}": "connect to http://localhost.example.org/mcp",
}


@pytest.mark.parametrize("entry", SERVERS)
def test_a_command_and_a_loopback_url_need_trust(app, entry):
    """Loopback URLs need trust too: any local user can listen there, and environment variables may be sent."""
    app.specialist(f"mcp_servers: {{web: {entry}}}")
    assert [demand.action for demand in claim_of(app).demands] == [SERVERS[entry]]


@pytest.mark.parametrize("place", [".config/run-specialist/specialists", ".claude/agents"])
def test_a_file_of_the_user_needs_no_trust_for_its_own_servers(app, own, place):
    """The user's own files need no trust, except for modules and servers that they take from a project."""

    def asked(line):
        return [demand.action.split(" (")[0] for demand in claim_of(app, own(line, folder=place)).demands]

    assert asked("mcp_servers: {files: {command: serve}}") == []
    assert asked("python_tools: ['textwrap:dedent']") == []
    assert asked(f"python_tools: ['{app.package}.tools:lookup']") == [f"import {app.package}.tools"]
    (app.root / ".mcp.json").write_text('{"mcpServers": {"near": {"command": "from-the-project"}}}')
    assert asked("mcp_servers: [near]") == ["start from-the-project"]


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        ("{command: ./run.sh}", True),
        ("{command: python3 ./run.sh}", True),
        ("{command: python3, args: [-u, run.sh]}", True),
        ("{command: sub/../run.sh}", True),
        ("{command: ./it.sh, cwd: sub}", True),
        ("{command: run.sh}", False),
        ("{command: serve specialists}", False),
        ("{command: ./other.sh}", False),
        ('{command: serve "a\\0b" {long}}', False),
        ("{command: {root}/run.sh}", False),
        ("{command: serve run.sh, cwd: /}", False),
        ('{url: "http://localhost/mcp"}', False),
    ],
)
def test_a_relative_path_into_the_project_needs_trust(app, own, entry, asked):
    """In the user's own file, a relative path into the project needs trust; an absolute path does not."""
    (app.root / "run.sh").write_text("x")
    (app.root / "sub").mkdir()
    (app.root / "sub" / "it.sh").write_text("x")
    entry = entry.replace("{long}", "x" * 5_000).replace("{root}", str(app.root))
    assert bool(claim_of(app, own(f"mcp_servers: {{s: {entry}}}")).demands) is asked


def test_a_link_to_a_project_file_counts_as_the_projects(app, own):
    """A link to a project's file counts as the project's, because changing the target changes what is started."""
    mine = own()
    link = mine.with_name("finder.md")
    link.symlink_to(app.root / "specialists" / "finder.md")
    assert load(link).origin == "project"
    assert load(mine).origin == "caller"
    assert load(app.root / "specialists" / "finder.md").origin == "project"


def test_a_specialist_created_in_python_needs_no_trust(app):
    """A Specialist created in Python needs no trust, because its program can import and start anything anyway."""
    value = Specialist(name="mine", description="", prompt="", python_tools=(f"{app.package}.tools:lookup",))
    file = SpecialistFile(Path("<mine>"), "mine", "", specialist=value, given_origin="caller")
    assert wanted_by(RunContext(file, value, app.root)).claim.demands == ()
    gone = load(app.root / "mine.md")
    (demand,) = wanted_by(
        RunContext(gone, value, app.root, origins=origins_of_stored(value, gone), resumed=True)
    ).claim.demands
    assert demand.refused.startswith("data, such as a stored run")


def test_a_stored_run_is_compared_with_the_current_file(app, own):
    """A resumed run has the same claim only if its names match the current file, also in the user's own folder."""
    before = claim_of(app)
    assert (claim_of(app, resumed=True).fingerprint, len(before.demands)) == (before.fingerprint, 1)
    mine = own("mcp_servers: {files: {command: serve}}")
    stored = load(mine).specialist

    def wanted(path, settings):
        file = load(path)
        return wanted_by(
            RunContext(file, settings, app.root, origins=origins_of_stored(settings, file), resumed=True)
        ).claim

    assert wanted(mine, stored).demands == ()
    forged = stored.model_copy(update={"mcp_servers": {"files": {"command": "harm"}}})
    (demand,) = wanted(mine, forged).demands
    assert (demand.action, bool(demand.refused)) == ("start harm", True)
    with pytest.raises(NotTrusted, match="data, such as a stored run, an eval case or a queue, cannot decide this"):
        Trust(given=True).check(wanted(mine, forged))
    forged = load(app.root / "specialists" / "finder.md").specialist.model_copy(update={"python_tools": ("os:system",)})
    assert not Trust(given=True).allows(wanted(app.root / "specialists" / "finder.md", forged))
