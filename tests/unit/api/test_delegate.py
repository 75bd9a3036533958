"""The tool that an agent offers its model: its definition, its arguments and its results."""

import json

import pytest

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner
from run_specialist.budget import Kind
from run_specialist.errors import SpecialistNotFound, SpecialistUnusable, UsageError
from tests.scripted_provider import ScriptedProvider, calls

pytestmark = pytest.mark.anyio


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
    """The definition lists all runnable specialists in order, with their descriptions.

    A file with an error is omitted, and so is a file shadowed by a nearer one, even if the nearer one cannot be run.
    """
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
    """Mistakes of the program are refused when the tool is made.

    These are an unknown name, a file with an error, a bad setting, a name that no API accepts, and no specialist.
    """
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
    ("[" * 100_000, "the arguments are no JSON: "),
    ("[1]", 'the arguments are no JSON object like {"specialist": "...", "query": "..."}'),
    (None, "the arguments are no JSON object"),
    ({}, "specialist: wanted one of owls, found none"),
    ({**GOOD, "specialist": None}, "specialist: wanted one of owls, found None"),
    ({**GOOD, "specialist": ["owls"]}, "specialist: wanted one of owls, found ['owls']"),
    ({**GOOD, "specialist": "owl\n"}, "specialist: there is no owl\\n; did you mean owls?"),
    ({**GOOD, "specialist": "zebra"}, "specialist: there is no zebra; there are owls"),
    ({"specialist": "owls"}, "query: wanted the question as a text, found none"),
    ({**GOOD, "query": {"text": "Why?"}}, "query: wanted the question as a text, found {'text': 'Why?'}"),
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


@pytest.mark.parametrize("nothing", [None, ""])
async def test_an_empty_run_id_counts_as_absent(write, nothing):
    """A run_id of null or an empty text counts as absent, since some models must fill in every field."""
    write("owls")
    delegate = delegate_tool("owls", runner=Runner(provider=ScriptedProvider([respond("So.")])))
    done = await delegate({**GOOD, "run_id": nothing})
    assert (done.outcome.answer, done.is_error) == ("So.", False)


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


async def test_only_a_full_id_of_its_own_run_can_be_resumed(write, folder):
    """A full id of a run of the same specialist in the same folder is required to resume it.

    A prefix, another specialist's run, or a run from another folder is refused.
    """
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


async def test_resuming_refreshes_every_limit(write, folder):
    """Resuming refreshes every limit: the amount used plus the amount in the file, each time; `none` stays none."""
    write(
        "owls", "tool_calls_limit: 5", "turns_limit: 7", "total_tokens_limit: 90000", "cost_limit: 2", "time_limit: 9m"
    )
    provider = ScriptedProvider([calls(("nothing", {})), respond("So."), respond("Yes."), respond("No.")])
    async with Runner(provider=provider, store=f"{folder}/runs.db") as runner:
        delegate = delegate_tool("owls", runner=runner)
        one = (await delegate(GOOD)).outcome
        two = (await delegate({**GOOD, "run_id": one.run_id})).outcome
        three = (await delegate({**GOOD, "run_id": one.run_id})).outcome
    limits = [{key: spent.limit for key, spent in outcome.limits.items()} for outcome in (one, two, three)]
    assert [limit[Kind.TOOL_CALLS] for limit in limits] == [5, 6, 6]
    assert [limit[Kind.TURNS] for limit in limits] == [7, 9, 10]
    assert [limit[Kind.TOKENS] for limit in limits] == [90_000, 90_030, 90_045]
    assert limits[1][Kind.COST] == pytest.approx(2.0003)
    assert 540 < limits[1][Kind.TIME] < 600
    assert limits[2][Kind.CHARACTERS] is None
