"""The Python API: specialists, tools, augmenters and limits passed to a run."""

import asyncio

import pytest

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner, run, run_sync
from run_specialist.errors import UsageError
from run_specialist.providers.base import Choice
from run_specialist.record.messages import text_of
from run_specialist.record.outcome import Outcome
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
from tests.scripted_provider import ScriptedProvider, says
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


@pytest.mark.exhaustive
def test_run_takes_a_name_a_path_and_another_folder(project, tmp_path):
    """As on the command line, `run` takes a name from the usual folders or `dir`, or the path of a file."""
    near = tmp_path / "near"
    near.mkdir()
    (near / "other.md").write_text("---\nname: other\ndescription: d\n---\nOther.\n")
    named = run_sync("owls", "What do owls eat?", model="offline", tool_calls_limit=2)
    assert (named.specialist, named.tool_calls.limit) == ("owls", 2)
    assert run_sync("other", "What do owls eat?", model="offline", dir=near).specialist == "other"
    assert run_sync(str(near / "other.md"), "What do owls eat?", model="offline", root=project).tool_calls.limit == 30


@pytest.mark.parametrize(
    ("given", "limit"), [({}, 10), ({"tool_calls_limit": 2}, 2), ({"tool_calls_limit": None}, None)]
)
async def test_s2_11_s3_4_a_limit_at_the_call_site_overrides_the_file(given, limit):
    """A limit at the call site overrides the file's: 2 beats 10, None removes it; without one the file's applies."""
    provider = ScriptedProvider([ANSWER])
    async with Runner(provider=provider) as runner:
        outcome = await runner.run("owls", "What?", **given)
    assert outcome.tool_calls.limit == limit


async def test_x_1_a_limit_of_0_at_the_call_site_lands_immediately():
    """With a limit of 0 at the call site, the first request already lands."""
    provider = ScriptedProvider([ANSWER])
    async with Runner(provider=provider) as runner:
        outcome = await runner.run("owls", "What?", tool_calls_limit=0)
    assert [asked.choice for asked in provider.requests] == [Choice.RESPOND]
    assert (outcome.status, outcome.tool_calls.limit) == ("landed", 0)


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


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("environment", "model"),
    [
        ({}, "offline"),
        ({"ANTHROPIC_API_KEY": "k"}, "sonnet"),
        ({"ANTHROPIC_AUTH_TOKEN": "k"}, "sonnet"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, "sonnet"),
        ({"ANTHROPIC_API_KEY": ""}, "offline"),
        ({"ANTHROPIC_API_KEY": "k", "SPECIALIST_MODEL": "haiku"}, "haiku"),
        ({"ANTHROPIC_API_KEY": "k", "SPECIALIST_MODEL": ""}, "sonnet"),
        ({"ANTHROPIC_API_KEY": "k", "SPECIALIST_MODEL": "offline"}, "offline"),
    ],
    ids=str,
)
async def test_the_default_model_depends_on_the_environment(monkeypatch, environment, model):
    """The model is `sonnet` with credentials or a base URL, else offline; SPECIALIST_MODEL overrides both."""
    made = []
    provider = ScriptedProvider([])
    monkeypatch.setattr("run_specialist.providers.choose.make_provider", lambda name: made.append(name) or provider)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with Runner() as runner:
        await runner.prepare("owls", "What?")
    assert made == [model]


# The question is called `query` at every door, and `question` is accepted too.
@pytest.mark.parametrize("given", [("What?", {}), (None, {"query": "What?"}), (None, {"question": "What?"})])
async def test_python_calls_take_either_name(given):
    """By position or by either name, the model receives the question; a follow-up question works the same."""
    position, names = given
    positional = () if position is None else (position,)
    provider = ScriptedProvider([ANSWER, says("and bats")])
    async with Runner(provider=provider, store="runs.db") as runner:
        await runner.run(FINDER, *positional, **names)
        again = await runner.resume("last", *positional, **names)
        await again.outcome()
    first, second = (str(request.messages[-1].content) for request in provider.requests)
    assert "What?" in first
    assert "What?" in second


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "the question is missing; pass it as `query`"),
        ({"query": "What?", "question": "Who?"}, "`query` and `question` are two names of one argument"),
        ({"question": ""}, "the question is empty"),
        ({"question": 3}, "query must be a string, got int"),
    ],
)
async def test_a_question_is_needed_once(arguments, said):
    """A missing, doubled, empty or odd question is refused in one line before anything is sent."""
    with pytest.raises(UsageError, match=said):
        await run(FINDER, model="offline", **arguments)


async def test_a_delegating_model_may_use_the_other_name():
    """A call of `delegate` with `question` runs the specialist; both names together are refused."""
    provider = ScriptedProvider([ANSWER])
    async with delegate_tool("owls", runner=Runner(provider=provider)) as delegate:
        asked = await delegate({"specialist": "owls", "question": "What?"})
        twice = await delegate({"specialist": "owls", "query": "What?", "question": "Who?"})
    assert (asked.is_error, text_of(provider.requests[0].messages[0].content)) == (False, "What?")
    assert twice.text.startswith("delegate failed: question: no such argument")


async def test_closing_a_runner_aborts_the_items_of_a_batch_that_was_left(tmp_path):
    """The iteration is given up without `aclose`; after the block of the runner no run is under way."""
    reached, released = asyncio.Event(), asyncio.Event()

    async def look(query: str) -> str:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            released.set()
        return query

    tools = [Tool("look", "Look.", look)]
    async with Runner(provider=ScriptedProvider([LOOKS]), store=tmp_path / "runs.db", tools=tools) as runner:
        batch = runner.map(FINDER, ["owls", "mice"], at_once=1)
        following = asyncio.create_task(anext(aiter(batch)))
        await reached.wait()
        assert batch.counts.under_way == 1
    assert released.is_set()
    assert (batch.counts.under_way, batch.counts.aborted) == (0, 1)
    following.cancel()
    await asyncio.wait([following])
