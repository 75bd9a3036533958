"""What a run gets beside its file: the skills that the file names."""

import shutil

import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import ProviderError, UsageError
from tests.scripted_provider import ScriptedProvider
from tests.unit.api.finder_scripts import ANSWER

pytestmark = pytest.mark.anyio


async def test_a_run_is_resumed_without_the_file_of_its_skill(project, tmp_path):
    """Its prompt has the text of the skill already; a new run is refused with the place in the file."""
    skill = project / ".agents" / "skills" / "tables"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tables\ndescription: d\n---\nRead tables row by row.\n")
    (project / "specialists" / "owls.md").write_text("---\nname: owls\ndescription: d\nskills: [tables]\n---\nOwls.\n")
    provider = ScriptedProvider([ProviderError("the network was lost"), ANSWER])
    async with Runner(provider=provider, store=tmp_path / "runs.db") as runner:
        assert (await runner.run("owls", "What do owls eat?")).status == "failed"
        shutil.rmtree(skill)
        with pytest.raises(UsageError, match=r"owls\.md:4:1: skills: no skill named tables"):
            await runner.run("owls", "What do owls eat?")
        outcome = await (await runner.resume("last")).outcome()
    assert (outcome.status, outcome.answer) == ("answered", "mice")
    assert "Read tables row by row." in provider.opening.system
