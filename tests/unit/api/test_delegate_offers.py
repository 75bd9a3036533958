"""Which specialists the tool `delegate` offers: those that can work here."""

import pytest

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner, run
from run_specialist.errors import UsageError

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change into a project with a specialist that finds, one that judges, and one without files to read."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("run_specialist.specialist.project.packaged", lambda: tmp_path / "none")
    (tmp_path / "specialists").mkdir()
    for name, line in (("finder", "tools: [search]"), ("judge", "offline: refuse"), ("reader", "paths: [notes/]")):
        head = f"---\nname: {name}\ndescription: Is {name}.\n{line}\n---\n"
        (tmp_path / "specialists" / f"{name}.md").write_text(f"{head}You answer.\n")
    (tmp_path / "owls.md").write_text("Owls eat mice at night.\n")
    return tmp_path


def offered(delegate) -> list[str]:
    """Return the names that the model can choose from."""
    return delegate.definition["input_schema"]["properties"]["specialist"]["enum"]


async def test_only_what_can_work_is_offered(folder):
    """Without names, those that can work are offered; the reasons of the others are at hand."""
    async with delegate_tool() as delegate:
        assert offered(delegate) == ["finder"]
        assert {*delegate.unavailable} == {"judge", "reader"}
        assert delegate.unavailable["reader"] == f"no file under {folder} matches notes/"
        assert "judge" not in delegate.definition["description"]
        result = await delegate({"specialist": "finder", "query": "What do owls eat?"})
    assert result.text.partition("\n")[0].endswith(", offline: no model judged]")


async def test_a_model_of_the_settings_counts(folder):
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


async def test_one_question_can_require_a_model(folder):
    """`run` takes `require_model` as `Runner` does."""
    with pytest.raises(UsageError, match=r"^finder: a model is required"):
        await run("finder", "What do owls eat?", require_model=True)
    assert (await run("finder", "What do owls eat?", store="none")).is_offline
