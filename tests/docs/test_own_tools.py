"""The page on custom tools: every example runs unchanged, and its names and paths are correct."""

import asyncio
import re
import shutil

import pytest

from run_specialist import NotTrusted, Runner
from run_specialist.budget import Kind
from run_specialist.errors import with_flags
from run_specialist.specialist.loader import load
from tests.docs.markdown import ROOT, blocks, execute, page
from tests.loop_jobs import results
from tests.projects import project as made_project
from tests.scripted_provider import ScriptedProvider, calls

PAGE = page("own-tools").split("\n## MCP servers\n")[0]
EXAMPLES = blocks(PAGE, "python")
((MODULE, SOURCE),) = re.findall(r"^```python (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Change into a copy of this project's notes and specialists, plus the module and the specialist of the page."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    root = tmp_path / "project"
    with made_project(root) as made:
        shutil.copytree(ROOT / "thoughts", root / "thoughts")
        shutil.copytree(ROOT / "specialists", root / "specialists", dirs_exist_ok=True)
        monkeypatch.chdir(root)
        made.module = MODULE.removesuffix(".py").replace("/", ".").replace("app.", f"{made.package}.")
        made.write(MODULE.replace("app/", "PKG/"), SOURCE)
        made.write("PKG/glossary.txt", "Rung: one of the ways in which a landing asks for the answer.")
        (specialist,) = blocks(PAGE, "markdown")
        made.file = made.write("specialists/word-keeper.md", specialist.replace("app.", "PKG."))
        yield made


@pytest.mark.exhaustive
@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_every_example_runs(project, capsys, place):
    """Every example runs offline and unchanged, and prints something."""
    asyncio.run(execute(EXAMPLES[place]))
    assert capsys.readouterr().out.strip()


async def test_the_documented_specialist_calls_the_documented_function(project):
    """Without trust the specialist is refused with the error shown on the page; with trust the glossary answers."""
    assert load(project.file).problems == ()
    look = calls(("define", {"term": "rung"}))
    provider = ScriptedProvider([look, calls(("respond", {"answer": "a rung"}), first_id=9)])
    async with Runner(provider=provider) as runner:
        with pytest.raises(NotTrusted) as caught:
            await runner.run("word-keeper", "What is a rung?")
    (shown,) = blocks(page("tools"), "text")
    said = str(caught.value).replace(f"{project.root}/", "").replace(project.package, "app")
    assert f"run-specialist: {with_flags(said)}" == " ".join(shown.split())
    async with Runner(provider=provider, trust=True) as runner:
        await runner.run("word-keeper", "What is a rung?")
    provider.assert_used_up()
    assert results(provider.requests[1].messages[-1])[0].startswith("Rung: one of the ways")


async def test_the_documented_tool_adapts_to_the_remaining_calls():
    """It asks only one source when fewer than three calls are left; the page lists all kinds that `left` accepts."""
    (line,) = re.findall(r"`ctx\.left\(kind\)` takes (.*?), and returns", PAGE, re.DOTALL)
    assert re.findall(r"`(\w+)`", line) == [kind.value for kind in Kind]
    (example,) = [text for text in EXAMPLES if "def survey" in text]
    survey = (await execute(example.split("async with")[0]))["survey"]
    looks = [calls(("survey", {"topic": "owls"}), first_id=number) for number in (1, 2)]
    provider = ScriptedProvider([*looks, calls(("respond", {"answer": "mice", "gaps": ["owls"]}), first_id=9)])
    async with Runner(provider=provider, tools=[survey], dir=ROOT / "specialists") as runner:
        await runner.run("thoughts-analyzer", "What?", tool_calls_limit=4)
    told = [results(asked.messages[-1])[0].splitlines()[0] for asked in provider.requests[1:]]
    assert told == [f"owls: {n} sources asked within 60 s, None tokens are left" for n in (20, 1)]
