"""Progress notifications, errors and cancellation of an MCP tool call."""

import asyncio
import itertools

import pytest

from run_specialist.errors import ProviderError
from run_specialist.store.reader import Store
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
from tests.scripted_provider import calls, says
from tests.wire.looker_script import FOUND, LOOKS, listed
from tests.wire.serving import PATIENCE, BlockingTool, ProgressLog, serving, write_specialist

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("project")]


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
        ("looker", {"query": ["x"]}, "query: wanted a text that is not empty, found ['x']"),
        ("looker", {"query": "x", "tool_calls_limit": 10**40}, "tool_calls_limit: wanted a whole number"),
        ("looker", {"query": "x", "time_limit": 0}, "time_limit: wanted seconds above 0, found 0"),
        ("looker", {"query": "x", "limit": 3}, "there is no argument limit; there are: query, tool_calls_limit"),
        ("nobody", {"query": "x"}, "there is no tool 'nobody'; there are: looker, start_run, get_run, cancel_run"),
        ("start_run", {"specialist": "nobody", "query": "x"}, "there is no specialist 'nobody'; there are: looker"),
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


async def test_an_internal_error_ends_only_one_call(looker, monkeypatch):
    """An internal error ends one call with an error that says so; the next call is answered."""
    async with serving([says("Here.")]) as served:
        with monkeypatch.context() as broken:
            broken.setattr("run_specialist.mcp_server.runs.past_run", lambda *_: 1 / 0)
            failed = await served.call("get_run", run_id="x")
        assert failed.content[0].text == "internal error: ZeroDivisionError('division by zero'); please report it"
        assert not (await served.call("looker", query="?")).is_error


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


async def test_a_cancelled_call_leaves_an_aborted_run_in_the_store(looker, tmp_path, mode):
    """S3.6 over MCP: cancelling a call cancels its tool and stores the run as aborted with its results so far."""
    held = BlockingTool()
    store = f"sqlite:///{tmp_path}/runs.db"
    async with serving(
        [LOOKS, calls(("hold", {}), first_id=2)], mode=mode, tools=[LOOK, held.tool], store=store
    ) as served:
        asked = asyncio.ensure_future(served.client.call_tool("looker", {"query": "?"}))
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        asked.cancel()
        await asyncio.wait([asked])
        assert asked.cancelled()
        async with asyncio.timeout(PATIENCE):
            while served.service.runs._active:
                await asyncio.wait([one.task for one in served.service.runs._active])
        assert held.cancelled
    with Store(store) as opened:
        run = opened.load("last")
    assert (run.status, run.tool_calls) == ("aborted", 2)
    assert "note on 'owls'" in run.outcome["answer"]


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
