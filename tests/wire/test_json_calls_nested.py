"""A specialist whose calls are JSON asks another one, whose calls are native."""

import pytest

from run_specialist.api.runner import Runner
from run_specialist.providers.openai_chat import ChatProvider, make_client
from tests.loop_jobs import LOOK
from tests.wire.chat.replies import answers, calls, says
from tests.wire.json_mode import offered, responds, written

pytestmark = pytest.mark.anyio


async def test_g8_a_parent_with_calls_in_json_asks_a_child_with_native_ones(chat_api, tmp_path):
    """`delegate` is one of the tools of the union, and the answer of the child is the result of the call."""
    (tmp_path / "parent.md").write_text(
        "---\nname: parent\ndescription: Asks.\ntools: []\nagents: [child]\ntool_calls: json\n---\nYou ask.\n"
    )
    (tmp_path / "child.md").write_text("---\nname: child\ndescription: Looks.\ntools: []\n---\nYou look.\n")
    asks = says(written("delegate", specialist="child", query="Which owls?"))

    def policy(request):
        results = len(request.messages) > 2
        if "tools" in request.body:
            return answers("barn owls") if results else calls("look", {"query": "owls"})
        return responds("The child knows: barn owls.") if results else asks

    api = chat_api(policy)
    async with make_client(base_url=api.base_url, api_key="test", max_retries=0) as client:
        provider = ChatProvider("some-model", client)
        runner = Runner(root=tmp_path, dir=tmp_path, provider=provider, tools=[LOOK])
        outcome = await runner.run("parent", "What is known?")
    assert (outcome.status, outcome.answer) == ("answered", "The child knows: barn owls.")
    assert [child.specialist for child in outcome.children] == ["child"]
    assert offered(api.requests[0]) == ["delegate", "get_tool_response", "look", "respond"]
    last = api.requests[-1].messages[-1]["content"]
    assert last.startswith("Result of delegate:\n")
    assert "barn owls" in last
