"""A limit is enforced, and harms nobody else. Each test begins with the thread that it answers."""

import json

from tests.loop.replies import answers, asks, looks
from tests.loop_jobs import LOOK
from tests.scripted_specialists import ScriptedSpecialists
from tests.scripted_specialists import write as write_cast
from tests.wire.serving import PATIENCE, serving, write_specialist
from tests.wire.simulator import policies

AGENT = "---\nname: {name}\ndescription: Reads.\ntools: Read, Grep\n{limit}\n---\nRead one file in each turn.\n"


def claude_agent(root, name, *lines):
    """Write an agent file for Claude Code."""
    path = root / f".claude/agents/{name}.md"
    path.parent.mkdir(parents=True)
    path.write_text(AGENT.format(name=name, limit="\n".join(lines)))


def test_an_agent_file_with_max_turns_gets_no_turn_more(api, call, notes):
    """anthropics/claude-code#79303: with `maxTurns: 2` all four commands ran, in six turns, without a word about it.

    Here the same file gets two turns, of which the second is the answer, and the outcome names the limit.
    """
    claude_agent(notes, "turn-cap-test", "maxTurns: 2")
    simulator = api(policies.always_tool("grep", lambda number: {"pattern": f"owls {number}"}))
    result = call("turn-cap-test", "What do the four files say?", "--model", "haiku", "--json")
    outcome = json.loads(result.stdout)
    assert len(simulator.requests) == 2
    assert (outcome["tool_calls"]["used"], outcome["limits"]["turns"]) == (1, {"used": 2, "limit": 2})
    assert (outcome["status"], outcome["landing"]["reason"]) == ("landed", "turns")
    assert "the limit of 2 turns was reached" in result.stderr


async def test_a_run_in_the_background_keeps_its_max_turns(project):
    """anthropics/claude-code#41143: with `maxTurns: 10` and `background: true` an agent ran for 72 turns and more.

    Here a run that `start_run` began asks its model ten times, and lands with the tenth reply.
    """
    claude_agent(project, "test-agent", "maxTurns: 10", "background: true")
    script = [*(looks(number) for number in range(1, 10)), answers("three scenarios")]
    async with serving(script, tools=[LOOK]) as served:
        begun = await served.call("start_run", specialist="test-agent", query="Execute 3 test scenarios.")
        run_id = begun.structured_content["run_id"]
        ended = await served.call("get_run", run_id=run_id, wait_seconds=PATIENCE)
    outcome = ended.structured_content["outcome"]
    assert (outcome["status"], outcome["answer"]) == ("landed", "three scenarios")
    assert (outcome["tool_calls"]["used"], outcome["limits"]["turns"]) == (9, {"used": 10, "limit": 10})


async def test_the_caller_sets_a_budget_of_tool_calls_and_not_of_turns(project):
    """anomalyco/opencode#46461: a budget of tool calls for subagents is asked for.

    Here the caller's budget of 5 beats the file's, and of two turns with 4 calls each 5 calls are run: each of the
    others gets a result that says why it was not.
    """
    write_specialist(project, "explorer", "tools: []", "tool_calls_limit: 100")
    script = [looks(1, 4), looks(5, 4), answers("enough")]
    async with serving(script, tools=[LOOK]) as served:
        result = await served.call("explorer", query="Map the project.", tool_calls_limit=5)
    outcome = result.structured_content
    assert outcome["tool_calls"] == {"used": 5, "limit": 5, "failed": 0, "skipped": 3}
    assert result.content[0].text.startswith("[explorer: landed after 5 of 5 tool calls]\n\nenough")


async def test_a_child_that_reaches_its_limit_harms_neither_parent_nor_sibling(run_lead, tmp_path):
    """langchain-ai/deepagents#1698: a subagent silently had the default limit of 25 steps; beyond it everything ended.

    The parent's limit of 300 did not reach it, and the error cancelled parent and sibling. Here each child has the
    limit of its own file, lands at it, and the others go on.
    """
    write_cast(tmp_path, "lead", "agents: [researcher, analyst]", "tool_calls_limit: 300")
    write_cast(tmp_path, "researcher", "tool_calls_limit: 28")
    write_cast(tmp_path, "analyst", "tool_calls_limit: 40")
    cast = ScriptedSpecialists(
        lead=[[asks("researcher", "analyst"), answers("both")]],
        researcher=[[*(looks(number) for number in range(1, 29)), answers("28 notes")]],
        analyst=[[*(looks(number) for number in range(1, 31)), answers("30 notes", first_id=99)]],
    )
    outcome, _ = await run_lead(cast)
    assert (outcome.status, outcome.answer) == ("answered", "both")
    told = {child.specialist: (child.status, child.tool_calls) for child in outcome.children}
    assert told == {"researcher": ("landed", 28), "analyst": ("answered", 30)}
