"""Specialists as prompts, runs as resources, and questions as tasks, for clients of both eras."""

import asyncio
import json
from typing import Any, Literal

import mcp_types
import pytest
from mcp import Client
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError

from run_specialist.mcp_server.server import TASKS
from tests.loop_jobs import LOOK
from tests.scripted_provider import calls, says
from tests.wire import http_requests
from tests.wire.looker_script import FOUND, LOOKS, listed
from tests.wire.serving import PATIENCE, BlockingTool, serving

pytestmark = pytest.mark.usefixtures("looker")
RUNS = "run-specialist://runs/"
INVALID = mcp_types.INVALID_PARAMS


class Begun(mcp_types.Result):
    """A task in place of a result."""

    result_type: Literal["task"]
    task_id: str
    status: str


class OfTask(mcp_types.RequestParams):
    """The parameters of a request about a task."""

    task_id: str


class Asks(mcp_types.Request[OfTask, str]):
    """A request about a task."""

    name_param = "taskId"


class Told(mcp_types.Result, extra="allow"):
    """Any result."""


async def never(*_: Any) -> Any:
    """Refuse to poll, because the tests do."""
    raise AssertionError


class Polls(ClientExtension):
    """A client that polls tasks."""

    identifier = TASKS

    def claims(self) -> list[ResultClaim[Begun]]:
        """Take tasks in place of results."""
        return [ResultClaim(result_type="task", model=Begun, resolve=never)]


async def ask(client: Client, **arguments: str) -> Any:
    """Ask the specialist, and return the task or the result."""
    return await client.session.call_tool("looker", arguments, allow_claimed=True)


async def of_task(client: Client, task_id: str, method: str = "tasks/get") -> dict[str, Any]:
    """Send a request about a task."""
    asked = Asks(method=method, params=OfTask(task_id=task_id))
    found = (await client.session.send_request(asked, Told)).model_dump(by_alias=True)
    assert found.pop("resultType") == "complete"
    return {key: value for key, value in found.items() if key != "_meta"}


async def polled(client: Client, task_id: str) -> dict[str, Any]:
    """Return a task once it has ended."""
    async with asyncio.timeout(PATIENCE):
        while (found := await of_task(client, task_id))["status"] == "working":
            pass
    return found


async def refused(request: Any) -> mcp_types.ErrorData:
    """Return the error of a request."""
    with pytest.raises(MCPError) as caught:
        await request
    return caught.value.error


async def test_each_specialist_is_a_prompt(mode):
    """A prompt has the client's model ask the specialist; wrong names and arguments are told in one line."""
    async with serving(mode=mode) as served:
        (prompt,) = (await served.client.list_prompts()).prompts
        texts = []
        for given in ({"query": "What do owls eat?"}, None):
            (message,) = (await served.client.get_prompt("looker", given)).messages
            texts.append(message.content.text)
        unknown = await refused(served.client.get_prompt("nobody"))
        wrong = await refused(served.client.get_prompt("looker", {"limit": "3"}))
    assert (prompt.name, prompt.title, prompt.description) == ("looker", "Looker", "Is looker")
    assert [(one.name, one.required) for one in prompt.arguments] == [("query", False)]
    assert all(text.startswith("Ask the tool `looker`") for text in texts)
    assert [text.endswith("What do owls eat?") for text in texts] == [True, False]
    assert (unknown.code, unknown.message) == (INVALID, "there is no specialist 'nobody'; there are: looker")
    assert (wrong.code, wrong.message) == (INVALID, "there is no argument limit; there are: query")


async def test_a_run_is_a_resource_with_what_get_run_returns(mode, tmp_path):
    """A run and its report are read by the whole id; what get_run does not know, a resource does not know either."""
    async with serving([LOOKS, FOUND], mode=mode, tools=[LOOK], store=f"{tmp_path}/runs.db") as served:
        run_id = (await served.call("looker", query="?")).structured_content["run_id"]
        known = await served.call("get_run", run_id=run_id)
        templates = (await served.client.list_resource_templates()).resource_templates
        resources = (await served.client.list_resources()).resources
        as_json, report = [
            (await served.client.read_resource(one.uri_template.replace("{run_id}", run_id))).contents[0]
            for one in templates
        ]
        wrong = (
            f"{RUNS}{run_id[:-1]}",
            f"{RUNS}last/report",
            f"{RUNS}../x",
            "file:///etc/passwd",
            f"{RUNS}{'%' * 900}",
        )
        errors = [await refused(served.client.read_resource(uri)) for uri in wrong]
    assert json.loads(as_json.text) == known.structured_content
    assert report.text == known.content[0].text
    assert [as_json.mime_type, report.mime_type] == [one.mime_type for one in templates]
    assert [one.uri for one in resources] == [f"{RUNS}{run_id}/report"]
    assert [(one.code, one.data) for one in errors] == [(INVALID, {"uri": uri}) for uri in wrong]
    assert not any(run_id in one.message or len(one.message) > 200 for one in errors)


async def test_an_error_of_a_resource_hides_the_store(mode, tmp_path):
    """The location of a store is not told, whatever is wrong with it."""
    file = tmp_path / "secret-place.db"
    async with serving(mode=mode, store=str(file)) as served:
        file.write_bytes(b"no database" * 1000)
        error = await refused(served.client.read_resource(f"{RUNS}20261122-070353-47d14e8e88"))
    assert error.message == "the store is not an SQLite database; choose another store with --store"


async def test_over_http_no_run_is_listed_and_a_task_has_its_header():
    """One client does not learn the runs of another; a header that names another task is refused."""
    async with http_requests.serving([says("Mice.")]) as served, Client(served.url, extensions=[Polls()]) as client:
        begun = await ask(client, query="?")
        ended = await polled(client, begun.task_id)
        listing = (await client.list_resources()).resources
        sent = http_requests.asks("tasks/get", taskId=begun.task_id)
        other = (await http_requests.post(served.url, sent, **{"mcp-name": "other"})).json()
    assert ended["result"]["structuredContent"]["answer"] == "Mice."
    assert listing == []
    assert other["error"]["code"] == mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY


async def test_a_client_that_polls_gets_a_task(tmp_path):
    """Each question is a task, which ends with the result that other clients get; run_id asks more."""
    asks = calls(("respond", {"answer": "Two.", "question": "Which owl?"}))
    store = f"{tmp_path}/runs.db"
    async with serving([asks, says("Tawny.")], store=store, extensions=[Polls()]) as served:
        tools = listed(await served.client.list_tools())
        begun = await ask(served.client, query="?")
        ended = await polled(served.client, begun.task_id)
        more = await ask(served.client, query="Tawny?", run_id=begun.task_id)
        replied = await polled(served.client, more.task_id)
        acks = [await of_task(served.client, more.task_id, f"tasks/{one}") for one in ("update", "cancel")]
        wrong = await ask(served.client, query=" ")
        unknown = [await refused(of_task(served.client, "x", f"tasks/{one}")) for one in ("get", "update", "cancel")]
    async with serving(store=store, extensions=[Polls()]) as later:
        again = await of_task(later.client, begun.task_id)
    assert [*tools] == ["looker", "steer_run"]
    assert "run_id" in tools["looker"].input_schema["properties"]
    assert (begun.status, ended["status"], replied["status"]) == ("working", "completed", "completed")
    assert ended["result"]["structuredContent"]["question"] == "Which owl?"
    assert f"to reply: this tool with run_id {begun.task_id}" in ended["result"]["content"][0]["text"]
    assert (more.task_id, acks) == (begun.task_id, [{}, {}])
    assert replied["result"]["structuredContent"]["answer"] == "Tawny."
    assert again["result"] == replied["result"]
    assert (wrong.is_error, "query: wanted" in wrong.content[0].text) == (True, True)
    assert {one.code for one in unknown} == {INVALID}


async def test_a_cancelled_task_tells_what_it_had_gathered():
    """A task that works has a message of its progress; a cancelled one says what it found."""
    held = BlockingTool()
    script = [LOOKS, calls(("hold", {}), first_id=2)]
    async with serving(script, tools=[LOOK, held.tool], extensions=[Polls()]) as served:
        begun = await ask(served.client, query="?")
        await asyncio.wait_for(held.entered.wait(), PATIENCE)
        working = await of_task(served.client, begun.task_id)
        assert await of_task(served.client, begun.task_id, "tasks/cancel") == {}
        ended = await of_task(served.client, begun.task_id)
    assert (working["status"], working["createdAt"]) == ("working", ended["createdAt"])
    assert "1 of 4 tool calls used" in working["statusMessage"]
    assert (ended["status"], "result" in ended) == ("cancelled", False)
    assert "note on 'owls'" in ended["statusMessage"]


async def test_other_clients_get_no_task(mode):
    """Without the extension, and in older revisions with it, a call returns the outcome and tasks are refused."""
    extensions = [Polls()] if mode == "legacy" else []
    async with serving([says("Mice.")], mode=mode, extensions=extensions) as served:
        result = await served.call("looker", query="?")
        error = await refused(of_task(served.client, result.structured_content["run_id"]))
    assert result.structured_content["answer"] == "Mice."
    assert error.code == mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY
