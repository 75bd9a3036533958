"""A specialist whose calls are JSON uses the tools of an MCP server."""

import json

import pytest

from run_specialist.api.runner import Runner
from run_specialist.providers.openai_chat import ChatProvider, make_client
from tests.wire.chat.replies import says
from tests.wire.json_mode import offered, responds, written
from tests.wire.mcp_servers.running_servers import script

pytestmark = pytest.mark.anyio


async def test_g8_mcp_tools_are_called_in_json(chat_api, tmp_path, monkeypatch):
    """MCP tools are in the union in strict form; their calls count, fail, and land like those of the API itself."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    server = json.dumps({"good": {"command": list(script("good", str(tmp_path)))}})
    (tmp_path / "finder.md").write_text(
        f"---\nname: finder\ndescription: Finds.\ntools: ['mcp__good__*']\nmcp_servers: {server}\ntool_calls: json\n"
        "tool_calls_limit: 3\n---\nYou find.\n"
    )
    replies = [
        says(written("mcp__good__add", a=1, b=2)),
        says(written("mcp__good__fail")),
        says(written("mcp__good__echo", text="owls")),
        responds("It is 3."),
    ]
    api = chat_api(replies)
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        async with Runner(root=tmp_path, dir=tmp_path, provider=provider, trust=True) as runner:
            outcome = await runner.run("finder", "What is 1 + 2?")
    assert (outcome.status, outcome.answer) == ("landed", "It is 3.")
    assert (outcome.tool_calls.used, outcome.tool_calls.failed) == (3, 1)
    assert {"mcp__good__add", "mcp__good__echo", "respond"} <= set(offered(api.requests[0]))
    assert offered(api.requests[-1]) == ["respond"]
    assert api.requests[1].messages[-1]["content"].startswith("Result of mcp__good__add:\n3")
