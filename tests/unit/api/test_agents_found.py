"""Which specialists models see: all with `agents: ['*']`, except hidden ones; and servers that must be there."""

import pytest

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from run_specialist.mcp_server.tools import read_catalogue
from run_specialist.spawning.availability import obstacles
from tests.scripted_provider import ScriptedProvider, calls

pytestmark = pytest.mark.anyio


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes a specialist's file into a project without any other specialists."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("run_specialist.specialist.project.packaged", lambda: tmp_path / "none")

    def write_file(name, *lines):
        path = tmp_path / ".git" / ".." / "specialists" / f"{name}.md"
        (tmp_path / ".git").mkdir(exist_ok=True)
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(["---", f"name: {name}", f"description: Knows {name}.", *lines, "---", "Answer."]))

    return write_file


def respond(answer):
    """Return a reply that responds with an answer."""
    return calls(("respond", {"answer": answer}))


class Openings(ScriptedProvider):
    """Keeps the tools of each run."""

    def __init__(self, script):
        """Play a script."""
        super().__init__(script)
        self.tools = []

    def open(self, opening, watch=None):
        """Begin a run."""
        self.tools.append({tool.name: tool.definition for tool in opening.tools})
        return super().open(opening, watch)


async def asked(name, *replies):
    """Return the tools of a run and of its children in order, and its outcome."""
    provider = Openings(replies)
    async with Runner(provider=provider) as runner:
        run = await runner.prepare(name, "What?")
        outcome = await run.outcome()
    return provider.tools, outcome


async def test_all_that_are_found_can_be_asked(write):
    """`*` offers every specialist except the run itself, hidden and broken ones, and those above it."""
    write("lead", "agents: ['*']")
    write("worker", "agents: ['*']")
    write("hidden", "disable-model-invocation: true")
    write("broken", "tool_calls_limit: many")
    (above, below), outcome = await asked(
        "lead",
        calls(("delegate", {"specialist": "worker", "query": "And?"})),
        respond("below"),
        respond("above"),
    )
    assert above["delegate"]["description"].endswith("- worker: Knows worker.")
    assert "delegate" not in below
    assert (outcome.answer, [child.specialist for child in outcome.children]) == ("above", ["worker"])
    assert not [text for text in outcome.warnings if "agents" in text]


async def test_a_hidden_specialist_can_be_asked_by_its_name(write):
    """A hidden specialist is neither in a delegate tool nor in an MCP list, unless its name is given."""
    write("seen")
    write("hidden", "disable-model-invocation: true")
    write("lead", "agents: [hidden]")
    assert set(delegate_tool().definition["input_schema"]["properties"]["specialist"]["enum"]) == {"seen", "lead"}
    assert delegate_tool("hidden").definition["description"].endswith("- hidden: Knows hidden.")
    assert set(read_catalogue(Runner().registry).offered) == {"seen", "lead"}
    (tools,), _ = await asked("lead", respond("done"))
    assert "hidden: Knows hidden." in tools["delegate"]["description"]


async def test_all_that_are_found_may_do_more_than_read(write):
    """`readOnlyHint` is not set if one of the specialists that a specialist may ask does more than read."""
    write("lead", "agents: ['*']")
    assert read_catalogue(Runner().registry).offered["lead"][1].annotations.read_only_hint
    write("writer", "python_tools: [a:b]")
    assert not read_catalogue(Runner().registry).offered["lead"][1].annotations.read_only_hint


async def test_a_required_server_that_is_missing_is_named_before_the_first_request(write, tmp_path):
    """A run without a required MCP server does not begin, and the list says which one is missing."""
    write("needy", "requiredMcpServers: [linear, github]", "mcp_servers: {my-github: {command: 'false'}}")
    provider = ScriptedProvider([respond("never")])
    async with Runner(provider=provider) as runner:
        with pytest.raises(UsageError, match=r"needy\.md:4:1: .*requires the MCP server linear$"):
            await runner.prepare("needy", "What?")
        reasons = obstacles(runner.registry.files(), tmp_path, lambda _: "")
    assert [*reasons.values()] == ["it requires the MCP server linear"]
    assert not provider.requests


async def test_a_required_server_that_cannot_be_reached_ends_the_run(write):
    """A required server that does not start is an error with the reason; the others remain warnings."""
    write("needy", "requiredMcpServers: [github]", "mcp_servers: {github: {command: no-such-program}}")
    provider = ScriptedProvider([respond("never")])
    async with Runner(provider=provider, trust=True) as runner:
        with pytest.raises(UsageError, match=r"requires the MCP server github; .*github"):
            await runner.prepare("needy", "What?")
    assert not provider.requests
