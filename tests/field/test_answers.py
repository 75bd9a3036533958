"""The parent always gets what was found. Each test begins with the thread that it answers."""

import asyncio
import json

from tests.cli.specialists_command import call as manage
from tests.cli.specialists_command import rows
from tests.loop_jobs import LOOK
from tests.wire.chat import policies as chat_policies
from tests.wire.connected import runner_on
from tests.wire.resumed_requests import LOOKER, prefix
from tests.wire.simulator import faults, policies
from tests.wire.simulator.replies import answers, calls, says, tool_use
from tests.wire.specialists import FORCED
from tests.wire.test_error_kinds_wire import OUT_OF_CREDIT

REPORT = "Owls eat mice, at night only."
READS = says(REPORT, tool_use("read", {"path": "notes/owls.md"}))
QUOTE = {"source": "notes/owls.md:3", "quote": "Owls eat mice at night."}
SHAPE = {"type": "object", "properties": {"prey": {"type": "string"}}, "required": ["prey"]}


async def test_the_last_request_is_for_the_typed_answer(ask_once):
    """pydantic/pydantic-ai#2681: at the limit an error is raised; one last call for the output is asked for.

    Here that is the default: the third request forces `respond`, whose `answer` has the shape of `output_schema`.
    """
    policy = policies.always_tool("look", answer={"prey": "mice"})
    run = await ask_once(policy, "tool_calls_limit: 2", f"output_schema: {json.dumps(SHAPE)}")
    assert run.choices == [None, None, FORCED]
    assert (run.outcome.status, run.outcome.output) == ("landed", {"prey": "mice"})


async def test_a_model_that_ignores_every_order_is_answered_for(ask_chat):
    """openai/openai-agents-python#844: past `max_turns` an error; a prompt that counted down was mostly ignored.

    It also changed the cached prompt. Here the count is in the results, the beginning of the prompt keeps its bytes,
    and an answer is made from the results if the model never stops.
    """
    outcome, api = await ask_chat(chat_policies.always_tool("look", obeys=False), 4)
    forced = {"type": "function", "function": {"name": "respond"}}
    assert [sent.tool_choice for sent in api.requests[4:]] == [None, forced, "none"]
    assert [sent.schema is None for sent in api.requests[4:]] == [False, True, True]
    assert (outcome.status, outcome.tool_calls.used, outcome.landing.requests) == ("partial", 4, 3)
    assert all(f"note on 'question {number}'" in outcome.answer for number in range(4))
    assert [text.splitlines()[1:] for text in api.requests[3].results[1:]] == [
        ["2 tool calls remaining"],
        ["1 tool call remaining"],
    ]
    assert len({prefix(request) for request in api.requests}) == 1


def test_a_pointer_in_place_of_the_report_goes_back(api, write, call):
    """anthropics/claude-code#88822: the final report was "report delivered above", and there was no report above.

    Here `evidence: require` returns such an answer to the model once, and the report follows.
    """
    write("researcher", "tools: read", "evidence: require")
    simulator = api([READS, answers("Report delivered above."), answers(REPORT, evidence=[QUOTE])])
    result = call("researcher", "What do owls eat?", "--model", "haiku")
    assert (result.exit_code, result.stdout) == (0, f"{REPORT}\n")
    assert len(simulator.requests) == 3


def test_a_report_that_was_left_out_is_still_there(api, write, call, store):
    """anthropics/claude-code#88822: the work of 12 minutes and 190,000 tokens could only be done again.

    Here it is in the stored run: `transcript` prints it without a request, `resume` asks for it with one.
    """
    write("researcher", "tools: read")
    simulator = api([READS, answers("Report delivered above."), answers(REPORT)])
    assert call("researcher", "What do owls eat?", "--model", "haiku").stdout == "Report delivered above.\n"
    assert REPORT in [row.get("text") for row in rows()]
    assert manage("resume", "last", "Say the report itself.").stdout == f"{REPORT}\n"
    assert len(simulator.requests) == 3


async def test_runs_cut_off_by_a_usage_limit_go_on_where_they_were(messages_api, tmp_path):
    """anthropics/claude-code#91449: a usage limit ended 12 of 14 agents after 22 minutes; all 12 began again from zero.

    Here each run ends with what it has gathered, and resumes with its next request: no reply is paid for twice.
    """
    resets = []

    def policy(request):
        turn = len(request.messages) // 2
        if turn == 3 and not resets:
            return faults.invalid(OUT_OF_CREDIT)
        return calls("look", {"query": f"part {turn}"}) if turn < 4 else answers("all parts")

    api = messages_api(policy)
    options = {"root": tmp_path, "tools": [LOOK], "store": f"{tmp_path}/runs.db"}
    async with runner_on(api, **options) as runner:
        cut = await asyncio.gather(*(runner.run(LOOKER, "What is known?") for _ in range(3)))
    resets.append(True)
    async with runner_on(api, **options) as runner:
        runs = [await runner.resume(one.run_id) for one in cut]
        done = await asyncio.gather(*(run.outcome() for run in runs))
    assert {(one.status, one.error_kind, "note on 'part 2'" in one.answer) for one in cut} == {
        ("failed", "quota", True)
    }
    assert [(one.status, one.answer, one.tool_calls.used) for one in done] == [("answered", "all parts", 4)] * 3
    assert sum(request.status == 200 for request in api.requests) == 3 * 5


def test_an_empty_reply_is_no_result(api, write, call):
    """anomalyco/opencode#32132: a subagent ended in mid-work or said nothing, and its task was "completed".

    Here a reply that broke off is requested again and an empty one once more; then the run has failed, with exit code
    4 and with what was gathered.
    """
    write("explorer")
    simulator = api([calls("search", {"query": "owls"}), faults.BrokenOff(says("Owls")), says(""), says("")])
    result = call("explorer", "What do owls eat?", "--model", "haiku", "--json")
    outcome = json.loads(result.stdout)
    assert (result.exit_code, outcome["status"]) == (4, "failed")
    assert "Owls eat mice at night." in outcome["answer"]
    assert len(simulator.requests) == 4
