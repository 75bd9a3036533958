"""`run-specialist NAME --chat`: questions typed one after the other."""

import json

import pytest

from tests.cli.specialists_command import call as manage
from tests.screen import run_on_terminal, screen
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
    """Each question then begins a new run, the first may be an argument; what cannot begin is one line."""
    write("finder", "tools: grep")
    for words in (("finder", "--json"), ("finder", "-"), ("nobody", "--quiet")):
        refused = call(words[0], "--chat", words[1])
        assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    simulator = api([answers("Mice."), answers("Voles.")])
    said = call("finder", "--chat", "What?", *MODEL, "--store", "none", input="And?\n/report\n")
    assert said.stdout.split() == ["Mice.", "Voles."]
    assert "follow-ups need a store" in said.stderr
    assert "runs are not stored" in said.stderr
    assert len(simulator.requests[1].messages) == 1


@pytest.mark.exhaustive
def test_a_line_typed_in_the_live_view_is_added_to_the_run(store, api, write):
    """On a terminal, a line that is typed while the first call runs goes beside its result, and is shown."""
    write("finder", "tools: grep")
    simulator = api([GREP[0], GREP[1], answers("Mice.")])
    shown, _, code = run_on_terminal(["run-specialist", "finder", "What?", *MODEL], typed="only CD2 notex\x7f\nhalf")
    lines = screen(shown, 80)
    assert code == 0
    assert [line for line in lines if "you add" in line] == ["  you add: only CD2 note"]
    assert "  not added, because it was typed without Enter: half" in lines
    assert str(simulator.requests[1].messages[-1]).count("The user adds: only CD2 note'") == 1
