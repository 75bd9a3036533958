"""An untrusted project cannot disclose the environment or files outside it without permission.

Each attack is one project; every command runs in it, in a separate process with a secret in its environment.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.forked_program import run_forked
from tests.secrets.canaries import stored, values_with_secret

FILE_SECRET = "marzipan-quokka-lamplight"  # noqa: S105 - a text to search for
ENVIRONMENT_SECRET = "zebra-cardigan-umbrella"  # noqa: S105 - a text to search for

COMMANDS = """
import asyncio, json, sys
from typer.testing import CliRunner
from run_specialist import Runner, delegate_tool
from run_specialist.cli import ask, manage
from run_specialist.cli.console import complete_names
from run_specialist.mcp_server.server import Service

NAMES = ["odd", "ODD_NAME", "specialists/odd.md"]
MANAGE = [
    ["list"], ["list", "--json"], ["list", "--root", ".", "--dir", "specialists"], ["list", "--dir", "."],
    ["check", "--strict"], ["check", "--json"], ["check", "specialists", ".claude/agents", ".", "specialists/odd.md"],
    ["tune", "odd"], ["transcript", "last"], ["report", "last", "--out", "report.html"],
    *(["show", name, "--json"] for name in NAMES),
]
said = []

def note(result):
    said.append(result.output)
    said.append(result.stderr)
    assert "No such option" not in result.stderr, result.stderr
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception

async def served():
    async with Runner() as runner:
        service = Service(runner, said.append)
        nobody = lambda *_: None
        for tool in await service.tools():
            said.append(tool.model_dump_json())
            if tool.name not in ("start_run", "get_run", "cancel_run"):
                said.append(repr(await service.call(tool.name, {"query": "What do owls eat?"}, nobody, nobody)))
        await service.close(5)
        try:
            said.append(json.dumps(delegate_tool(runner=runner).definition))
        except Exception as error:
            said.append(str(error))

for name in ["honest", *NAMES]:
    note(CliRunner().invoke(ask.app, [name, "What do owls eat?", "--model", "offline", "--events"]))
for command in MANAGE:
    note(CliRunner().invoke(manage.app, command))
said += complete_names("")
asyncio.run(served())
sys.stdout.write("\\n".join(said))
"""


@dataclass(frozen=True)
class Scene:
    """A project under the attacker's control, and a folder outside it with secrets."""

    project: Path
    outside: Path

    def link(self, path: str, target: str | Path) -> None:
        """Replace a path of the project with a link."""
        link = self.project / path
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_dir() and not link.is_symlink():
            (link / "honest.md").unlink(missing_ok=True)
            link.rmdir()
        link.symlink_to(target)

    def specialist(self, *lines: str, name: str = "odd") -> None:
        """Write a specialist's file with these lines of front matter."""
        text = "\n".join(["---", f"name: {name}", "description: Finds.", *lines, "---", "You find notes.", ""])
        (self.project / "specialists" / "odd.md").write_text(text)


Attack = Callable[[Scene], None]


def hop(scene: Scene) -> None:
    """Go through two links in the project, to a file and to a folder."""
    scene.link("hop/folder", scene.outside)
    scene.link("hop/file.md", "folder/secret.md")
    scene.link("specialists/odd.md", "../hop/file.md")


def up(scene: Scene) -> None:
    """Link to a folder above the project, which contains the folder with secrets too."""
    scene.link("specialists", "../..")


def up_and_in(scene: Scene) -> None:
    """Link to a file outside along a path that leaves the project, returns, and leaves it again."""
    scene.link("specialists/odd.md", "../../project/../outside/secret.md")


def middle(scene: Scene) -> None:
    """Link a parent folder of a place where specialists are searched for."""
    (scene.outside / "agents").mkdir()
    (scene.outside / "agents" / "odd.md").write_bytes((scene.outside / "secret.md").read_bytes())
    scene.link(".claude", scene.outside)


def git(scene: Scene) -> None:
    """Link to git's configuration, which is in the project and may hold tokens."""
    (scene.project / ".git" / "config").write_text((scene.outside / "secret.md").read_text())
    scene.link("specialists/odd.md", "../.git/config")


def schema_link(scene: Scene) -> None:
    """Name a schema that is a link inside the project."""
    scene.link("schemas/shape.json", scene.outside / "secret.json")
    scene.specialist("output_schema: ../schemas/shape.json")


def schema_folder(scene: Scene) -> None:
    """Name a schema in a linked folder."""
    scene.link("schemas", scene.outside)
    scene.specialist("output_schema: ../schemas/secret.json")


def servers(scene: Scene) -> None:
    """Name an MCP server from a linked configuration of another program."""
    scene.link(".mcp.json", scene.outside / "servers.json")
    scene.specialist("mcp_servers: [other]")


ATTACKS: dict[str, Attack] = {
    "file": lambda scene: scene.link("specialists/odd.md", scene.outside / "secret.md"),
    "relative": lambda scene: scene.link("specialists/odd.md", "../../outside/secret.md"),
    "agents": lambda scene: scene.link(".claude/agents/odd.md", scene.outside / "secret.md"),
    "chain": hop,
    "environment": lambda scene: scene.link("specialists/odd.md", "/proc/self/environ"),
    "root of a process": lambda scene: scene.link("specialists/odd.md", f"/proc/self/root{scene.outside}/secret.md"),
    "folder": lambda scene: scene.link("specialists", scene.outside),
    "other folder": lambda scene: scene.link(".claude/agents", scene.outside),
    "folder on the way": middle,
    "folder above": up,
    "out and in": up_and_in,
    "git": git,
    "schema": lambda scene: scene.specialist("output_schema: ../../outside/secret.json"),
    "absolute schema": lambda scene: scene.specialist(f"output_schema: {scene.outside}/secret.json"),
    "linked schema": schema_link,
    "schema in a linked folder": schema_folder,
    "schema of the environment": lambda scene: scene.specialist("output_schema: /proc/self/environ"),
    "agent": lambda scene: scene.specialist(f"agents: [{scene.outside}/secret.md]"),
    "agent by a link": lambda scene: (
        scene.link("notes/linked.md", scene.outside / "secret.md"),
        scene.specialist("agents: [notes/linked.md]"),
    )[0],
    "name that is a path": lambda scene: scene.specialist(name=f"{scene.outside}/secret.md"),
    "servers": servers,
}
LISTED = [name for name in ATTACKS if name not in {"servers", "name that is a path"}]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A project with a note and a harmless specialist, and a folder with secrets beside it."""
    made = Scene(tmp_path / "project", tmp_path / "outside")
    for folder in (made.project / ".git", made.project / "specialists", made.project / "notes", made.outside):
        folder.mkdir(parents=True)
    (made.project / "notes" / "owls.md").write_text("# Owls\n\nOwls eat mice at night.\n")
    honest = "---\nname: honest\ndescription: Finds notes.\npaths: [notes]\n---\nYou find notes.\n"
    (made.project / "specialists" / "honest.md").write_text(honest)
    text = f"---\nname: {FILE_SECRET}\ndescription: {FILE_SECRET}\n---\n{FILE_SECRET}\n"
    for name in ("secret.md", f"{FILE_SECRET}.md"):
        (made.outside / name).write_text(text)
    shape = {"type": "object", "properties": {FILE_SECRET: {"const": FILE_SECRET}}}
    (made.outside / "secret.json").write_text(json.dumps(shape))
    (made.outside / "servers.json").write_text(json.dumps({"mcpServers": {FILE_SECRET: {"command": FILE_SECRET}}}))
    return made


def all_commands(scene: Scene, tmp_path: Path) -> str:
    """Run every command in the project and return everything printed; fail if one of them crashed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {
        "HOME": str(tmp_path / "home"),
        "SPECIALIST_STORE": f"sqlite:///{tmp_path}/store/runs.db",
        "API_KEY": ENVIRONMENT_SECRET,
    }
    command = [sys.executable, "-W", "error", "-c", COMMANDS.replace("ODD_NAME", f"{scene.outside}/secret")]
    done = run_forked(command, cwd=scene.project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.exhaustive(one_in=21)
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_command_discloses_secrets_outside_the_project(scene: Scene, tmp_path: Path, attack: str) -> None:
    """Neither the output, the MCP server's tools, the store nor the report contains a piece of the secrets."""
    if "/proc" in attack and not Path("/proc/self/environ").exists():
        pytest.skip("there are no files of processes")
    ATTACKS[attack](scene)
    told = all_commands(scene, tmp_path)
    report = scene.project / "report.html"
    kept = [*stored(tmp_path / "store"), report.read_text() if report.exists() else ""]
    for secret in (FILE_SECRET, ENVIRONMENT_SECRET):
        assert values_with_secret(secret, told, *kept) == []


@pytest.mark.parametrize("attack", LISTED)
def test_each_refused_file_is_listed_with_the_reason(scene: Scene, monkeypatch, attack: str) -> None:
    """Each refused file is listed on one line with its place and the reason."""
    from typer.testing import CliRunner

    from run_specialist.cli import manage

    ATTACKS[attack](scene)
    monkeypatch.chdir(scene.project)
    monkeypatch.setenv("HOME", str(scene.outside.parent / "home"))
    printed = CliRunner().invoke(manage.app, ["list"]).output
    reasons = ("leads outside the project", "leads into .git")
    (line,) = [line for line in printed.splitlines() if any(reason in line for reason in reasons)]
    assert line.split(":")[1:3] in (["1", "1"], ["4", "1"], ["4", "16"])
