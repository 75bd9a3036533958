"""The question is called `query` at every door, and `question` is accepted too."""

import pytest

from run_specialist.api.delegate import delegate_tool
from run_specialist.api.runner import Runner, run
from run_specialist.errors import UsageError
from run_specialist.record.messages import text_of
from tests.scripted_provider import ScriptedProvider, calls, says
from tests.unit.api.finder_scripts import FINDER

pytestmark = pytest.mark.usefixtures("project")
ANSWER = calls(("respond", {"answer": "mice"}))


@pytest.mark.anyio
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


@pytest.mark.anyio
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


@pytest.mark.anyio
async def test_a_delegating_model_may_use_the_other_name():
    """A call of `delegate` with `question` runs the specialist; both names together are refused."""
    provider = ScriptedProvider([ANSWER])
    async with delegate_tool("owls", runner=Runner(provider=provider)) as delegate:
        asked = await delegate({"specialist": "owls", "question": "What?"})
        twice = await delegate({"specialist": "owls", "query": "What?", "question": "Who?"})
    assert (asked.is_error, text_of(provider.requests[0].messages[0].content)) == (False, "What?")
    assert twice.text.startswith("delegate failed: question: no such argument")
