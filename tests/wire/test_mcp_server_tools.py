"""The specialists as tools of an MCP server: schemas, results, background runs, progress, errors."""

import asyncio
import itertools
import json

import jsonschema
import pytest
from sqlalchemy import create_engine, text

from run_specialist.errors import ProviderError
from run_specialist.mcp_server import runs as mcp_runs
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
from tests.scripted_provider import calls, says
from tests.slow_folders import HeldWalk
from tests.wire.looker_script import FOUND, HOLDS, LOOKS, listed
from tests.wire.serving import PATIENCE, BlockingTool, ProgressLog, serving, write_specialist

pytestmark = pytest.mark.usefixtures("project")


async def test_each_specialist_is_a_tool_with_its_limit_as_the_default(looker, mode):
    """Each specialist is a tool with name, description and input schema, listed with the three tools for long runs."""
    async with serving(mode=mode) as served:
        tools = listed(await served.client.list_tools())
    assert [*tools] == ["looker", "start_run", "get_run", "steer_run", "cancel_run"]
    looker_tool = tools["looker"]
    assert (looker_tool.title, looker_tool.description) == ("Looker", "Is looker")
    schema = looker_tool.input_schema
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"]["minLength"] == 1
    assert schema["properties"]["tool_calls_limit"] | {"description": ""} == {
        "type": "integer",
        "minimum": 0,
        "default": 4,
        "description": "",
    }
    assert tools["start_run"].input_schema["properties"]["specialist"]["enum"] == ["looker"]
    for tool in tools.values():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)


async def test_tool_names_are_sanitized_and_unique(project):
    """Tool names are sanitized, shortened and made unique, and each one calls its own specialist."""
    for number, name in enumerate(["A note: finder!", "A note finder", "start_run", "見つけ", "x" * 70]):
        write_specialist(project, json.dumps(name), "tools: []", file=str(number))
    async with serving([says("Here.")]) as served:
        tools = listed(await served.client.list_tools())
        assert [*tools][:5] == ["A-note-finder", "A-note-finder-2", "start_run-2", "specialist", "x" * 48]
        outcome = (await served.call("A-note-finder-2", query="?")).structured_content
    assert outcome["specialist"] == "A note finder"


async def test_only_a_read_only_specialist_has_the_read_only_hint(project):
    """Only a specialist whose tools just read has the read-only hint."""
    write_specialist(project, "reader")
    write_specialist(project, "asks-reader", "agents: [reader]")
    write_specialist(project, "own", "python_tools: ['json:dumps']")
    write_specialist(project, "foreign", "mcp_servers: {x: {command: 'true'}}")
    write_specialist(project, "asks-own", "agents: [own]")
    write_specialist(project, "editor", "tools: read, Edit", "writable: docs/")
    write_specialist(project, "idle-editor", "tools: read, Edit")
    async with serving() as served:
        tools = listed(await served.client.list_tools())
    hints = {name: (tool.annotations.read_only_hint, tool.annotations.open_world_hint) for name, tool in tools.items()}
    safe, unsafe = (True, False), (False, True)
    assert hints == {
        "reader": safe,
        "asks-reader": safe,
        "own": unsafe,
        "foreign": unsafe,
        "asks-own": unsafe,
        "editor": unsafe,
        "idle-editor": safe,
        "start_run": unsafe,
        "get_run": safe,
        "steer_run": (False, False),
        "cancel_run": (False, False),
    }


async def test_a_result_has_the_outcome_as_json_and_text(looker, mode):
    """A result's JSON is the outcome and matches the tool's schema; its text has the answer and the evidence."""
    async with serving([LOOKS, FOUND], mode=mode, tools=[LOOK]) as served:
        schema = listed(await served.client.list_tools())["looker"].output_schema
        result = await served.call("looker", query="What do owls eat?")
    outcome = result.structured_content
    jsonschema.validate(outcome, schema)
    assert not result.is_error
    assert (outcome["status"], outcome["answer"], outcome["tool_calls"]["used"]) == ("answered", "Mice.", 1)
    assert outcome["evidence"] == [{"source": "x", "quote": "note on 'owls', part 0", "verified": True}]
    assert outcome["output"] is None
    assert schema["required"] == [*outcome]
    assert "error" not in outcome
    text = result.content[0].text
    assert text.startswith("[looker: answered after 1 of 4 tool calls]\n\nMice.\n\nEvidence:\n- x: note on")


@pytest.mark.exhaustive
async def test_the_output_schema_of_a_file_is_part_of_its_tool_schema(project):
    """A specialist's output_schema is part of its tool's schema, and references inside it still resolve."""
    shape = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"prey": {"$ref": "#/$defs/animal"}},
        "required": ["prey"],
        "$defs": {"animal": {"enum": ["mouse", "vole"]}},
    }
    write_specialist(project, "shaped", "tools: []", f"output_schema: {json.dumps(shape)}")
    delivered = calls(("respond", {"answer": {"prey": "vole"}}))
    async with serving([delivered]) as served:
        schema = listed(await served.client.list_tools())["shaped"].output_schema
        outcome = (await served.call("shaped", query="?")).structured_content
    assert outcome["output"] == {"prey": "vole"}
    jsonschema.validate(outcome, schema)
    jsonschema.validate(outcome | {"output": None}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(outcome | {"output": {"prey": "owl"}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(outcome | {"status": "running"}, schema)


async def test_the_limit_of_a_call_overrides_the_file(looker, tmp_path):
    """S2.11 over MCP: a call's limit overrides the file's, and the text names both ways to continue."""
    async with serving([LOOKS, FOUND], tools=[LOOK], store=f"{tmp_path}/runs.db") as served:
        result = await served.call("looker", query="?", tool_calls_limit=1.0, time_limit=None)
    outcome, text = result.structured_content, result.content[0].text
    assert (outcome["status"], outcome["tool_calls"]["limit"]) == ("landed", 1)
    assert "[the limit of 1 tool call was reached; ask again with a larger one" in text
    assert f"specialists resume {outcome['run_id']}]" in text


async def begin(served, held):
    """Start a run, wait until it calls its tool, and return its id."""
    run_id = (await served.call("start_run", specialist="looker", query="?")).structured_content["run_id"]
    await asyncio.wait_for(held.entered.wait(), PATIENCE)
    return run_id


async def test_steer_run_adds_a_text_while_the_run_works(looker):
    """It returns the status; for a run that has ended it is an error that says how to ask more."""
    held = BlockingTool()
    async with serving([HOLDS, says("Here.")], tools=[held.tool]) as served:
        run_id = await begin(served, held)
        steered = await served.call("steer_run", run_id=run_id, text="Only 2025.")
        assert (steered.is_error, steered.structured_content["status"]) == (False, "running")
        held.released.set()
        ended = await served.call("get_run", run_id=run_id, wait_seconds=PATIENCE)
        late = await served.call("steer_run", run_id=run_id, text="More.")
        none = await served.call("steer_run", run_id="20261127-000000-0123456789", text="More.")
    assert ended.structured_content["outcome"]["warnings"] == []
    assert (late.is_error, "ask it more by start_run with its run_id" in late.content[0].text) == (True, True)
    assert (none.is_error, "is known here" in none.content[0].text) == (True, True)


async def test_a_started_run_reports_progress_and_its_outcome(looker, mode, monkeypatch):
    """start_run returns an id; get_run reports progress, waits for the outcome with keep-alives, and returns it."""
    held, progress_log = BlockingTool(), ProgressLog()
    async with serving([HOLDS, says("Here.")], mode=mode, tools=[held.tool]) as served:
        begun = (await served.call("start_run", specialist="looker", query="?", tool_calls_limit=3)).structured_content
        assert begun["status"] == "running"
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        midway = await served.call("get_run", run_id=begun["run_id"])
        assert midway.structured_content == {
            "run_id": begun["run_id"],
            "specialist": "looker",
            "status": "running",
            "progress": f"looker started on scripted · 3 tool calls · run {begun['run_id']}",
            "tool_calls_used": 0,
            "outcome": None,
        }
        assert midway.content[0].text.startswith("[running] looker started")
        # Keep-alive notifications reset the timeout of a client.
        with monkeypatch.context() as patched:
            patched.setattr(mcp_runs, "HEARTBEAT", 0.01)
            waiting = asyncio.ensure_future(
                served.call("get_run", progress_log, run_id=begun["run_id"], wait_seconds=PATIENCE)
            )
            while len(progress_log.messages) < 3:
                progress_log.received.clear()
                await asyncio.wait_for(progress_log.received.wait(), PATIENCE)
            # The server owns the run, not the client that waits for it.
            cancelled = asyncio.ensure_future(served.call("get_run", run_id=begun["run_id"], wait_seconds=PATIENCE))
            await asyncio.wait([cancelled], timeout=0.01)
            cancelled.cancel()
            await asyncio.wait([cancelled])
        held.released.set()
        done = (await waiting).structured_content
        again = await served.call("get_run", run_id=begun["run_id"], wait_seconds=5)
        cancelled = await served.call("cancel_run", run_id=begun["run_id"])
    assert (done["status"], done["outcome"]["answer"], done["tool_calls_used"]) == ("answered", "Here.", 1)
    assert again.structured_content == cancelled.structured_content == done
    assert progress_log.messages[-1] == "answered after 1 tool call"
    assert {message.count("still at work") for message in progress_log.messages[:3]} == {1}
    figures = [progress for progress, _, _ in progress_log.notifications]
    assert all(before < after for before, after in itertools.pairwise(figures))


async def test_cancel_run_returns_the_gathered_results(looker):
    """cancel_run returns the outcome of an aborted run, with the results gathered so far."""
    held = BlockingTool()
    async with serving([LOOKS, calls(("hold", {}), first_id=2)], tools=[LOOK, held.tool]) as served:
        run_id = await begin(served, held)
        result = await served.call("cancel_run", run_id=run_id)
    assert not result.is_error
    assert result.structured_content["status"] == "aborted"
    assert "note on 'owls'" in result.structured_content["outcome"]["answer"]


async def test_an_untrusted_specialist_is_not_started(project):
    """An untrusted specialist is listed but not run; the error names its imports and `--trust`."""
    (project / "own.py").write_text("raise SystemExit('imported')\n")
    write_specialist(project, "own", "python_tools: ['own:look']")
    async with serving() as served:
        refused = await served.call("own", query="?")
        begun = await served.call("start_run", specialist="own", query="?")
    assert refused.is_error
    assert begun.is_error
    assert refused.content == begun.content
    assert "would import own" in refused.content[0].text
    assert "--trust" in refused.content[0].text


@pytest.mark.exhaustive
async def test_a_stored_run_is_found_by_its_full_id(looker, tmp_path):
    """get_run finds an earlier server's run in the shared store by its full id."""
    store = f"sqlite:///{tmp_path}/runs.db"
    async with serving([says("Here.")], store=store) as served:
        before = (await served.call("looker", query="?")).structured_content
    async with serving(store=store) as served:
        found = await served.call("get_run", run_id=before["run_id"])
        guesses = [await served.call("get_run", run_id=guess) for guess in ("last", before["run_id"][:-1], "2")]
        cancelled = await served.call("cancel_run", run_id=before["run_id"])
    assert found.structured_content["outcome"] == before
    assert found.structured_content["status"] == "answered"
    assert cancelled.structured_content == found.structured_content
    assert all(one.is_error and before["run_id"] not in one.content[0].text for one in guesses)


async def test_a_run_whose_process_died_is_interrupted(looker, tmp_path):
    """A run stored as running whose process died is interrupted, and the text names the resume command."""
    store = f"sqlite:///{tmp_path}/runs.db"
    held = BlockingTool()
    async with serving([HOLDS, says("Here.")], tools=[held.tool], store=store) as first, serving(store=store) as other:
        run_id = await begin(first, held)
        async with asyncio.timeout(PATIENCE):
            # The run writes to the store in the background.
            while (elsewhere := await other.call("get_run", run_id=run_id)).is_error:
                pass
        refused = await other.call("cancel_run", run_id=run_id)
        engine = create_engine(store)
        with engine.begin() as connection:
            owner = connection.execute(text("select owner from runs")).scalar_one()
            connection.execute(text("update runs set owner = 'gone:1:1'"))
        dead = await other.call("get_run", run_id=run_id)
        with engine.begin() as connection:
            connection.execute(text("update runs set owner = :owner"), {"owner": owner})
        engine.dispose()
    assert elsewhere.structured_content["status"] == "running"
    assert "another process works on it" in elsewhere.content[0].text
    assert refused.is_error
    assert "worked on by another process" in refused.content[0].text
    assert dead.structured_content["status"] == "interrupted"
    assert f"specialists resume {run_id}" in dead.content[0].text


async def test_the_number_of_active_runs_is_limited(looker, monkeypatch):
    """The number of active runs is bounded, and a server that shuts down aborts them and refuses new ones."""
    monkeypatch.setattr(mcp_runs, "MOST_AT_WORK", 1)
    held = BlockingTool()
    async with serving([HOLDS], tools=[held.tool]) as served:
        run_id = await begin(served, held)
        refused = await served.call("looker", query="?")
        await served.service.close(PATIENCE)
        stopped = await served.call("get_run", run_id=run_id)
        late = await served.call("looker", query="?")
    assert "1 runs are at work already; wait for one of them, or cancel one" in refused.content[0].text
    assert stopped.structured_content["status"] == "aborted"
    assert late.content[0].text == "the server is shutting down"


async def test_without_a_store_few_outcomes_are_kept(looker, monkeypatch):
    """Without a store, only a bounded number of outcomes is kept; the oldest finished run is dropped first."""
    monkeypatch.setattr(mcp_runs, "MOST_REMEMBERED", 2)
    async with serving([says("1"), says("2"), says("3")]) as served:
        ids = [(await served.call("looker", query="?")).structured_content["run_id"] for _ in range(3)]
        found = [(await served.call("get_run", run_id=one)).is_error for one in ids]
    assert found == [True, False, False]


async def test_progress_counts_down_and_its_figure_grows(looker, mode):
    """Progress counts down in text and its figure only grows: at the start, after each call, at landing, at the end."""
    progress_log = ProgressLog()
    wanted = [("look", {"query": "owls"}), ("look", {"query": "x " * 60}), ("nothing", {}), ("look", {})]
    script = [calls(one, first_id=number) for number, one in enumerate(wanted)]
    async with serving([*script, FOUND], mode=mode, tools=[LOOK]) as served:
        outcome = (await served.call("looker", progress_log, query="?")).structured_content
    # Over the wire, separate tasks deliver the notifications.
    notifications = sorted(progress_log.notifications)
    assert [message for _, _, message in notifications] == [
        f"looker started on scripted · 4 tool calls · run {outcome['run_id']}",
        "look: 'owls' · 1 of 4 tool calls used, 3 remaining",
        f"look: '{('x ' * 30)[:60]}…' · 2 of 4 tool calls used, 2 remaining",
        "nothing failed · 3 of 4 tool calls used, 1 remaining",
        "look · 4 of 4 tool calls used, 0 remaining",
        "the limit of tool calls is reached: landing, it must answer now",
        "landed after 4 tool calls",
    ]
    figures = [progress for progress, _, _ in notifications]
    assert figures[:5] == [0, 1, 2, 3, 4]
    assert all(before < after for before, after in itertools.pairwise(figures))
    assert all(progress <= total for progress, total, _ in notifications)


async def test_progress_includes_calls_of_children(project):
    """X.11 over MCP: a child's calls appear in the parent's progress, under the child's name."""
    write_specialist(project, "child", "tools: []", "tool_calls_limit: 3")
    write_specialist(project, "parent", "tools: []", "tool_calls_limit: 9", "agents: [child]")
    asks = calls(("delegate", {"specialist": "child", "query": "And?"}))
    progress_log = ProgressLog()
    script = [asks, calls(("look", {"query": "owls"}), first_id=4), says("Mice."), FOUND]
    async with serving(script, tools=[LOOK]) as served:
        outcome = (await served.call("parent", progress_log, query="?")).structured_content
    assert [child["specialist"] for child in outcome["children"]] == ["child"]
    assert "child: look: 'owls' · 1 of 3 tool calls used, 2 remaining" in progress_log.messages
    figures = [progress for progress, _, _ in progress_log.notifications]
    assert figures == sorted(set(figures))


@pytest.mark.exhaustive(one_in=7)
@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("looker", {}, "query: wanted a text that is not empty, found nothing"),
        ("looker", {"query": "x", "tool_calls_limit": 10**40}, "tool_calls_limit: wanted a whole number"),
        ("looker", {"query": "x", "time_limit": 0}, "time_limit: wanted seconds above 0, found 0"),
        (
            "nobody",
            {"query": "x"},
            "there is no tool 'nobody'; there are: looker, start_run, get_run, steer_run, cancel_run",
        ),
        ("get_run", {"run_id": "x", "wait_seconds": 601}, "wait_seconds: wanted seconds from 0 to 600, found 601"),
    ],
)
async def test_an_invalid_call_is_a_one_line_error_result(looker, name, arguments, told, mode):
    """A wrong argument, tool, specialist or run id gives a one-line error result, not a protocol error."""
    async with serving(mode=mode) as served:
        result = await served.call(name, **arguments)
    assert result.is_error
    assert told in result.content[0].text
    assert "\n" not in result.content[0].text


async def test_a_failed_run_is_an_error_result_with_its_outcome(looker):
    """X.12 over MCP: a failed run is an error result with the reason in its text and the outcome as JSON."""
    async with serving(
        [LOOKS, ProviderError("the API is down"), ProviderError("the API is down")], tools=[LOOK]
    ) as served:
        result = await served.call("looker", query="?")
    assert result.is_error
    assert "[the API is down]" in result.content[0].text
    assert result.structured_content["status"] == "failed"
    assert "note on 'owls'" in result.structured_content["answer"]


async def test_specialist_files_are_reread_for_each_list_and_call(project, looker):
    """Specialist files are reread for each list and call: changed limits, new files, deleted files."""
    async with serving([LOOKS, FOUND], tools=[LOOK]) as served:
        await served.client.list_tools()
        write_specialist(project, "looker", "tool_calls_limit: 1", "tools: []")
        broken = write_specialist(project, "broken", "turns_limit: -3")
        write_specialist(project, "new", "tools: []")
        assert [*listed(await served.client.list_tools())][:2] == ["looker", "new"]
        await served.client.list_tools()
        assert [line for line in served.said if str(broken) in line] == served.said
        assert len(served.said) == 1
        assert served.said[0].startswith(f"not served: {broken}:4:")
        outcome = (await served.call("looker", query="?")).structured_content
        assert outcome["tool_calls"]["limit"] == 1
        looker.unlink()
        assert "there is no tool 'looker'" in (await served.call("looker", query="?")).content[0].text


async def test_s0_7_concurrent_calls_have_separate_runs(project, looker):
    """Four concurrent calls have four runs, each with its own budget and its own progress."""
    started, go = asyncio.Event(), asyncio.Event()
    inside = 0

    async def meet(query: str) -> str:
        nonlocal inside
        inside += 1
        if inside == 4:
            started.set()
        await go.wait()
        return query

    script = [calls(("meet", {"query": str(n)}), first_id=n) for n in range(1, 5)] + [says("Met.")] * 4
    async with serving(script, tools=[Tool("meet", "Waits for the others.", meet)]) as served:
        ears = [ProgressLog() for _ in range(4)]
        asked = [asyncio.ensure_future(served.call("looker", progress_log, query="?")) for progress_log in ears]
        await asyncio.wait_for(started.wait(), PATIENCE)
        go.set()
        outcomes = [one.structured_content for one in await asyncio.gather(*asked)]
    assert len({one["run_id"] for one in outcomes}) == 4
    assert [one["tool_calls"]["used"] for one in outcomes] == [1] * 4
    assert all(
        progress_log.messages[0].endswith(one["run_id"]) for progress_log, one in zip(ears, outcomes, strict=True)
    )


@pytest.mark.exhaustive
async def test_a_call_is_answered_while_another_walks_the_project(project, monkeypatch):
    """A call is answered while another call is still walking the project for its paths."""
    write_specialist(project, "walker", "paths: '*.txt'")
    write_specialist(project, "thinker", "tools: []")
    async with serving([says("Mice.")]) as served:
        walk = HeldWalk(monkeypatch)
        first = asyncio.create_task(served.call("walker", query="What is there?"))
        await asyncio.to_thread(walk.entered.wait, PATIENCE)
        second = await served.call("thinker", query="What do owls eat?")
        assert "Mice." in second.content[0].text
        assert not walk.released.is_set()
        assert not first.done()
        walk.released.set()
        refused = await first
    assert refused.is_error
    assert "paths: no file under" in refused.content[0].text
