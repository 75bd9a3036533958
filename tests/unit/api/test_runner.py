"""The Python API: specialists, tools, augmenters and limits passed to a run."""

import asyncio

import pytest

from run_specialist.api.runner import Runner, run_sync
from run_specialist.errors import NotResumable, UsageError
from run_specialist.providers.base import Choice
from run_specialist.record.outcome import Outcome
from tests.loop_jobs import LOOK, results
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.unit.api.finder_scripts import ANSWER, FINDER, LOOKS

pytestmark = pytest.mark.usefixtures("project")


def test_run_takes_a_specialist_made_in_code():
    """run_sync runs a specialist made in code with one call, without a file, an event loop or a key."""
    finder = FINDER.model_copy(update={"tools": None, "tool_calls_limit": 12})
    outcome = run_sync(finder, "What do owls eat?", model="offline")
    assert isinstance(outcome, Outcome)
    assert (outcome.specialist, outcome.model, outcome.status) == ("finder", "offline", "answered")
    assert "Owls eat mice at night." in outcome.answer
    assert outcome.tool_calls.limit == 12


def test_run_takes_a_name_a_path_and_another_folder(project, tmp_path):
    """As on the command line, `run` takes a name from the usual folders or `dir`, or the path of a file."""
    near = tmp_path / "near"
    near.mkdir()
    (near / "other.md").write_text("---\nname: other\ndescription: d\n---\nOther.\n")
    named = run_sync("owls", "What do owls eat?", model="offline", tool_calls_limit=2)
    assert (named.specialist, named.tool_calls.limit) == ("owls", 2)
    assert run_sync("other", "What do owls eat?", model="offline", dir=near).specialist == "other"
    assert run_sync(str(near / "other.md"), "What do owls eat?", model="offline", root=project).tool_calls.limit == 30


@pytest.mark.anyio
async def test_tools_and_augmenters_of_the_caller_are_used():
    """A caller's tool is added to those of the file, its augmenter runs before the countdown, its provider is used."""

    def tag(executed):
        return f"[{executed.call.name} took {executed.budget.tightest.used:g}]"

    provider = ScriptedProvider([LOOKS, calls(("look", {"query": "bats"}), first_id=2), ANSWER])
    async with Runner(provider=provider, tools=[LOOK], augmenters=[tag]) as runner:
        outcome = await runner.run(FINDER, "What do owls eat?")
    provider.assert_used_up()
    assert (outcome.answer, outcome.model, outcome.tool_calls.used) == ("mice", "scripted", 2)
    assert provider.opening.tools.names == ("get_tool_response", "look", "respond")
    assert results(provider.requests[1].messages[-1]) == ["note on 'owls', part 0\n[look took 1]"]
    assert results(provider.requests[2].messages[-1]) == [
        "note on 'bats', part 0\n[look took 2]\n1 tool call remaining"
    ]


@pytest.mark.anyio
async def test_x_13_a_custom_tool_runs_on_every_call_and_may_be_async():
    """A caller's tool, which may be asynchronous, runs once for each call, and its return value is the result.

    The same call twice runs the function twice.
    """
    asked = []

    async def look(query: str) -> str:
        await asyncio.sleep(0)
        asked.append(query)
        return f"look {len(asked)}"

    tool = type(LOOK)("look", "Look.", look)
    provider = ScriptedProvider([LOOKS, calls(("look", {"query": "owls"}), first_id=2), ANSWER])
    async with Runner(provider=provider, tools=[tool]) as runner:
        await runner.run(FINDER, "What?", tool_calls_limit=None)
    assert asked == ["owls", "owls"]
    assert results(provider.requests[2].messages[-1]) == ["look 2"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("given", "limit"), [({}, 10), ({"tool_calls_limit": 2}, 2), ({"tool_calls_limit": None}, None)]
)
async def test_s2_11_s3_4_a_limit_at_the_call_site_overrides_the_file(given, limit):
    """A limit at the call site overrides the file's: 2 beats 10, and None removes the limit.

    If the call site names no limit, the file's applies.
    """
    provider = ScriptedProvider([ANSWER])
    async with Runner(provider=provider) as runner:
        outcome = await runner.run("owls", "What?", **given)
    assert outcome.tool_calls.limit == limit


@pytest.mark.anyio
async def test_x_1_a_limit_of_0_at_the_call_site_lands_immediately():
    """With a limit of 0 at the call site, the first request already lands."""
    provider = ScriptedProvider([ANSWER])
    async with Runner(provider=provider) as runner:
        outcome = await runner.run("owls", "What?", tool_calls_limit=0)
    assert [asked.choice for asked in provider.requests] == [Choice.RESPOND]
    assert (outcome.status, outcome.tool_calls.limit) == ("landed", 0)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("specialist", "question", "options", "said"),
    [
        (FINDER, " ", {}, "the question is empty"),
        (FINDER, b"What?", {}, "query must be a string, got bytes"),
        ("owl", "What?", {}, "did you mean owls"),
        (FINDER, "What?", {"root": "nowhere"}, "`root`: .*nowhere is not a folder"),
        (FINDER, "What?", {"dir": "nowhere"}, "nowhere is not a folder"),
        (FINDER.model_copy(update={"paths": ("missing",)}), "What?", {}, "with `root`"),
    ],
)
async def test_an_invalid_call_is_refused_before_any_request(tmp_path, specialist, question, options, said):
    """An invalid call raises a one-line UsageError before the provider is opened."""
    provider = ScriptedProvider([])
    with pytest.raises(UsageError, match=said):
        await Runner(provider=provider, **{key: tmp_path / value for key, value in options.items()}).prepare(
            specialist, question
        )
    assert (provider.opening, provider.requests) == (None, [])


@pytest.mark.anyio
async def test_s3_6_a_prepared_run_can_be_aborted_from_outside():
    """A prepared run aborted from outside has the outcome `aborted` and what it gathered.

    Its sibling is not affected.
    """
    looked, never = asyncio.Event(), asyncio.Event()

    async def look(query: str) -> str:
        if query == "for ever":
            looked.set()
            await never.wait()
        return f"note on {query}"

    tools = [type(LOOK)("look", "Look.", look)]
    slow = ScriptedProvider([LOOKS, calls(("look", {"query": "for ever"}), first_id=2)])
    fast = ScriptedProvider([LOOKS, ANSWER])
    first = await Runner(provider=slow, tools=tools).prepare(FINDER, "Slow?")
    second = await Runner(provider=fast, tools=tools).prepare(FINDER, "Fast?")
    async with asyncio.timeout(30):
        both = asyncio.gather(first.outcome(), second.outcome())
        await looked.wait()
        first.abort()
        aborted, answered = await both
    assert (aborted.status, aborted.tool_calls.used) == ("aborted", 2)
    assert "note on owls" in aborted.answer
    assert (answered.status, answered.answer) == ("answered", "mice")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["respond"], "tool name respond is reserved"),
        (["get_tool_response"], "tool name get_tool_response is reserved"),
        (["delegate"], "tool name delegate is reserved"),
        (["mcp__server__tool"], "tool name mcp__server__tool is reserved"),
        (["look", "look"], "tool name look is already used by another function"),
    ],
    ids=str,
)
def test_tools_with_names_already_taken_are_refused(names, said):
    """A caller's tools with names already taken are refused before any run, as one would silently replace the other."""
    with pytest.raises(UsageError, match=said):
        Runner(tools=[type(LOOK)(name, "Look.", LOOK.function) for name in names])


@pytest.mark.anyio
async def test_the_last_run_is_that_of_the_project(project, tmp_path):
    """`resume("last")` means the project of the runner's root; a run of another project needs its root."""
    store, other = tmp_path / "runs.db", tmp_path / "elsewhere"
    other.mkdir()
    async with Runner(root=other, provider=ScriptedProvider([says("there")]), store=store) as runner:
        theirs = await runner.run(FINDER, "Where?")
    async with Runner(root=project / "notes", provider=ScriptedProvider([says("here")]), store=store) as runner:
        mine = await runner.run(FINDER, "What?")
    async with Runner(root=other, provider=ScriptedProvider([]), store=store) as runner:
        assert (await runner.resume("last", "And?")).run_id == theirs.run_id
        with pytest.raises(NotResumable, match=f"began in {project}/notes, which is not in"):
            await runner.resume(mine.run_id, "And?")
    async with Runner(root=project, provider=ScriptedProvider([]), store=store) as runner:
        assert (await runner.resume(mine.run_id, "And?")).run_id == mine.run_id
    (tmp_path / "third").mkdir()
    async with Runner(root=tmp_path / "third", provider=ScriptedProvider([]), store=store) as runner:
        with pytest.raises(UsageError, match=r"contains no runs of .*third yet; other projects have 2 runs$"):
            await runner.resume("last", "And?")
