"""A resume that is not possible is refused with one line, without a request or a change to the store."""

import asyncio
import os
import shutil
import sqlite3

import pytest

from run_specialist import Runner, prompts
from run_specialist.errors import NotResumable, UsageError
from run_specialist.record.journal import Returned
from run_specialist.record.messages import Reply, Stop, Usage
from run_specialist.tools.base import Tool
from tests.loop.stored_replies import ANSWER
from tests.scripted_provider import ScriptedProvider, calls

pytestmark = pytest.mark.anyio
LATER = calls(("respond", {"answer": "Later."}), first_id=91)
LOOKS = calls(("look", {"query": "1"}))
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s1"}


def dump(desk):
    """Return every row of the store."""
    with sqlite3.connect(f"file:{desk.folder}/runs.db?mode=ro", uri=True) as connection:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
        return {table: connection.execute(f"select * from {table}").fetchall() for table in sorted(tables)}  # noqa: S608


async def refused(desk, words, error=NotResumable, question=None, provider=None, **wish):
    """Try to go on, and check that nothing was asked and nothing changed; return what was said."""
    before, provider = dump(desk), provider or ScriptedProvider([])
    with pytest.raises(error) as told:
        await desk.go_on(question=question, provider=provider, **wish)
    assert type(told.value) is error
    assert words in str(told.value)
    assert "\n" not in str(told.value)
    assert provider.requests == []
    assert dump(desk) == before
    return str(told.value)


async def test_an_answered_run_is_resumed_only_with_a_question(desk):
    """An answered run can be resumed only with a question, even if the limit is raised."""
    await desk.ask(LOOKS, ANSWER)
    words = "is already answered; to ask a follow-up question, add it after the run"
    await refused(desk, words)
    await refused(desk, words, tool_calls_limit=50)


async def test_a_landed_run_needs_a_larger_total_or_a_question(desk):
    """A landed run needs a larger total or a question; the same total is refused."""
    await desk.ask(LOOKS, ANSWER, tool_calls_limit=1)
    words = "landed at its limit; set a higher limit, or ask a follow-up question"
    await refused(desk, words)
    await refused(desk, words, tool_calls_limit=1)


@pytest.mark.parametrize("question", ["", " \n"])
async def test_an_empty_question_is_refused(desk, question):
    """An empty question is refused with a hint."""
    await desk.ask(LOOKS, ANSWER)
    await refused(desk, "the question is empty", UsageError, question=question)


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"tool_calls_limit": 1}, "has already used 2 tool calls, so its total limit cannot be 1; set a higher one"),
        ({"turns_limit": 2}, "has already used 3 turns, so its total limit cannot be 2; set a higher one, or none"),
        ({"total_tokens_limit": 44}, "has already used 45 tokens, so its total limit cannot be 44"),
        ({"cost_limit": 0.0004}, "has already used $0.00045, so its total limit cannot be $0.0004"),
        ({"time_limit": 0.0}, ", so its total limit cannot be 0"),
        ({"tool_chars_limit": 20}, "has already used 38 characters, so its total limit cannot be 20"),
    ],
    ids=str,
)
async def test_a_total_below_the_used_amount_is_refused(desk, limits, words):
    """A total below the used amount is refused with that amount, for every kind of limit."""
    await desk.ask(LOOKS, calls(("look", {"query": "2"}), first_id=2), ANSWER)
    (key,) = limits
    said = await refused(desk, words, question="More?", **limits)
    assert said.startswith(f"{key}: ")


async def test_a_run_in_a_living_process_is_not_resumed(desk):
    """A run whose process is alive cannot be resumed, and the error names the process."""
    reached, release = asyncio.Event(), asyncio.Event()

    async def look(query: str = "", part: int = 0) -> str:
        # Everything before the second request has been stored by then.
        if query == "2":
            reached.set()
            await release.wait()
        return "a note"

    desk.tools = [Tool("look", "Look something up.", look)]
    provider = ScriptedProvider([LOOKS, calls(("look", {"query": "2"}), first_id=2), ANSWER])
    async with desk.process(provider) as runner:
        run = await runner.prepare(desk.specialist, "What is known?")
        task = asyncio.create_task(run.outcome())
        await reached.wait()
        stranger = ScriptedProvider([])
        with pytest.raises(NotResumable, match=rf"is still running: .*{os.getpid()}"):
            await desk.go_on(provider=stranger)
        release.set()
        assert (await task).status == "answered"
    assert run.is_kept
    assert stranger.requests == []


async def test_a_missing_custom_tool_is_refused_without_force(desk):
    """A missing custom tool is named in the refusal; with force the run resumes and calls of it are errors."""
    first = await desk.ask(LOOKS, ANSWER)
    desk.tools = ()
    words = "uses tools of the program that started it: look; resume it there with Runner(tools=...)"
    await refused(desk, words, question="More?")
    look_again = calls(("look", {"query": "2"}), first_id=2)
    again = await desk.go_on(look_again, LATER, question="More?", force=True)
    assert again.named("resumed")[0].note == "Of your tools look can no longer be called.\nThe user now asks: More?"
    assert again.requests[1].messages[-1].content[0]["content"] == "look failed: this tool is no longer there"
    assert again.provider.opening.tools.names == first.provider.opening.tools.names
    assert [tool.definition for tool in again.provider.opening.tools] == [
        tool.definition for tool in first.provider.opening.tools
    ]
    # The tool stays known as missing, and a further resume still needs force.
    await refused(desk, words, question="And?")


async def test_another_model_needs_force_after_thinking(desk):
    """A history with thinking needs force for another model: the thinking is removed and the model is notified."""
    thinks = Reply(Stop.WANTS_TOOLS, (THOUGHT, *LOOKS.content), Usage(10, 0, 0, 5), "tool_use")
    await desk.ask(thinks, ANSWER)
    other = ScriptedProvider([])
    other.model = "another"
    await refused(
        desk, "contains parts, such as thinking, that only scripted accepts", provider=other, question="More?"
    )
    other = ScriptedProvider([LATER])
    other.model = "another"
    again = await desk.go_on(provider=other, question="More?", force=True)
    assert again.named("resumed")[0].note.startswith("Another model, scripted, did the work above; its thinking was")
    assert "thinking" not in str([message.content for message in other.requests[0].messages[:-1]])
    assert other.requests[0].messages[1].content == LOOKS.content
    # The stored history equals the sent one, so the new model can continue from it.
    third = ScriptedProvider([ANSWER])
    third.model = "another"
    later = await desk.go_on(provider=third, question="And?")
    assert later.outcome.status == "answered"
    assert [message.encoded for message in third.requests[0].messages][:-1] == [
        message.encoded for message in again.run.transcript
    ][:-1]


async def test_a_changed_file_needs_force(desk):
    """A changed file needs force; the stored settings still apply, and the model is notified."""
    folder = desk.folder / "specialists"
    folder.mkdir()
    file = folder / "finder.md"
    file.write_text("---\nname: finder\ndescription: Finds.\ntools: []\ntool_calls_limit: 1\n---\nYou find.\n")
    desk.specialist = str(file)
    first = await desk.ask(LOOKS, ANSWER)
    file.write_text(file.read_text().replace("You find.", "You search.").replace("limit: 1", "limit: 9"))
    await refused(desk, f"{file} was changed or deleted since {first.outcome.run_id} began", question="More?")
    again = await desk.go_on(LATER, question="More?", force=True)
    assert again.named("resumed")[0].note == f"{prompts.CHANGED_FILE}\nThe user now asks: More?"
    assert again.provider.opening.system == first.provider.opening.system
    assert again.outcome.tool_calls.limit == 1
    file.unlink()
    await refused(desk, "was changed or deleted since", question="And?")
    assert (await desk.go_on(ANSWER, question="And?", force=True)).outcome.status == "landed"


async def test_of_two_processes_resuming_a_run_one_is_refused(desk):
    """If two processes resume an interrupted run, the second claim is refused and there is one history."""
    going = await desk.record(LOOKS, ANSWER)
    await desk.keep(going.notebook.until(Returned, 1))
    first, second = ScriptedProvider([LATER]), ScriptedProvider([])
    async with desk.process(first) as one, desk.process(second) as two:
        run = await one.resume("last")
        with pytest.raises(NotResumable, match="is still running"):
            await two.resume("last")
        assert (await run.outcome()).answer == "Later."
    assert second.requests == []


async def test_a_missing_root_is_refused(desk, tmp_path):
    """A run whose root folder no longer exists is refused."""
    desk.folder = tmp_path / "project"
    desk.folder.mkdir()
    store = f"sqlite:///{tmp_path}/kept.db"
    async with desk.process(ScriptedProvider([LOOKS, ANSWER]), store=store) as runner:
        ended = await runner.run(desk.specialist, "What?")
    shutil.rmtree(desk.folder)
    async with Runner(root=tmp_path, provider=ScriptedProvider([]), tools=desk.tools, store=store) as runner:
        with pytest.raises(NotResumable, match=f"its working folder {desk.folder} no longer exists"):
            await runner.resume(ended.run_id, "More?")
