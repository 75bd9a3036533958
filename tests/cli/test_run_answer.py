"""The command `run-specialist` against a simulated API: answer, limits, system prompt and tools."""

import json

import pytest

from tests.stderr_lines import lines_before_summary
from tests.wire.simulator import faults, policies
from tests.wire.simulator.replies import answers, calls

LOOK = calls("search", {"query": "owls"})


def paragraphs(request):
    """Return the paragraphs of a request's system prompt."""
    (block,) = request.body["system"]
    return block["text"].split("\n\n")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    "answer", ["Owls eat mice.", "one\n\n  two\t\n# three", "  set in  ", "naïve – ✓ 猫", '{"a": [1]}', "x" * 70_000]
)
def test_s0_6_stdout_is_exactly_the_answer(api, write, call, answer):
    """Stdout is the answer, byte for byte, and a newline, and nothing else."""
    write("finder")
    api([LOOK, answers(answer, gaps=["what toads eat"])])
    result = call("finder", "What do owls eat?")
    assert (result.exit_code, result.stdout) == (0, f"{answer}\n")
    assert lines_before_summary(result.stderr) == []


def test_s0_6_a_forced_landing_prints_the_answer(api, write, call):
    """A model that would search forever is forced to call `respond`, and that answer is printed."""
    write("finder", "model: haiku")
    simulator = api(policies.always_tool("search", answer="all that was found"))
    result = call("finder", "What do owls eat?", "--tool-calls-limit", "3")
    assert (result.exit_code, result.stdout) == (0, "all that was found\n")
    assert [request.tool_choice for request in simulator.requests] == [None] * 3 + [{"type": "tool", "name": "respond"}]


def test_s0_9_a_bad_file_is_named_and_the_others_still_run(api, write, call):
    """Each error is `file:line:column: key: reason` with exit code 2; no request is sent, and valid files still run."""
    path = write("bad", "tool_calls_limit: twelve", "cost_limit: $5")
    write("finder")
    simulator = api([answers("yes")])
    result = call("bad", "What?")
    assert (result.exit_code, result.stdout, simulator.requests) == (2, "", [])
    assert f"{path}:4:19: tool_calls_limit: must be an integer of at least 0, or none, got twelve\n" in result.stderr
    assert f"{path}:5:13: cost_limit: must be an amount in USD of at least 0, or none, got $5\n" in result.stderr
    assert call("finder", "What?").stdout == "yes\n"


def test_an_unknown_tool_is_a_warning_on_stderr(api, write, call):
    """The warning names the tool and its place; the run uses the other tools, and the outcome has the warning."""
    path = write("finder", "tools: Read, Telescope")
    api([LOOK, answers("yes")] * 2)
    result = call("finder", "What?")
    warning = f"{path}:4:8: tools: not available here: Telescope"
    assert (result.exit_code, result.stdout) == (0, "yes\n")
    (line,) = lines_before_summary(result.stderr)
    assert line.endswith(f"warning: {warning}")
    assert json.loads(call("finder", "What?", "--json").stdout)["warnings"] == [warning]


def test_root_limits_the_file_tools(api, write, call, tmp_path):
    """With `--root`, the file tools see only the files in that folder."""
    write("finder")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "bats.md").write_text("Bats eat moths.\n")
    simulator = api([calls("glob", {"pattern": "*.md"}), answers("yes")])
    call("finder", "What?", "--root", str(tmp_path / "other"))
    assert list(simulator.requests[1].results.values()) == ["bats.md"]


@pytest.mark.parametrize(
    ("given", "question"),
    [
        ("What do owls eat?\n", "What do owls eat?\n"),
        ("naïve – ✓\nline two", "naïve – ✓\nline two"),
        (b"caf\xe9 \xff", "caf\ufffd \ufffd"),
    ],
)
def test_a_dash_reads_the_question_from_standard_input(api, write, call, given, question):
    """The question is everything on standard input, unchanged except that invalid UTF-8 bytes are replaced."""
    write("finder")
    simulator = api([answers("yes")])
    assert call("finder", "-", input=given).stdout == "yes\n"
    assert simulator.requests[0].messages[0]["content"] == [{"type": "text", "text": question}]


def test_landing_stop_prints_the_salvage_without_another_request(api, write, call):
    """The gathered evidence is printed instead of an answer, with exit code 0 and a line with the reason."""
    write("finder", "tool_calls_limit: 1")
    simulator = api([LOOK])
    result = call("finder", "What?", "--landing", "stop")
    assert (result.exit_code, len(simulator.requests)) == (0, 1)
    assert "Owls eat mice at night." in result.stdout
    (line,) = result.stderr.splitlines()
    assert "partial: " in line
    assert "no answer at the limit of 1 tool call; raise tool_calls_limit to continue" in line


def test_x_12_a_failed_run_prints_the_gathered_evidence(api, write, call):
    """If the API fails after the first turn: exit code 3, the gathered evidence on stdout, one line on stderr."""
    write("finder")
    api([LOOK, faults.unauthorised()])
    result = call("finder", "What?")
    assert result.exit_code == 3
    assert "Owls eat mice at night." in result.stdout
    assert result.stdout.startswith("[No finished answer: the API answered 401")
    assert len(result.stderr.splitlines()) == 1
    assert "failed: the API answered 401: invalid x-api-key; check ANTHROPIC_API_KEY" in result.stderr
