"""The specialists as tools of an MCP server, seen by the official client in both ages of the protocol."""

import asyncio
import itertools
import json
from pathlib import Path

import jsonschema
import pytest
from mcp.shared.exceptions import MCPError
from sqlalchemy import create_engine, text

from run_specialist.errors import ProviderError
from run_specialist.mcp_server import runs as mcp_runs
from run_specialist.providers.scripted import calls, says
from run_specialist.store.reader import Store
from run_specialist.tools.base import Tool
from tests.loop_jobs import LOOK
from tests.wire.serving import PATIENCE, Heard, Held, serving, write_specialist

pytestmark = pytest.mark.anyio
LOOKS = calls(("look", {"query": "owls"}))
FOUND = calls(
    ("respond", {"answer": "Mice.", "evidence": [{"source": "x", "quote": "note on 'owls', part 0"}]}), first_id=9
)
HOLDS = calls(("hold", {}))


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch) -> Path:
    """A project without specialists, entered; none of the user's and none that come along."""
    root = tmp_path / "project"
    for folder in (".git", "specialists"):
        (root / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("run_specialist.specialist.project.packaged", lambda: tmp_path / "none")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def looker(project) -> Path:
    """A specialist that looks things up, with four tool calls."""
    return write_specialist(project, "looker", "tool_calls_limit: 4", "tools: []")


@pytest.fixture(params=["legacy", "auto"])
def mode(request) -> str:
    """Both ages of the protocol: with a handshake, and with each request for itself."""
    return request.param


def listed(result) -> dict:
    """Return the tools of a listing by their names."""
    return {tool.name: tool for tool in result.tools}


async def test_each_specialist_is_a_tool_with_its_limit_as_the_default(looker, mode):
    """Name, description, the schema of a question, and beside them the three tools for long runs."""
    async with serving(mode=mode) as served:
        tools = listed(await served.client.list_tools())
    assert [*tools] == ["looker", "start_run", "get_run", "cancel_run"]
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


async def test_without_a_specialist_there_is_nothing_to_start():
    """An empty project is served all the same: runs of before can still be looked at."""
    async with serving() as served:
        assert [*listed(await served.client.list_tools())] == ["get_run", "cancel_run"]
        refused = await served.call("start_run", specialist="looker", query="?")
    assert refused.is_error
    assert "there are: none" in refused.content[0].text


async def test_names_are_made_fit_for_tools_and_kept_apart(project):
    """What no tool may be called is replaced, long names are cut, ours are reserved, and all answer to their name."""
    for number, name in enumerate(["A note: finder!", "A note finder", "start_run", "見つけ", "x" * 70]):
        write_specialist(project, json.dumps(name), "tools: []", file=str(number))
    async with serving([says("Here.")]) as served:
        tools = listed(await served.client.list_tools())
        assert [*tools][:5] == ["A-note-finder", "A-note-finder-2", "start_run-2", "specialist", "x" * 48]
        outcome = (await served.call("A-note-finder-2", query="?")).structured_content
    assert outcome["specialist"] == "A note finder"


async def test_only_a_specialist_that_can_do_nothing_but_read_is_called_so(project):
    """Functions and servers of its own, or of one that it may ask, take the hint away."""
    write_specialist(project, "reader")
    write_specialist(project, "asks-reader", "agents: [reader]")
    write_specialist(project, "own", "python_tools: ['json:dumps']")
    write_specialist(project, "foreign", "mcp_servers: {x: {command: 'true'}}")
    write_specialist(project, "asks-own", "agents: [own]")
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
        "start_run": unsafe,
        "get_run": safe,
        "cancel_run": (False, False),
    }


async def test_a_call_gives_the_outcome_to_a_program_and_to_a_model(looker, mode):
    """The JSON is that of the outcome and matches the schema of the tool; the text has the answer and its evidence."""
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


async def test_the_shape_that_a_file_asks_for_stands_in_the_schema_of_its_tool(project):
    """References inside of it still lead to their place; what does not match is refused by the client's own check."""
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


async def test_the_limit_of_a_call_beats_that_of_the_file_and_the_text_says_how_to_go_on(looker, tmp_path):
    """S2.11 through this door: landed after one call, and both ways on are told."""
    async with serving([LOOKS, FOUND], tools=[LOOK], store=f"{tmp_path}/runs.db") as served:
        result = await served.call("looker", query="?", tool_calls_limit=1.0, time_limit=None)
    outcome, text = result.structured_content, result.content[0].text
    assert (outcome["status"], outcome["tool_calls"]["limit"]) == ("landed", 1)
    assert "[the limit of 1 tool call was reached; ask again with a larger one" in text
    assert f"specialists resume {outcome['run_id']}]" in text


async def test_progress_counts_down_in_words_and_always_grows(looker, mode):
    """One notification at the start, one after each call, one at the landing, one at the end."""
    heard = Heard()
    wanted = [("look", {"query": "owls"}), ("look", {"query": "x " * 60}), ("nothing", {}), ("look", {})]
    script = [calls(one, first_id=number) for number, one in enumerate(wanted)]
    async with serving([*script, FOUND], mode=mode, tools=[LOOK]) as served:
        outcome = (await served.call("looker", heard, query="?")).structured_content
    # Those over the wire are passed on by tasks of their own.
    news = sorted(heard.news)
    assert [message for _, _, message in news] == [
        f"looker started on scripted · 4 tool calls · run {outcome['run_id']}",
        "look: 'owls' · 1 of 4 tool calls used, 3 remaining",
        f"look: '{('x ' * 30)[:60]}…' · 2 of 4 tool calls used, 2 remaining",
        "nothing failed · 3 of 4 tool calls used, 1 remaining",
        "look · 4 of 4 tool calls used, 0 remaining",
        "the limit of tool calls is reached: landing, it must answer now",
        "landed after 4 tool calls",
    ]
    figures = [progress for progress, _, _ in news]
    assert figures[:5] == [0, 1, 2, 3, 4]
    assert all(before < after for before, after in itertools.pairwise(figures))
    assert all(progress <= total for progress, total, _ in news)


async def test_progress_of_another_kind_is_its_share_of_the_first(project):
    """Characters run out first: the words tell them, the figures go on growing towards the total of the calls."""
    write_specialist(project, "reader", "tools: []", "tool_calls_limit: 10", "tool_chars_limit: 46")
    heard = Heard()
    script = [calls(("look", {"query": "owls"}), first_id=n) for n in (1, 2)]
    async with serving([*script, FOUND], tools=[LOOK]) as served:
        await served.call("reader", heard, query="?")
    assert (4.783, 10, "look: 'owls' · 22 of 46 characters used, 24 remaining") in heard.news
    assert (9.565, 10, "look: 'owls' · 44 of 46 characters used, 2 remaining") in heard.news


async def test_what_another_specialist_does_on_the_way_is_told_too(project):
    """X.11 through this door: its calls in words, under its name; the figures are those of the run that was asked."""
    write_specialist(project, "child", "tools: []", "tool_calls_limit: 3")
    write_specialist(project, "parent", "tools: []", "tool_calls_limit: 9", "agents: [child]")
    asks = calls(("delegate", {"specialist": "child", "query": "And?"}))
    heard = Heard()
    script = [asks, calls(("look", {"query": "owls"}), first_id=4), says("Mice."), FOUND]
    async with serving(script, tools=[LOOK]) as served:
        outcome = (await served.call("parent", heard, query="?")).structured_content
    assert [child["specialist"] for child in outcome["children"]] == ["child"]
    assert "child: look: 'owls' · 1 of 3 tool calls used, 2 remaining" in heard.messages
    figures = [progress for progress, _, _ in heard.news]
    assert figures == sorted(set(figures))


async def test_a_client_hears_that_a_slow_run_is_still_at_work(looker, monkeypatch):
    """Without news for a while the last news comes again, with a figure that grew: it resets the client's patience."""
    monkeypatch.setattr(mcp_runs, "HEARTBEAT", 0.01)
    held, heard = Held(), Heard()

    def enough(message: str | None) -> bool:
        return "still at work" in (message or "")

    async with serving([HOLDS, says("Here.")], tools=[held.tool]) as served:
        asked = asyncio.ensure_future(served.call("looker", heard, query="?"))
        while sum(map(enough, heard.messages)) < 3:
            heard.came.clear()
            await asyncio.wait_for(heard.came.wait(), PATIENCE)
        held.released.set()
        assert not (await asked).is_error
    assert all((message or "").count("still at work") <= 1 for message in heard.messages)
    figures = [progress for progress, _, _ in heard.news]
    assert all(before < after for before, after in itertools.pairwise(figures))


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("looker", {}, "query: wanted a text that is not empty, found nothing"),
        ("looker", {"query": " \n"}, "query: wanted a text"),
        ("looker", {"query": ["x"]}, "query: wanted a text that is not empty, found ['x']"),
        (
            "looker",
            {"query": "x", "tool_calls_limit": -1},
            "tool_calls_limit: wanted a whole number from 0 up, found -1",
        ),
        ("looker", {"query": "x", "tool_calls_limit": 1.5}, "found 1.5"),
        (
            "looker",
            {"query": "x", "tool_calls_limit": True},
            "tool_calls_limit: wanted a whole number from 0 up, found True",
        ),
        ("looker", {"query": "x", "tool_calls_limit": "none"}, "found 'none'"),
        ("looker", {"query": "x", "tool_calls_limit": 10**40}, "tool_calls_limit: wanted a whole number"),
        ("looker", {"query": "x", "time_limit": 0}, "time_limit: wanted seconds above 0, found 0"),
        ("looker", {"query": "x", "time_limit": "1m"}, "time_limit: wanted seconds from 0"),
        ("looker", {"query": "x", "limit": 3}, "there is no argument limit; there are: query, tool_calls_limit"),
        ("nobody", {"query": "x"}, "there is no tool 'nobody'; there are: looker, start_run, get_run, cancel_run"),
        ("start_run", {"specialist": "nobody", "query": "x"}, "there is no specialist 'nobody'; there are: looker"),
        ("start_run", {"query": "x"}, "specialist: wanted a text"),
        ("get_run", {"run_id": "2"}, "no run 2 is known here"),
        ("get_run", {"run_id": "x", "wait_seconds": 601}, "wait_seconds: wanted seconds from 0 to 600, found 601"),
        ("cancel_run", {"run_id": "x"}, "no run x is known here"),
    ],
)
async def test_a_mistake_is_a_result_that_a_model_can_act_on(looker, name, arguments, told, mode):
    """Nothing is asked of a model, and no error of the protocol ends the conversation."""
    async with serving(mode=mode) as served:
        result = await served.call(name, **arguments)
    assert result.is_error
    assert told in result.content[0].text
    assert "\n" not in result.content[0].text


async def test_a_run_that_fails_is_an_error_with_what_was_gathered(looker):
    """X.12 through this door: the reason stands in the text, the outcome beside it."""
    async with serving(
        [LOOKS, ProviderError("the API is down"), ProviderError("the API is down")], tools=[LOOK]
    ) as served:
        result = await served.call("looker", query="?")
    assert result.is_error
    assert "[the API is down]" in result.content[0].text
    assert result.structured_content["status"] == "failed"
    assert "note on 'owls'" in result.structured_content["answer"]


async def test_a_mistake_of_ours_ends_one_call_and_no_more(looker, monkeypatch):
    """It is told as one, and the next call is answered."""
    async with serving([says("Here.")]) as served:
        with monkeypatch.context() as broken:
            broken.setattr("run_specialist.mcp_server.service.outcome_result", lambda *_, **__: 1 / 0)
            first = await served.call("get_run", run_id="x")
            broken.setattr("run_specialist.mcp_server.service.past_run", lambda *_: 1 / 0)
            second = await served.call("get_run", run_id="x")
        assert "no run x" in first.content[0].text
        assert second.content[0].text == "internal error: ZeroDivisionError('division by zero'); please report it"
        assert not (await served.call("looker", query="?")).is_error


async def test_an_edit_shows_in_the_next_list_and_in_the_next_call(project, looker):
    """Files are read anew: limits, new files, files that are gone; a broken one is told once, with its place."""
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
    """S3.6 through this door: the tool is let go, what was gathered is stored, and nothing keeps running."""
    held = Held()
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


async def test_s0_7_calls_at_the_same_time_each_have_their_own_run(project, looker):
    """Four at once, each with its own budget and its own progress."""
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
        ears = [Heard() for _ in range(4)]
        asked = [asyncio.ensure_future(served.call("looker", heard, query="?")) for heard in ears]
        await asyncio.wait_for(started.wait(), PATIENCE)
        go.set()
        outcomes = [one.structured_content for one in await asyncio.gather(*asked)]
    assert len({one["run_id"] for one in outcomes}) == 4
    assert [one["tool_calls"]["used"] for one in outcomes] == [1] * 4
    assert all(heard.messages[0].endswith(one["run_id"]) for heard, one in zip(ears, outcomes, strict=True))


async def test_a_started_run_goes_on_and_tells_how_it_stands(looker, mode):
    """Its id comes at once; get_run tells the progress, waits, and has the outcome; waiting is told about as well."""
    held, heard = Held(), Heard()
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
        waiting = asyncio.ensure_future(served.call("get_run", heard, run_id=begun["run_id"], wait_seconds=PATIENCE))
        held.released.set()
        done = (await waiting).structured_content
        again = await served.call("get_run", run_id=begun["run_id"], wait_seconds=5)
        cancelled = await served.call("cancel_run", run_id=begun["run_id"])
    assert (done["status"], done["outcome"]["answer"], done["tool_calls_used"]) == ("answered", "Here.", 1)
    assert again.structured_content == cancelled.structured_content == done
    assert heard.messages[-1] == "answered after 1 tool call"


async def test_cancel_run_returns_what_was_gathered(looker):
    """The outcome is that of an abort."""
    held = Held()
    async with serving([LOOKS, calls(("hold", {}), first_id=2)], tools=[LOOK, held.tool]) as served:
        run_id = (await served.call("start_run", specialist="looker", query="?")).structured_content["run_id"]
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        result = await served.call("cancel_run", run_id=run_id)
    assert not result.is_error
    assert result.structured_content["status"] == "aborted"
    assert "note on 'owls'" in result.structured_content["outcome"]["answer"]


async def test_cancelling_the_look_at_a_run_leaves_the_run_alone(looker):
    """A started run belongs to the server and not to who looks at it."""
    held = Held()
    async with serving([HOLDS, says("Here.")], tools=[held.tool]) as served:
        run_id = (await served.call("start_run", specialist="looker", query="?")).structured_content["run_id"]
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        heard = Heard()
        looking = asyncio.ensure_future(served.call("get_run", heard, run_id=run_id, wait_seconds=PATIENCE))
        await asyncio.wait([looking], timeout=0.01)
        looking.cancel()
        await asyncio.wait([looking])
        held.released.set()
        done = (await served.call("get_run", run_id=run_id, wait_seconds=PATIENCE)).structured_content
    assert done["status"] == "answered"


async def test_a_run_that_cannot_begin_is_an_error_of_start_run(project):
    """No id is given out for what never was."""
    write_specialist(project, "toolless", "tools: [nothing-of-this-name]")
    async with serving() as served:
        refused = await served.call("start_run", specialist="toolless", query="?")
        asked = await served.call("toolless", query="?")
    assert refused.is_error
    assert asked.is_error
    assert "specialists/toolless.md:4:1: tools: none of nothing-of-this-name exists here" in refused.content[0].text
    assert refused.content == asked.content


async def test_what_nobody_has_trusted_is_not_started_for_a_client(project):
    """The file is offered, and a call of it says what it would do and who may allow it; nothing was imported."""
    (project / "own.py").write_text("raise SystemExit('imported')\n")
    write_specialist(project, "own", "python_tools: ['own:look']")
    async with serving() as served:
        refused = await served.call("own", query="?")
    assert refused.is_error
    assert "would import own" in refused.content[0].text
    assert "--trust" in refused.content[0].text


async def test_a_run_of_before_is_found_in_the_store_by_its_whole_id(looker, tmp_path):
    """Another server on the same store has its outcome; the beginning of an id, or `last`, tells nothing."""
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


async def test_a_run_whose_process_died_says_so(looker, tmp_path):
    """Stored as running, its owner gone: interrupted, with the command that goes on. One at work elsewhere stays."""
    store = f"sqlite:///{tmp_path}/runs.db"
    held = Held()
    async with serving([HOLDS, says("Here.")], tools=[held.tool], store=store) as first, serving(store=store) as other:
        run_id = (await first.call("start_run", specialist="looker", query="?")).structured_content["run_id"]
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        async with asyncio.timeout(PATIENCE):
            # The store is written behind the run's back.
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


async def test_what_is_begun_is_bounded_and_an_ending_server_takes_nothing_on(looker, monkeypatch):
    """Too many at once are refused with a way out; at the end all are aborted, and later calls told why not."""
    monkeypatch.setattr(mcp_runs, "MOST_AT_WORK", 1)
    held = Held()
    async with serving([HOLDS], tools=[held.tool]) as served:
        run_id = (await served.call("start_run", specialist="looker", query="?")).structured_content["run_id"]
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        refused = await served.call("looker", query="?")
        await served.service.close(PATIENCE)
        stopped = await served.call("get_run", run_id=run_id)
        late = await served.call("looker", query="?")
    assert "1 runs are at work already; wait for one of them, or cancel one" in refused.content[0].text
    assert stopped.structured_content["status"] == "aborted"
    assert late.content[0].text == "the server is shutting down"


async def test_outcomes_are_remembered_in_bounds_where_nothing_is_stored(looker, monkeypatch):
    """The oldest of those that are over is forgotten first."""
    monkeypatch.setattr(mcp_runs, "MOST_REMEMBERED", 2)
    async with serving([says("1"), says("2"), says("3")]) as served:
        ids = [(await served.call("looker", query="?")).structured_content["run_id"] for _ in range(3)]
        found = [(await served.call("get_run", run_id=one)).is_error for one in ids]
    assert found == [True, False, False]


async def test_an_unknown_method_is_an_error_of_the_protocol(looker):
    """We offer tools and nothing else."""
    async with serving() as served:
        assert served.client.server_capabilities.resources is None
        with pytest.raises(MCPError, match="Method not found"):
            await served.client.list_prompts()
