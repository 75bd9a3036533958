"""Keys with well-known formats are masked in files that are read and in texts from other people's code."""

import json
import os
import random
import string
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mcp import Client
from typer.testing import CliRunner

from run_specialist import Runner, Specialist, ToolError, delegate_tool
from run_specialist.cli import ask, manage
from run_specialist.loop.observing import CONTENT
from run_specialist.mcp_server.server import Service, make_server
from run_specialist.safety.credentials import MASK
from run_specialist.tools.base import Output
from tests.forked_program import run_forked
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.scripted_specialists import ScriptedSpecialists, write
from tests.secrets.canaries import stored, values_with_secret
from tests.spans import recorded

PLACES = ("note", "far", "returned", "noted", "raised", "told", "cause", "below", "augmenter", "listener", "bug")
BODIES = {
    name: "".join(random.Random(name).choices(string.ascii_letters + string.digits, k=40))  # noqa: S311 - no secrets
    for name in PLACES
}
"""Random part of the key in each place, which identifies the place."""


def key(place: str) -> str:
    """Return the key of a place."""
    return f"sk-ant-api03-{BODIES[place]}"


def leaks(*told: object) -> dict[str, list[str]]:
    """Return, by place, what contains a piece of its key."""
    texts = [one if isinstance(one, BaseException | str) else f"{one!r} {one}" for one in told]
    return {name: found for name, body in BODIES.items() if (found := values_with_secret(body, *texts))}


def returns() -> str:
    """Return one key."""
    return f"it is {key('returned')}, he said"


def notes() -> Output:
    """Return one beside a text."""
    return Output("a text", f"[{key('noted')}]")


def raises() -> str:
    """Raise two."""
    raise RuntimeError(f"no {key('raised')}") from ValueError(key("cause"))


def tells() -> str:
    """Tell one."""
    raise ToolError(f"not with {key('told')}")


OWN = (returns, notes, raises, tells)
WORK = [
    calls(("grep", {"pattern": "sk-"}), ("read", {"path": "a.md"}), ("search", {"query": "owls key"})),
    calls(*((one.__name__, {}) for one in OWN), first_id=10),
    calls(("get_tool_response", {"execution_id": "call_1", "offset": 5}), first_id=20),
]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with keys in its notes as the working directory, and a store."""
    (tmp_path / ".git").mkdir()
    text = f"# Owls\n\nowls have the key {key('note')}\n" + "owls eat mice\n" * 2_000 + f"owls key {key('far')}\n"
    (tmp_path / "a.md").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SPECIALIST_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv(CONTENT, "true")
    return tmp_path


def shown(folder) -> list[str]:
    """Return the output of all commands for the newest run, and the contents of all files."""
    commands = ("runs --json", "runs", "transcript last --json", "transcript last", "report last --json")
    printed = [CliRunner().invoke(manage.app, one.split()) for one in (*commands, "report last --out -")]
    assert {one.exit_code for one in printed} == {0}
    return [*(text for one in printed for text in (one.stdout, one.stderr)), *stored(folder)]


async def test_keys_in_files_and_notes_are_masked_everywhere(project):
    """Requests, outcome, events, spans with content, store, report and transcript contain no piece of a key."""
    own = Specialist(name="finder", description="", prompt="You look.", tools=None, summarize_at=100_000)
    provider, told = ScriptedProvider([*WORK, says("done")]), []
    with recorded() as spans:
        async with Runner(provider=provider, tools=OWN) as runner:
            outcome = await runner.run(own, "What?", listener=told.append)
    assert outcome.tool_calls.failed == 2
    requests = [message.encoded.decode() for asked in provider.requests for message in asked.messages]
    assert "".join(requests).count(MASK) > 8
    everything = [*told, outcome, *requests, runner, *(span.to_json() for span in spans.all), *shown(project)]
    assert leaks(*everything) == {}


def below() -> str:
    """Return the key that only a child sees."""
    return key("below")


async def test_keys_read_by_a_child_are_masked_for_its_callers(project):
    """The evidence of a run without an answer is masked for its parent, an agent and an MCP client."""
    write(project, "lead", "agents: [finder]")
    write(project, "finder")
    child, told = [calls(("below", {})), says(""), says("")], []
    lead = [calls(("delegate", {"specialist": "finder", "query": "What?"})), says(""), says("")]
    async with Runner(provider=ScriptedSpecialists(lead=[lead], finder=[child, child, child]), tools=[below]) as runner:
        told.append(await runner.run("lead", "What?", listener=told.append))
        told.append(await delegate_tool("finder", runner=runner)({"specialist": "finder", "query": "What?"}))
        service = Service(runner, told.append)
        async with Client(make_server(service)) as client:
            told.append(await client.call_tool("finder", {"query": "What?"}))
        await service.close(5)
    assert str(told).count(MASK) >= 3
    assert leaks(*told, *shown(project)) == {}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("place", ["augmenter", "listener", "bug"])
async def test_keys_in_errors_of_other_code_are_masked(project, monkeypatch, caplog, place):
    """Keys and the process's credentials are masked in errors of an augmenter, a listener or a provider."""
    caplog.set_level("DEBUG", "run_specialist")
    own_token = "puffin-marmalade-sextant"  # noqa: S105 - it opens nothing
    monkeypatch.setenv("DEPLOY_TOKEN", own_token)
    told: list[object] = []

    def fails(_: object) -> None:
        raise RuntimeError(f"no {key(place)} {own_token}")

    def listen(event: object) -> None:
        told.append(event)
        if place == "listener":
            fails(event)

    own = Specialist(name="finder", description="", prompt="You look.", tools=None)
    end = RuntimeError(f"{key('bug')} {own_token}") if place == "bug" else says("done")
    augmenters = [fails] if place == "augmenter" else []
    provider = ScriptedProvider([calls(("ls", {})), end])
    async with Runner(provider=provider, augmenters=augmenters) as runner:
        outcome = await runner.run(own, "What?", listener=listen)
    assert MASK in f"{outcome.warnings} {outcome.error}"
    assert leaks(*told, outcome, outcome.error, *shown(project)) == {}
    assert values_with_secret(own_token, *told, outcome, outcome.error) == []


def test_a_key_in_an_import_error_is_masked(project):
    """The error that explains why a function cannot be imported is masked."""
    (project / "odd.py").write_text(f"raise RuntimeError('no {key('raised')}')\n")
    write(project, "finder", "python_tools: [odd:look]")
    result = CliRunner().invoke(ask.app, ["finder", "What?", "--model", "offline", "--trust"])
    assert (result.exit_code, MASK in result.stderr) == (2, True)
    assert leaks(result.stdout, result.stderr, result.exception) == {}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("flags", [["--json"], ["--events"], []])
def test_keys_quoted_by_an_offline_answer_are_masked(project, flags):
    """No piece of a key is printed, stored or left in a temporary file."""
    write(project, "finder", "tools: [search, grep, read, ls, glob]", "paths: [.]")
    result = CliRunner().invoke(ask.app, ["finder", "Which key do owls have?", "--model", "offline", *flags])
    assert result.exit_code == 0
    assert "owls" in result.stdout
    assert leaks(result.stdout, result.stderr, *shown(project)) == {}


@pytest.mark.parametrize("command", ["run-specialist", "runs", "transcript last", "tune finder", "resume last", "mcp"])
def test_no_command_prints_the_password_of_a_store(project, command):
    """No command prints the password if the server cannot be reached; the password has no well-known format."""
    write(project, "finder")
    app, words = manage.app, command.split()
    if command == "run-specialist":
        app, words = ask.app, ["finder", "What?", "--model", "offline"]
    password = "zebra-cardigan-lamplight-quokka"  # noqa: S105 - it opens nothing
    url = f"postgresql://me:{password}@127.0.0.1:9/runs?sslpassword={password}"
    result = CliRunner().invoke(app, [*words, "--store", url], input="")
    assert result.exit_code == 2
    assert values_with_secret(password, result.stdout, result.stderr, result.exception) == []


# An untrusted project cannot disclose the environment or files outside it without permission. Each attack is one
# project; every command runs in it, in a separate process with a secret in its environment.
FILE_SECRET = "marzipan-quokka-lamplight"  # noqa: S105 - a text to search for
ENVIRONMENT_SECRET = "zebra-cardigan-umbrella"  # noqa: S105 - a text to search for

COMMANDS = """
import asyncio, json, sys
from typer.testing import CliRunner
from run_specialist import Runner, delegate_tool
from run_specialist.cli import ask, manage
from run_specialist.cli.console import complete_names
from run_specialist.mcp_server.server import Service

NAMES = sys.argv[1:]
MANAGE = [
    ["list"], ["list", "--json"], ["list", "--root", ".", "--dir", "specialists"], ["list", "--dir", "."],
    ["check", "--strict"], ["check", "--json"], ["check", "specialists", ".claude/agents", "."], ["tune", NAMES[0]],
    *(["check", name] for name in NAMES if name.startswith("specialists")),
    ["transcript", "last"], ["report", "last", "--out", "report.html"],
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
    name: str = "odd"
    """Of the specialist that the attack is about."""

    @property
    def file(self) -> str:
        """Its file."""
        return f"specialists/{self.name}.md"

    def link(self, path: str, target: str | Path) -> None:
        """Replace a path of the project with a link."""
        link = self.project / path
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_dir() and not link.is_symlink():
            (link / "honest.md").unlink(missing_ok=True)
            link.rmdir()
        link.symlink_to(target)

    def specialist(self, *lines: str, name: str = "") -> None:
        """Write a specialist's file with these lines of front matter."""
        text = "\n".join(
            ["---", f"name: {name or self.name}", "description: Finds.", *lines, "---", "You find notes.", ""]
        )
        (self.project / self.file).write_text(text)


Attack = Callable[[Scene], None]


def hop(scene: Scene) -> None:
    """Go through two links in the project, to a file and to a folder."""
    scene.link("hop/folder", scene.outside)
    scene.link("hop/file.md", "folder/secret.md")
    scene.link(scene.file, "../hop/file.md")


def up(scene: Scene) -> None:
    """Link to a folder above the project, which contains the folder with secrets too."""
    scene.link("specialists", "../..")


def up_and_in(scene: Scene) -> None:
    """Link to a file outside along a path that leaves the project, returns, and leaves it again."""
    scene.link(scene.file, "../../project/../outside/secret.md")


def middle(scene: Scene) -> None:
    """Link a parent folder of a place where specialists are searched for."""
    (scene.outside / "agents").mkdir()
    (scene.outside / "agents" / "odd.md").write_bytes((scene.outside / "secret.md").read_bytes())
    scene.link(".claude", scene.outside)


def git(scene: Scene) -> None:
    """Link to git's configuration, which is in the project and may hold tokens."""
    (scene.project / ".git" / "config").write_text((scene.outside / "secret.md").read_text())
    scene.link(scene.file, "../.git/config")


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
    "file": lambda scene: scene.link(scene.file, scene.outside / "secret.md"),
    "relative": lambda scene: scene.link(scene.file, "../../outside/secret.md"),
    "agents": lambda scene: scene.link(".claude/agents/odd.md", scene.outside / "secret.md"),
    "chain": hop,
    "environment": lambda scene: scene.link(scene.file, "/proc/self/environ"),
    "root of a process": lambda scene: scene.link(scene.file, f"/proc/self/root{scene.outside}/secret.md"),
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
FAMILIES = ["file", "chain", "environment", "folder on the way", "git", "linked schema", "schema of the environment"]
FAMILIES += ["agent by a link", "name that is a path", "servers"]
"""One attack of each kind, against which all commands are tried; `list` and `check` are tried against all attacks."""


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


def all_commands(scene: Scene, attacked: list[Scene], tmp_path: Path) -> str:
    """Run every command for each attacked name, and return everything printed; fail if one of them crashed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")} | {
        "HOME": str(tmp_path / "home"),
        "SPECIALIST_STORE": f"sqlite:///{tmp_path}/store/runs.db",
        "API_KEY": ENVIRONMENT_SECRET,
    }
    names = [*(name for one in attacked for name in (one.name, one.file)), f"{scene.outside}/secret"]
    done = run_forked(
        [sys.executable, "-W", "error", "-c", COMMANDS, *names],
        cwd=scene.project,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("attacks", [["folder above"], FAMILIES], ids=["folder", "files"])
def test_no_command_discloses_secrets_outside_the_project(scene: Scene, tmp_path: Path, attacks: list[str]) -> None:
    """Neither the output, the MCP server's tools, the store nor the report contains a piece of the secrets."""
    attacked = [replace(scene, name=f"odd-{number}") for number in range(len(attacks))]
    for attack, one in zip(attacks, attacked, strict=True):
        ATTACKS[attack](one)
    told = all_commands(scene, attacked, tmp_path)
    report = scene.project / "report.html"
    kept = [*stored(tmp_path / "store"), report.read_text() if report.exists() else ""]
    for secret in (FILE_SECRET, ENVIRONMENT_SECRET):
        assert values_with_secret(secret, told, *kept) == []


@pytest.mark.parametrize("attack", LISTED)
def test_each_refused_file_is_listed_with_the_reason(scene: Scene, monkeypatch, attack: str) -> None:
    """Each refused file is listed on one line with its place and the reason, and nothing of it is shown."""
    ATTACKS[attack](scene)
    monkeypatch.chdir(scene.project)
    monkeypatch.setenv("HOME", str(scene.outside.parent / "home"))
    printed, *others = (CliRunner().invoke(manage.app, command).output for command in (["list"], ["check", "--json"]))
    assert values_with_secret(FILE_SECRET, printed, *others) == []
    reasons = ("leads outside the project", "leads into .git")
    (line,) = [line for line in printed.splitlines() if any(reason in line for reason in reasons)]
    assert line.split(":")[1:3] in (["1", "1"], ["4", "1"], ["4", "16"])
