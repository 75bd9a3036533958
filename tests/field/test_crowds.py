"""Many agents at once: what they cost, and what an API takes. Each test begins with the thread that it answers."""

import asyncio
import json
from dataclasses import replace

from run_specialist.api.delegate import delegate_tool
from tests.loop_jobs import LOOK
from tests.wire.connected import runner_on
from tests.wire.limited_api import TURNS, limited
from tests.wire.serving import write_specialist
from tests.wire.simulator import policies
from tests.wire.simulator.replies import answers, says, tool_use


def test_one_cost_limit_holds_for_a_whole_tree_of_agents(api, write, call):
    """anthropics/claude-code#94013: three research agents in the background used 1,710,388 tokens, without any limit.

    Here the limit of the run that asks them covers them too: each child gets a share, and the sum stays below it.
    """
    names = ("one", "two", "three")
    write("lead", "agents: [one, two, three]", "tools: []", "tool_calls_limit: none")
    for name in names:
        write(name, "tools: grep", "tool_calls_limit: none")

    def endless(request):
        if "delegate" in request.tool_names:
            asks = (tool_use("delegate", {"specialist": name, "query": "Research it."}) for name in names)
            return answers("a third of it") if request.results else says(*asks)
        reply = policies.always_tool("grep", lambda number: {"pattern": f"owls {number}"})(request)
        return replace(reply, usage={"input_tokens": 100_000})

    api(endless)
    result = call("lead", "Research it.", "--model", "haiku", "--cost-limit", "0.20", "--json")
    outcome = json.loads(result.stdout)
    spent = [child["cost_usd"] for child in outcome["children"]]
    assert [child["status"] for child in outcome["children"]] == ["landed"] * 3
    assert 0.10 < sum(spent) < outcome["cost_usd"] <= 0.20


async def test_a_crowd_adapts_to_what_the_api_takes(project):
    """github/copilot-cli#4416: 16 agents at once met HTTP 429 within 20 seconds, and all ended with empty output.

    Here they share one gate for the key: what was refused is sent again, later and with fewer at once, and all answer.
    """
    write_specialist(project, "explore", "tools: []")
    with limited(lambda api: len(api.refused) >= 12 and api.at_once <= 4) as api:
        async with runner_on(api.url, retries=2, tools=[LOOK]) as runner:
            delegate = delegate_tool("explore", runner=runner)
            asked = [{"specialist": "explore", "query": f"Part {number}?"} for number in range(16)]
            told = await asyncio.gather(*map(delegate, asked))
    assert {one.text.split("\n\n")[1] for one in told} == {"mice"}
    assert [one.outcome.status for one in told] == ["answered"] * 16
    assert api.accepted == 16 * TURNS
