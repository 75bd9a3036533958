"""`run-specialist NAME --chat`: questions typed one after the other."""

import json

import pytest

from tests.cli.specialists_command import call as manage
from tests.wire.simulator.replies import answers, calls

MODEL = ("--model", "haiku")
GREP = [calls("grep", {"pattern": word}) for word in ("mice", "winter")]


def test_a_chat_resumes_its_run_with_each_question(store, api, write, call):
    """Each question has a fresh budget; the commands show the cost, name the report and the commands there are."""
    write("finder", "tools: grep", "tool_calls_limit: 1")
    simulator = api([GREP[0], answers("Mice.", question="Which?"), GREP[1], answers("Voles."), answers("Anew.")])
    typed = ["What?", "", "/cost", "the tawny one", "/report", "/cost", "/nonsense", "/help", "/new", "/cost", "Who?"]
    said = call("finder", "--chat", *MODEL, input="\n".join([*typed, "/quit", "never asked"]))
    assert said.exit_code == 0
    lines = said.stdout.splitlines()
    assert [line for line in lines if line in {"Mice.", "Voles.", "Anew."}] == ["Mice.", "Voles.", "Anew."]
    costs = [line.rpartition(", ")[2] for line in lines if " tokens, $" in line]
    assert costs == ["1 question", "2 questions"]
    second, first = json.loads(manage("runs", "--json").stdout)["runs"]
    assert (first["question"], first["tool_calls"], second["question"]) == ("the tawny one", 2, "Who?")
    assert f"{store.parent}/report-{first['run_id']}.html" in lines
    assert "The specialist asks: Which?\n" in said.stderr
    for words in ("there is no command /nonsense; there are /report,", "nothing was asked yet"):
        assert words in said.stderr
    assert simulator.requests[2].body["system"] == simulator.requests[0].body["system"]


def test_a_chat_without_a_store_says_that_follow_ups_need_one(api, write, call):
    """Each question then begins a new run, and the first one may stand on the command line."""
    write("finder", "tools: grep")
    simulator = api([answers("Mice."), answers("Voles.")])
    said = call("finder", "--chat", "What?", *MODEL, "--store", "none", input="And?\n/report\n")
    assert said.stdout.split() == ["Mice.", "Voles."]
    assert "follow-ups need a store" in said.stderr
    assert "a report needs a store" in said.stderr
    assert len(simulator.requests[1].messages) == 1


@pytest.mark.parametrize("flag", ["--json", "--events", "-"])
def test_a_chat_prints_for_people_and_reads_standard_input(write, call, flag):
    """Output for programs, and a question that is standard input, are refused in one line."""
    write("finder", "tools: grep")
    refused = call("finder", "--chat", flag)
    assert (refused.exit_code, refused.stderr.count("\n"), "--chat" in refused.stderr) == (2, 1, True)
