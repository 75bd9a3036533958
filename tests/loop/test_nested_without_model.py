"""Children that cannot work: not offered to the parent's model, and refused if they need a model."""

import re

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError
from tests.loop.nested_replies import answers, asks
from tests.scripted_specialists import ScriptedSpecialists, write

pytestmark = pytest.mark.anyio

UNJUDGED = "no model judged: this ran offline, by ranked search and verbatim quotes"


def offered(cast) -> list[str]:
    """Return the specialists that `delegate` offered to `lead`; empty without the tool."""
    tool = cast.played["lead"][0].opening.tools.get("delegate")
    return [] if tool is None else re.findall(r"^- (\w+): ", tool.definition["description"], re.MULTILINE)


async def test_a_child_without_files_is_not_offered(run_lead, files, tmp_path):
    """A child whose `paths` match nothing is not offered, and a warning says why; the next run sees its folder."""
    files(lead=["agents: [finder, other]"])
    write(tmp_path, "lead", "agents: [finder, other]")
    write(tmp_path, "other", "paths: [notes/]")
    cast = ScriptedSpecialists(lead=[[answers("all")]])
    outcome, _ = await run_lead(cast)
    assert offered(cast) == ["finder"]
    (warning,) = [one for one in outcome.warnings if "agents" in one]
    assert warning.endswith(f": agents: other cannot work here: no file under {tmp_path} matches notes/")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("Here.\n")
    cast = ScriptedSpecialists(lead=[[answers("all")]])
    outcome, _ = await run_lead(cast)
    assert offered(cast) == ["finder", "other"]
    assert not [one for one in outcome.warnings if "agents" in one]


async def test_without_any_child_there_is_no_tool(run_lead, files):
    """If no child can work, the parent has no tool to ask any, and answers alone."""
    files(finder=["paths: [nowhere/]"])
    cast = ScriptedSpecialists(lead=[[answers("alone")]])
    outcome, _ = await run_lead(cast)
    assert (offered(cast), outcome.answer) == ([], "alone")
    assert "agents: finder cannot work here: no file under " in outcome.warnings[0]


async def test_a_judgement_inherits_the_model(run_lead, files):
    """A child with `offline: refuse` that inherits its parent's model is offered, and answers."""
    files(finder=["offline: refuse"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]], finder=[[answers("mice")]])
    outcome, _ = await run_lead(cast)
    assert (offered(cast), outcome.warnings) == (["finder"], ())


@pytest.fixture
def with_model(monkeypatch):
    """Return a function that gives every model but `offline` to a cast."""
    from run_specialist.providers.choose import make_provider

    def give(cast):
        def make(model):
            return make_provider(model) if model == "offline" else cast

        monkeypatch.setattr("run_specialist.providers.choose.make_provider", make)

    return give


async def test_an_offline_child_is_said_to_be_one(files, with_model, tmp_path, monkeypatch):
    """The parent's model reads in the first line of the result that no model judged the child's answer."""
    monkeypatch.chdir(tmp_path)
    files(lead=["model: opus"], finder=["model: offline"])
    cast = ScriptedSpecialists(lead=[[asks("finder"), answers("all")]])
    with_model(cast)
    async with Runner() as runner:
        outcome = await runner.run("lead", "What is known?")
    request = cast.played["lead"][0].requests[1]
    head = request.messages[-1].content[0]["content"].partition("\n")[0]
    assert head.startswith("[finder: answered after ")
    assert head.endswith(", offline: no model judged]")
    assert (outcome.model, UNJUDGED in outcome.warnings) == ("scripted", False)


@pytest.mark.parametrize(("lines", "rule"), [(["offline: refuse"], None), ([], True)])
async def test_an_offline_child_is_not_asked_where_a_model_is_needed(
    files, with_model, tmp_path, monkeypatch, lines, rule
):
    """A child that names `offline` is not offered if its file refuses that, or if all runs require a model."""
    monkeypatch.chdir(tmp_path)
    files(lead=["model: opus"], finder=["model: offline", *lines])
    cast = ScriptedSpecialists(lead=[[answers("alone")]])
    with_model(cast)
    async with Runner(require_model=rule) as runner:
        outcome = await runner.run("lead", "What is known?")
    assert offered(cast) == []
    (warning,) = outcome.warnings
    assert "agents: finder cannot work here: " in warning
    assert warning.endswith("the model in its file is offline; name another one, e.g. sonnet, openai:ID or ollama:NAME")


@pytest.mark.parametrize(("given", "variable", "refuses"), [(True, "", True), (None, "1", True), (False, "1", False)])
async def test_the_argument_of_the_runner_overrides_the_variable(
    files, tmp_path, monkeypatch, given, variable, refuses
):
    """`require_model` is as the variable says unless it is given; before an error nothing is stored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECIALIST_REQUIRE_MODEL", variable)
    files()
    async with Runner(require_model=given, store=tmp_path / "runs.db") as runner:
        if refuses:
            with pytest.raises(UsageError, match=r"a model is required.*, but no model is configured; set "):
                await runner.run("finder", "What is known?")
            assert not (tmp_path / "runs.db").exists()
        else:
            assert (await runner.run("finder", "What is known?")).warnings[0] == UNJUDGED
