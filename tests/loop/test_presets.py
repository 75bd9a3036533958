"""Presets without HTTP: parallel tools, and the job that each preset creates."""

import asyncio

import pytest

from run_specialist.api.runner import Runner
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK, outcome_of, results

pytestmark = pytest.mark.anyio
PRESETS = ("soft-landing", "soft-warning", "finalize", "budget-notice", "openai-loop")


@pytest.fixture
def prepare(tmp_path):
    """Return a function that prepares the job of a specialist whose file has the given lines."""

    async def make(provider, *lines, tools=(LOOK,), **settings):
        head = "\n".join(("---", "name: looker", "description: Looks.", "tools: []", *lines, "---"))
        (tmp_path / "looker.md").write_text(f"{head}\nYou look.\n", encoding="utf-8")
        runner = Runner(root=tmp_path, dir=tmp_path, provider=provider, tools=tools)
        return (await runner.prepare("looker", "What?", **settings)).job

    return make


def one_turn_of_calls(queries):
    """Script one turn with a call for each query, and the end."""
    return ScriptedProvider([calls(*(("look", {"query": one}) for one in queries)), says("done")])


class Together:
    """A tool whose calls wait until a given number of them run at the same time."""

    def __init__(self, wanted):
        self.running = self.peak = 0
        self._wanted, self._enough = wanted, asyncio.Event()
        self.tool = Tool("look", "Looks.", self._look)

    async def _look(self, query):
        self.running += 1
        self.peak = max(self.peak, self.running)
        if self.running == self._wanted:
            self._enough.set()
        await self._enough.wait()
        self.running -= 1
        return query


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("lines", "settings", "at_once"),
    [
        (("preset: finalize",), {}, 1),
        ((), {"preset": "finalize"}, 1),
        (("preset: finalize", "parallel_tools_limit: 3"), {}, 3),
        (("preset: finalize",), {"parallel_tools_limit": 3}, 3),
        ((), {}, 3),
    ],
)
async def test_s2_5_calls_of_one_turn_run_in_sequence_or_in_parallel(prepare, lines, settings, at_once):
    """Three calls run in sequence or in parallel, as the preset or the file sets; results keep call order."""
    provider, together = one_turn_of_calls("abc"), Together(at_once)
    await outcome_of(await prepare(provider, *lines, tools=[together.tool], **settings))
    assert together.peak == at_once
    assert results(provider.requests[1].messages[-1])[:3] == ["a", "b", "c"]


@pytest.mark.exhaustive(one_in=5)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("most", [1, 2, 4])
async def test_s2_5_the_parallel_limit_of_the_file_applies_in_every_preset(prepare, preset, most):
    """The file's parallel limit applies in every preset and is fully used; results keep call order."""
    provider, together = one_turn_of_calls("abcd"), Together(most)
    lines = (f"preset: {preset}", f"parallel_tools_limit: {most}")
    await outcome_of(await prepare(provider, *lines, tools=[together.tool]))
    assert together.peak == most
    assert results(provider.requests[1].messages[-1]) == list("abcd")


NAMED = {
    "soft-landing": set(),
    "soft-warning": {"opening", "budget", "augmenters"},
    "finalize": {"opening", "budget", "augmenters", "summarizer", "archive"},
    "budget-notice": {"budget", "augmenters"},
    "openai-loop": {"opening", "budget", "augmenters"},
}
"""What of a job each preset may change besides settings; a budget knows where its countdown begins."""
SETTINGS = {
    "soft-landing": set(),
    "soft-warning": {"budget_notice", "countdown", "tool_chars_limit"},
    "finalize": {"budget_notice", "countdown", "landing", "summarize_at", "parallel_tools_limit"},
    "budget-notice": {"countdown"},
    "openai-loop": {"budget_notice", "countdown", "landing"},
}
"""The settings that each preset changes."""


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("preset", PRESETS)
async def test_a_preset_changes_only_what_it_names(prepare, preset):
    """A preset changes only the settings that it names."""
    own = {"run_id", "provider", "augmenters", "opening", "summarizer", "archive", "origin", "settings"}
    provider = ScriptedProvider([])
    plain, made = [await prepare(provider, *lines, tools=[]) for lines in ((), (f"preset: {preset}",))]
    for name in type(plain).__dataclass_fields__.keys() - own - NAMED[preset]:
        assert getattr(plain, name) == getattr(made, name), name
    if "opening" not in NAMED[preset]:
        assert made.opening.system == plain.opening.system
        assert made.opening.tools.names == plain.opening.tools.names
    assert made.opening.effort == plain.opening.effort
    before, after = dict(plain.settings), dict(made.settings)
    assert {key for key in before if before[key] != after[key]} - {"preset"} == SETTINGS[preset]
    assert (made.archive is None) is (preset != "finalize")
