"""Keys with well-known formats are masked in files that are read and in texts from other people's code."""

import random
import string

import pytest
from mcp import Client
from typer.testing import CliRunner

from run_specialist import Runner, Specialist, ToolError, delegate_tool
from run_specialist.cli import ask, manage
from run_specialist.loop.observing import CONTENT
from run_specialist.mcp_server.server import Service, make_server
from run_specialist.safety.credentials import MASK
from run_specialist.tools.base import Output
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


@pytest.mark.anyio
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


@pytest.mark.anyio
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


@pytest.mark.anyio
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
