"""The tool that an agent offers its model: its definition, its arguments and its results."""

import json

import pytest

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner, run
from run_specialist.errors import SpecialistNotFound, SpecialistUnusable, UsageError
from run_specialist.mcp_server.tools import read_catalogue
from run_specialist.record.messages import Usage
from run_specialist.record.outcome import Evidence, LandingReport
from run_specialist.spawning.availability import obstacles
from run_specialist.tools.delegate import has_failed, outcome_text
from tests.scripted_provider import ScriptedProvider, calls
from tests.unit.record.outcomes import outcome


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change into an empty project without specialists of the user or the package, and return its folder."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "specialists").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("run_specialist.specialist.project.packaged", lambda: tmp_path / "none")
    return tmp_path


@pytest.fixture
def write(folder):
    """Return a function that writes a specialist's file and returns its path."""

    def write_file(name, *lines, where="specialists"):
        path = folder / where / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = "\n".join(("---", f"name: {name}", f"description: Knows\n  {name}.", "tools: []", *lines, "---"))
        path.write_text(f"{head}\nYou answer.\n", encoding="utf-8")
        return path

    return write_file


def respond(answer):
    """Return a reply that responds with an answer."""
    return calls(("respond", {"answer": answer}))


def test_the_definition_lists_all_runnable_specialists_sorted(write):
    """The definition lists all runnable specialists in order, without those that a nearer file with errors shadows."""
    write("toads")
    write("owls")
    write("bats", "tool_calls_limit: many")
    write("bats", where=".claude/agents")
    write("owls", "effort: high", where=".claude/agents")
    delegate = delegate_tool()
    assert delegate.definition["name"] == "delegate"
    assert delegate.definition["description"].endswith("\n- owls: Knows owls.\n- toads: Knows toads.")
    assert delegate.definition["input_schema"]["properties"]["specialist"]["enum"] == ["owls", "toads"]


def test_the_definition_never_changes(write):
    """No change of the file or of a copy affects the definition, which is part of the cached prompt prefix."""
    path = write("owls")
    delegate = delegate_tool("owls")
    before = json.dumps(delegate.definition), json.dumps(delegate.function)
    path.write_text("---\nname: owls\ndescription: Something else.\n---\nYou answer.\n")
    delegate.definition["input_schema"]["properties"].clear()
    delegate.function["function"]["parameters"].clear()
    assert (json.dumps(delegate.definition), json.dumps(delegate.function)) == before


def test_run_id_is_offered_only_if_runs_are_stored(write, folder):
    """The run_id parameter is offered only if runs are stored; without a store nothing can be resumed."""
    write("owls")
    assert "run_id" not in delegate_tool("owls").definition["input_schema"]["properties"]
    stored = delegate_tool("owls", runner=Runner(store=f"{folder}/runs.db"))
    assert "run_id" in stored.definition["input_schema"]["properties"]
    assert stored.definition["input_schema"]["required"] == ["specialist", "query"]


def test_mistakes_are_refused_when_the_tool_is_made(write):
    """An unknown name, a file with an error, a bad setting, a name that no API takes, and no specialist are errors."""
    with pytest.raises(UsageError, match="no usable specialists found"):
        delegate_tool()
    write("owls")
    write("bats", "tool_calls_limit: many")
    with pytest.raises(SpecialistNotFound, match="did you mean owls"):
        delegate_tool(["owl"])
    with pytest.raises(SpecialistUnusable, match=r"bats\.md:6:19: tool_calls_limit"):
        delegate_tool(["bats"])
    with pytest.raises(UsageError, match="tool_calls_limit: must be"):
        delegate_tool("owls", tool_calls_limit=-1)
    with pytest.raises(UsageError, match="is not a valid tool name"):
        delegate_tool("owls", name="ask them")


GOOD = {"specialist": "owls", "query": "Why?"}
WRONG = [
    ("{", "the arguments are no JSON: "),
    ("[1]", 'the arguments are no JSON object like {"specialist": "...", "query": "..."}'),
    ({}, "specialist: wanted one of owls, found none"),
    ({**GOOD, "specialist": ["owls"]}, "specialist: wanted one of owls, found ['owls']"),
    ({**GOOD, "specialist": "owl\n"}, "specialist: there is no owl\\n; did you mean owls?"),
    ({"specialist": "owls"}, "query: wanted the question as a text, found none"),
    ({**GOOD, "query": " \n"}, "query: it is empty; say what the specialist shall find out"),
    ({**GOOD, "context": "x", 1: 2}, "1, context: no such argument; put all that matters into query"),
    ({**GOOD, "run_id": 7}, "run_id: wanted the id of a run as a text, found 7; leave run_id out to ask anew"),
    ({**GOOD, "run_id": "x"}, "run_id: no runs are kept here; leave run_id out to ask anew"),
]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize(("given", "said"), WRONG)
async def test_invalid_arguments_are_an_error_result(write, given, said):
    """Invalid arguments give an error result that says what is expected; nothing is raised and no request is made."""
    write("owls")
    async with delegate_tool("owls", runner=Runner(provider=ScriptedProvider([]))) as delegate:
        done = await delegate(given)
    assert done.text.startswith(f"delegate failed: {said}")
    assert (done.is_error, done.outcome) == (True, None)


async def test_an_unexpected_exception_is_an_error_result(write, monkeypatch):
    """An unexpected exception gives an error result and is not raised into the agent's loop."""
    write("owls")

    async def prepare(*_, **__):
        raise ZeroDivisionError("by us")

    async with Runner(store="none") as runner:
        monkeypatch.setattr(runner, "prepare", prepare)
        done = await delegate_tool("owls", runner=runner)({"specialist": "owls", "query": "Why?"})
    assert (done.is_error, done.outcome) == (True, None)
    assert done.text.startswith("owls could not be asked: internal error: ZeroDivisionError('by us')")


@pytest.mark.exhaustive
async def test_only_a_full_id_of_its_own_run_can_be_resumed(write, folder):
    """A prefix of an id, a run of another specialist and a run from another folder are refused."""
    write("owls")
    write("toads")
    store = f"{folder}/runs.db"
    first = Runner(provider=ScriptedProvider([respond("So.")]), store=store)
    async with first:
        run_id = (await delegate_tool("owls", runner=first)(GOOD)).outcome.run_id
    (folder / "else").mkdir()
    refused = "delegate failed: run_id: no run {} of {} is kept here; leave run_id out to ask anew"
    async with Runner(provider=ScriptedProvider([]), store=store) as runner:
        delegate = delegate_tool(runner=runner)
        for given, whose in (("last", "owls"), (run_id[:-1], "owls"), (run_id, "toads"), ("none such", "owls")):
            done = await delegate({"specialist": whose, "query": "Why?", "run_id": given})
            assert (done.text, done.is_error) == (refused.format(given, whose), True)
    async with Runner(provider=ScriptedProvider([]), store=store, root=folder / "else") as runner:
        done = await delegate_tool(runner=runner)({**GOOD, "run_id": run_id})
        assert done.text == refused.format(run_id, "owls")


@pytest.fixture
def folder_offers(folder, write):
    """Return a project with a specialist that finds, one that judges, and one without files to read."""
    for name, line in (("finder", "tools: [search]"), ("judge", "offline: refuse"), ("reader", "paths: [notes/]")):
        path = write(name)
        path.write_text(path.read_text().replace("tools: []", line))
    (folder / "owls.md").write_text("Owls eat mice at night.\n")
    return folder


def offered(delegate) -> list[str]:
    """Return the names that the model can choose from."""
    return delegate.definition["input_schema"]["properties"]["specialist"]["enum"]


async def test_only_what_can_work_is_offered(folder_offers):
    """Without names, those that can work are offered; the reasons of the others are at hand."""
    async with delegate_tool() as delegate:
        assert offered(delegate) == ["finder"]
        assert {*delegate.unavailable} == {"judge", "reader"}
        assert delegate.unavailable["reader"] == f"no file under {folder_offers} matches notes/"
        assert "judge" not in delegate.definition["description"]
        result = await delegate({"specialist": "finder", "query": "What do owls eat?"})
    assert result.text.partition("\n")[0].endswith(", offline: no model judged]")


async def test_a_model_of_the_settings_counts(folder_offers):
    """A model among the settings of the tool makes judgements possible; one of the runner does, too."""
    async with delegate_tool("judge", model="ollama:qwen") as delegate:
        assert offered(delegate) == ["judge"]
    async with Runner(model="offline") as runner:
        assert offered(delegate_tool("judge", runner=runner, model="ollama:qwen")) == ["judge"]
        with pytest.raises(UsageError, match="the model of this run is offline; name another one"):
            delegate_tool("judge", runner=runner)
    async with Runner(model="ollama:qwen", require_model=True) as runner:
        assert offered(delegate_tool(["judge", "finder"], runner=runner)) == ["finder", "judge"]
    async with Runner(require_model=True) as runner:
        with pytest.raises(UsageError, match="finder cannot work here: a model is required, but no model"):
            delegate_tool("finder", runner=runner)


async def test_one_question_can_require_a_model(folder_offers):
    """`run` takes `require_model` as `Runner` does."""
    with pytest.raises(UsageError, match=r"^finder: a model is required"):
        await run("finder", "What do owls eat?", require_model=True)
    assert (await run("finder", "What do owls eat?", store="none")).is_offline


def test_the_result_names_the_limit_that_ended_the_work():
    """The result names the limit that ended the work if it is not that of calls, which alone would not explain it."""
    for limit, words in (("tokens", ", at its limit of tokens"), ("tool_calls", "")):
        text = outcome_text(outcome(landing=LandingReport(limit, "force", 1, Usage(), None)))
        assert text.startswith(f"[owls: landed after 3 of 9 tool calls{words}]")


def test_g_5_quotes_that_were_not_found_are_named_in_a_last_line_and_only_then():
    """The line says how many were found; with verified quotes, or none looked up, the text is as before."""
    quotes = [Evidence("a.md:1", "Yes.", True), *(Evidence("b.md:2", f"No {n}." + "x" * 500, False) for n in range(5))]
    last = outcome_text(outcome(evidence=tuple(quotes))).split("\n\n")[-1]
    assert last.startswith('[1 of 6 quotes found in what it read. Do not rely on: "No 0.xxx')
    assert last.endswith('" and 2 more]')
    assert len(last) < 450
    assert "quotes found" not in outcome_text(outcome(evidence=tuple(quotes[:1])))
    unchecked = outcome_text(outcome(evidence=(Evidence("a.md:1", "Yes.", None),)))
    assert "- a.md:1: Yes.\n\n" in unchecked
    assert "quotes found" not in unchecked


@pytest.mark.parametrize(
    ("status", "answer", "failed"),
    [
        ("answered", "So.", False),
        ("partial", "So.", False),
        ("aborted", "Found.", False),
        ("failed", "Found.", True),
        ("landed", "", True),
    ],
)
def test_a_missing_answer_and_a_failure_are_errors(status, answer, failed):
    """No answer, and a salvage after a failure, are errors for the calling model; a partial answer is not."""
    assert has_failed(outcome(status=status, answer=answer)) is failed


# Which specialists models see: all with `agents: ['*']`, except hidden ones; and servers that must be there.
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
        "lead", calls(("delegate", {"specialist": "worker", "query": "And?"})), respond("below"), respond("above")
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
        with pytest.raises(UsageError, match=r"needy\.md:6:1: .*requires the MCP server linear$"):
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
