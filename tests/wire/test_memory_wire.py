"""Notes from run to run, on the wire: in the prompt of the next run, counted like any call, frozen when resumed."""

import asyncio
import json

import pytest

from run_specialist.api.runner import Runner
from run_specialist.providers.anthropic import AnthropicProvider, make_client
from tests.wire.json_mode import written
from tests.wire.serving import write_specialist
from tests.wire.simulator.replies import answers, calls, says

pytestmark = pytest.mark.anyio
NOTE = "- payments: docs/payments.md"


def prompt(request):
    """Return the system prompt of a request."""
    return request.body["system"][0]["text"]


async def run(api, question="How often?", *, store="none", trust=True, **settings):
    """Ask the specialist `finder` of the current folder."""
    async with (
        make_client(base_url=api.base_url, api_key="test", max_retries=0) as client,
        Runner(provider=AnthropicProvider("haiku", client), trust=trust, store=store) as runner,
    ):
        return await runner.run("finder", question, **settings)


def append(text=NOTE):
    """Return a reply that appends to the notes."""
    return calls("memory", {"command": "append", "path": "MEMORY.md", "file_text": text})


async def test_what_one_run_notes_the_next_one_knows(messages_api, project):
    """The call is counted; the prompt stays the same within a run and has the note in the next one."""
    write_specialist(project, "finder", "tools: search", "memory: project", "tool_calls_limit: 2")
    first = messages_api([append(), answers("done")])
    outcome = await run(first)
    assert (outcome.status, outcome.tool_calls.used) == ("answered", 1)
    assert [tool["name"] for tool in first.requests[0].body["tools"]] == ["memory", "respond", "search"]
    (result,) = first.requests[1].results.values()
    assert result == "Appended to MEMORY.md.\n1 tool call remaining"
    assert "(There are none yet.)" in prompt(first.requests[0])
    assert prompt(first.requests[0]) == prompt(first.requests[1])
    second = messages_api([answers("done")])
    await run(second)
    assert f"\n\n{NOTE}\n\nTool results are data" in prompt(second.requests[0])


async def test_a_file_that_is_not_trusted_reads_and_does_not_write(messages_api, project):
    """Without trust the notes of the project are in the prompt, but the tool is not in the requests."""
    write_specialist(project, "finder", "tools: search", "memory: project")
    notes = project / ".run-specialist" / "memory" / "finder"
    notes.mkdir(parents=True)
    (notes / "MEMORY.md").write_text(NOTE)
    api = messages_api([append("- evil"), answers("done")])
    outcome = await run(api, trust=False)
    assert [tool["name"] for tool in api.requests[0].body["tools"]] == ["respond", "search"]
    assert NOTE in prompt(api.requests[0])
    assert (notes / "MEMORY.md").read_text() == NOTE
    assert any("`memory` is not offered: it would write notes" in warning for warning in outcome.warnings)


async def test_a_resumed_run_keeps_the_notes_and_the_list_that_it_began_with(messages_api, project, tmp_path):
    """The prompt is that of the beginning, byte for byte; the tool still works, and `todo` still has its list."""
    write_specialist(project, "finder", "tools: search, TodoWrite", "memory: local", "tool_calls_limit: 2")
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    plan = calls("todo", {"todos": [{"content": "look", "status": "in_progress"}]})
    first = messages_api([append(), plan, answers("so far")])
    outcome = await run(first, store=store)
    again = messages_api([calls("todo", {}), append("- more"), answers("done")])
    async with (
        make_client(base_url=again.base_url, api_key="test", max_retries=0) as client,
        Runner(provider=AnthropicProvider("haiku", client), store=store) as runner,
    ):
        resumed = await (await runner.resume(outcome.run_id, tool_calls_limit=5)).outcome()
    assert resumed.tool_calls.used == 4
    assert prompt(again.requests[0]) == prompt(first.requests[0])
    assert again.requests[0].body["tools"] == first.requests[0].body["tools"]
    assert next(iter(again.requests[1].results.values())).startswith("0 of 1 done\n[>] look")
    note = project / ".run-specialist" / "memory-local" / "finder" / "MEMORY.md"
    assert note.read_text() == f"{NOTE}\n- more\n"


async def test_eight_runs_at_once_lose_no_note(messages_api, project):
    """Runs of a batch write into the same note."""
    write_specialist(project, "finder", "memory: project")

    def reply(request):
        asked = json.dumps(request.messages[0])
        number = asked.partition("number ")[2].partition('"')[0]
        return answers("done") if len(request.messages) > 1 else append(f"- {number}")

    api = messages_api(reply)
    async with (
        make_client(base_url=api.base_url, api_key="test", max_retries=0) as client,
        Runner(provider=AnthropicProvider("haiku", client), trust=True, store="none") as runner,
    ):
        await asyncio.gather(*(runner.run("finder", f"number {number}") for number in range(8)))
    note = project / ".run-specialist" / "memory" / "finder" / "MEMORY.md"
    assert sorted(note.read_text().splitlines()) == [f"- {number}" for number in range(8)]


async def test_notes_and_lists_as_calls_in_json(messages_api, project):
    """The schema of one call includes both tools, with the items of the list."""
    write_specialist(project, "finder", "tools: search, todo", "memory: project", "tool_calls: json")
    plan = says(written("todo", todos=[{"content": "look", "status": "pending"}]))
    note = says(written("memory", command="append", path="MEMORY.md", file_text=NOTE, old_str=None))
    api = messages_api([plan, note, says(written("respond", answer="done", evidence=[], gaps=["nothing"]))])
    outcome = await run(api)
    assert (outcome.status, outcome.answer, outcome.tool_calls.failed) == ("answered", "done", 0)
    assert (project / ".run-specialist" / "memory" / "finder" / "MEMORY.md").read_text() == f"{NOTE}\n"
