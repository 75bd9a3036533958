"""Background runs of an MCP server: `start_run`, `get_run` and `cancel_run`."""

import asyncio
import itertools

import pytest
from sqlalchemy import create_engine, text

from run_specialist.mcp_server import runs as mcp_runs
from tests.loop_jobs import LOOK
from tests.scripted_provider import calls, says
from tests.wire.looker_script import HOLDS, LOOKS
from tests.wire.serving import PATIENCE, BlockingTool, ProgressLog, serving, write_specialist

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("project")]


async def begin(served, held):
    """Start a run, wait until it calls its tool, and return its id."""
    run_id = (await served.call("start_run", specialist="looker", query="?")).structured_content["run_id"]
    await asyncio.wait_for(held.entered.wait(), PATIENCE)
    return run_id


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
