"""The command `specialists resume`: stored runs continue after a limit, an error or Ctrl-C."""

import json
import re
import shlex
import signal

from run_specialist.record.messages import Usage
from run_specialist.record.outcome import LandingReport, Outcome, Spent, ToolCalls
from tests.cli.resumed_commands import GREP, MODEL, rows
from tests.cli.specialists_command import call as manage
from tests.stderr_lines import SUMMARY
from tests.wire.chat import replies as chat_replies
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import answers, calls, says, tool_use


def stderr_without_summary(stderr):
    """Return the lines on standard error except the summary of the run."""
    return [line for line in stderr.splitlines() if not SUMMARY.search(line)]


def test_s4_3_the_line_at_the_limit_has_a_working_resume_command(store, api, write, call):
    """The line names the limit and a command with the run id and twice the limit; running it continues the run."""
    write("finder", "tool_calls_limit: 3", "tools: grep")
    api([*GREP, answers("some"), calls("grep", {"pattern": "owls"}), answers("more")])
    first = call("finder", "What?", *MODEL)
    (line,) = stderr_without_summary(first.stderr)
    reached, command = line.split("; to resume: ")
    assert reached.endswith("the limit of 3 tool calls was reached")
    program, *arguments = shlex.split(command)
    assert (program, arguments[0], arguments[2:]) == ("specialists", "resume", ["--tool-calls-limit", "6"])
    again = manage(*arguments)
    assert (again.exit_code, again.stdout) == (0, "more\n")
    assert stderr_without_summary(again.stderr) == []


def outcome(kind, limit, used):
    """Return an outcome that landed at a limit."""
    return Outcome(
        run_id="r",
        specialist="s",
        model="m",
        status="landed",
        answer="",
        evidence=(),
        gaps=(),
        output=None,
        tool_calls=ToolCalls(1, 1, 0, 0),
        limits={kind: Spent(used, limit)},
        landing=LandingReport(kind, "force", 1, Usage(), None),
        usage=Usage(),
        cost_usd=None,
        duration_s=1.0,
        warnings=(),
    )


def test_s4_4_every_message_is_in_the_store(store, chat, write, call):
    """A tool loop with limit 3 stores 1 user, 3 call, 3 result and 1 assistant message in order; `resume` appends."""
    write("finder", "tools: grep")
    three = [chat_replies.calls("grep", {"pattern": word}) for word in ("mice", "winter", "bats")]
    chat([*three, chat_replies.says("some"), *three, chat_replies.says("more")])
    call("finder", "What?", "--model", "openai:some-model", "--preset", "openai-loop", "--tool-calls-limit", "3")
    loop = ["tool_call", "tool_result"] * 3
    told = rows()
    assert [row["kind"] for row in told] == ["user", *loop, "assistant"]
    assert (told[0]["text"], told[-1]["text"]) == ("What?", "some")
    ids = [row["id"] for row in told if "id" in row]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 3
    again = manage("resume", "last", "--tool-calls-limit", "6")
    assert (again.exit_code, again.stdout) == (0, "more\n")
    assert rows()[: len(told)] == told
    assert [row["kind"] for row in rows()] == ["user", *loop, "assistant", "user", *loop, "assistant"]
    assert rows()[len(told)]["text"].startswith("The budget was refreshed: you now have 6 tool calls in all")
    (listed,) = json.loads(manage("runs", "--json").stdout)["runs"]
    assert (listed["status"], listed["tool_calls"]) == ("landed", 6)


def test_s4_5_resume_json_prints_the_outcome_of_the_whole_run(store, api, write, call):
    """The output is the outcome object; its calls, tokens and turns cover the run before and after the resumption."""
    write("finder", "tool_calls_limit: 3", "tools: grep")
    api([*GREP, answers("some"), calls("grep", {"pattern": "owls"}), answers("more")])
    first = json.loads(call("finder", "What?", *MODEL, "--json").stdout)
    result = manage("resume", first["run_id"], "--tool-calls-limit", "6", "--json")
    told = json.loads(result.stdout)
    assert told.keys() == first.keys()
    assert (told["run_id"], told["status"], told["answer"]) == (first["run_id"], "answered", "more")
    assert told["tool_calls"] == {"used": 4, "limit": 6, "failed": 0, "skipped": 0}
    assert told["limits"]["turns"]["used"] == 6
    assert told["usage"]["output_tokens"] > first["usage"]["output_tokens"]
    assert told["cost_usd"] > first["cost_usd"]


def test_x_10_ctrl_c_leaves_a_run_that_can_be_resumed(store, api, write, program):
    """Exit code 130 and one line with the resume command; every stored call has its result."""
    gate = Gate()
    write("finder", "tools: grep")
    api([GREP[0], says(tool_use("grep", {"pattern": "x"}), gate=gate)])
    process = program("finder", "What?", *MODEL)
    gate.wait_for_request(60)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    gate.open()
    assert process.returncode == 130
    assert "Owls eat mice at night." in out
    (line,) = err.splitlines()
    assert re.search(r"aborted: interrupted; to resume: specialists resume \S+$", line)
    kinds = [row["kind"] for row in rows()]
    assert kinds == ["user", "tool_call", "tool_result"]
    api([answers("some")])
    again = manage(*shlex.split(line.split("; to resume: ")[1])[1:])
    assert (again.exit_code, again.stdout) == (0, "some\n")


def test_the_resume_command_omits_the_password(store_url, api, write, call):
    """The printed command omits the password of the store URL, since it may end up in a log."""
    write("finder", "tool_calls_limit: 3", "tools: grep")
    api([*GREP, answers("some")])
    said = call("finder", "What?", *MODEL, "--store", store_url)
    assert said.exit_code == 0
    assert "specialists resume" in said.stderr
    password = re.search(r"//\w+:([^@]+)@", store_url)
    assert password is None or f":{password[1]}@" not in said.stderr
