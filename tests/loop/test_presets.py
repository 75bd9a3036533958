"""Presets where no wire is needed: how many tools run at once, and what each preset makes of a job."""

import asyncio
import time
from dataclasses import replace

import pytest

from run_specialist.doors.api import Runner
from run_specialist.providers.scripted import ScriptedProvider, calls, says
from run_specialist.tools.base import Tool
from tests.jobs import LOOK, outcome_of, results

pytestmark = pytest.mark.anyio
PRESETS = ("soft-landing", "soft-warning", "finalize", "budget-notice", "openai-loop")


@pytest.fixture
def prepare(tmp_path):
    """Return a function that makes the job of a specialist whose file has the given lines."""

    async def make(provider, *lines, tools=(LOOK,), **settings):
        head = "\n".join(("---", "name: looker", "description: Looks.", "tools: []", *lines, "---"))
        (tmp_path / "looker.md").write_text(f"{head}\nYou look.\n", encoding="utf-8")
        runner = Runner(root=tmp_path, dir=tmp_path, provider=provider, tools=tools)
        return (await runner.prepare("looker", "What?", **settings))._job

    return make


def wishes(queries):
    """Script one turn with a call for each query, and the end."""
    return ScriptedProvider([calls(*(("look", {"query": one}) for one in queries)), says("done")])


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
async def test_s2_5_three_calls_of_100_ms(prepare, lines, settings, at_once):
    """One after the other they take 290 ms at least, side by side less than 250; results stand in call order."""

    async def once():
        begun, ended = [], []

        async def look(query):
            begun.append(time.monotonic())
            await asyncio.sleep(0.1)
            ended.append(time.monotonic())
            return query

        provider = wishes("abc")
        await outcome_of(await prepare(provider, *lines, tools=[Tool("look", "Looks.", look)], **settings))
        assert results(provider.asked[1].messages[-1])[:3] == ["a", "b", "c"]
        return max(ended) - min(begun)

    if at_once == 1:
        assert await once() >= 0.29
    else:
        # A busy machine may be late once; that they never wait for one another shows in the best of several.
        assert min([await once() for _ in range(3)]) < 0.25


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("most", [1, 2, 4])
async def test_s2_5_the_limit_of_the_file_holds_in_every_preset(prepare, preset, most):
    """Never more at once than it says, and really that many; results in the order of the calls."""
    running, peak, full = 0, 0, asyncio.Event()

    async def look(query):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if running == most:
            full.set()
        await full.wait()
        running -= 1
        return query

    provider = wishes("abcd")
    lines = (f"preset: {preset}", f"parallel_tools_limit: {most}")
    await outcome_of(await prepare(provider, *lines, tools=[Tool("look", "Looks.", look)]))
    assert peak == most
    assert results(provider.asked[1].messages[-1]) == list("abcd")


NAMED = {
    "soft-landing": set(),
    "soft-warning": {"opening", "budget", "augmenters"},
    "finalize": {"opening", "budget", "augmenters", "landing", "summarize_at", "summariser", "archive", "dispatch"},
    "budget-notice": {"budget", "augmenters"},
    "openai-loop": {"opening", "budget", "augmenters", "landing", "dispatch"},
}
"""What of a job each preset may change; a budget knows where its countdown begins."""


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_preset_changes_only_what_it_names(prepare, preset):
    """Every other part of the job is that of a file without a preset."""
    own = {"run_id", "provider", "augmenters", "opening", "summariser", "archive", "origin"}
    provider = ScriptedProvider([])
    plain, made = [await prepare(provider, *lines, tools=[]) for lines in ((), (f"preset: {preset}",))]
    for name in type(plain).__dataclass_fields__.keys() - own - NAMED[preset]:
        assert getattr(plain, name) == getattr(made, name), name
    if "opening" not in NAMED[preset]:
        assert made.opening.system == plain.opening.system
        assert made.opening.tools.names == plain.opening.tools.names
    assert made.opening.effort == plain.opening.effort
    one = {"finalize": {"parallel_tools_limit": 1}, "openai-loop": {"limit_fields": True}}
    assert made.dispatch == replace(plain.dispatch, **one.get(preset, {}))
    assert (made.archive is None) is (preset != "finalize")
