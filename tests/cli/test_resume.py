"""The commands `specialists resume` and `replay`: stored runs continue, are forked, and are repeated."""

import json
import re
import shlex
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from run_specialist.api.runner import Runner
from run_specialist.loop.run import Run
from run_specialist.record.journal import Received
from run_specialist.tools import files
from tests.cli.specialists_command import call as manage
from tests.cli.specialists_command import rows
from tests.journals import Notebook, keep
from tests.wire.chat import replies as chat_replies
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import answers, calls, says, tool_use

MODEL = ("--model", "haiku")
GREP = [calls("grep", {"pattern": word}) for word in ("mice", "winter", "bats")]


def test_s4_3_s4_5_the_line_at_the_limit_has_a_working_resume_command(store, api, write, call):
    """It names the limit, the run and twice the limit; with --json it prints the outcome of the whole run."""
    write("finder", "tool_calls_limit: 3", "tools: grep")
    api([*GREP, answers("some"), calls("grep", {"pattern": "owls"}), answers("more")])
    result = call("finder", "What?", *MODEL, "--json")
    first = json.loads(result.stdout)
    (line,) = result.stderr.splitlines()
    reached, command = line.split("; to resume: ")
    assert reached.endswith("the limit of 3 tool calls was reached")
    program, *arguments = shlex.split(command)
    assert (program, arguments) == ("specialists", ["resume", first["run_id"], "--tool-calls-limit", "6"])
    again = manage(*arguments, "--json")
    told = json.loads(again.stdout)
    assert (again.exit_code, again.stderr) == (0, "")
    assert told.keys() == first.keys()
    assert (told["run_id"], told["status"], told["answer"]) == (first["run_id"], "answered", "more")
    assert told["tool_calls"] == {"used": 4, "limit": 6, "failed": 0, "skipped": 0}
    assert told["limits"]["turns"]["used"] == 6
    assert told["usage"]["output_tokens"] > first["usage"]["output_tokens"]
    assert told["cost_usd"] > first["cost_usd"]


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


def test_t_12_lists_and_pages_show_the_newest_question_and_last_is_no_item_of_a_batch(store, api, write, call):
    """`runs`, `transcript` and `report` name the follow-up; `last` means the run that a person started."""
    write("finder", "tool_calls_limit: 1", "tools: grep")
    api([GREP[0], answers("some"), GREP[1], answers("more"), answers("an item")])
    run_id = json.loads(call("finder", "What?", *MODEL, "--json").stdout)["run_id"]
    again = json.loads(manage("resume", "last", "And in winter?", "--json").stdout)
    assert (again["status"], again["tool_calls"]["used"]) == ("landed", 2)
    Path("items.txt").write_text("Which bats?\n")
    assert manage("map", "finder", "items.txt", "--question", "{item}", *MODEL, "--quiet").exit_code == 0
    shown = json.loads(manage("transcript", "last", "--json").stdout)
    assert (shown["run_id"], shown["question"]) == (run_id, "And in winter?")
    assert "And in winter?" in manage("runs").stdout
    assert manage("transcript", run_id).stdout.splitlines()[1] == "newest question: And in winter?"
    assert "<title>finder: And in winter?</title>" in manage("report", run_id, "--out", "-").stdout


def test_a_question_of_the_specialist_is_shown_first_and_resume_replies_to_it(store, api, write, call):
    """Its line has the command; the reply reaches the model, and `question` is null in the JSON of the next outcome."""
    write("finder", "tools: grep", "evidence: require")
    simulator = api([answers("Two.", question="Which owl?"), GREP[0], answers("Tawny.", question="", gaps=["more"])])
    asked = call("finder", "What?", *MODEL)
    first, *_ = asked.stderr.splitlines()
    told, command = first.split("; to reply: ")
    assert (asked.stdout, told.endswith("The specialist asks: Which owl?")) == ("Two.\n", True)
    again = manage(*shlex.split(command.replace("YOUR REPLY", "The tawny one."))[1:], "--json")
    assert json.loads(again.stdout)["question"] is None
    assert "The user now asks: The tawny one." in str(simulator.requests[1].messages[-1])


@pytest.mark.exhaustive
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


REFUSED = {
    ("last",): "landed at its limit; set a higher limit, or ask a follow-up question",
    ("last", ""): "the question is empty",
    ("last", "--tool-calls-limit", "0"): "has already used 1 tool call, so its total limit cannot be 0",
    ("nothing", "More?"): "there is no run nothing in",
    ("last", "More?", "--store", "absent.db"): "there is no store at",
    ("last", "More?", "--store", "mysql://u:secret@h/db"): "is not a valid store",
}


def test_an_impossible_resumption_is_one_line_with_exit_code_2(store, api, write, call):
    """The error is one line; no request is sent, the store is unchanged, and no secret is shown."""
    write("finder", "tool_calls_limit: 1", "tools: grep")
    simulator = api([GREP[0], answers("some")])
    call("finder", "What?", *MODEL, "--quiet")
    before = store.read_bytes(), rows()
    for arguments, words in REFUSED.items():
        result = manage("resume", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert words in " ".join(result.stderr.split())
        assert "Traceback" not in result.stderr
        assert "secret" not in result.stderr
    assert len(simulator.requests) == 2
    assert (store.read_bytes(), rows()) == before
    assert not Path("absent.db").exists()


OWLS = calls("grep", {"pattern": "owls"})


@pytest.fixture
def source(store, api, write, call):
    """Return a function that runs a specialist with three calls, and returns the id of its run.

    It takes the replies that are left for forks.
    """

    def ask(*replies):
        write("finder", "tool_calls_limit: 3", "tools: grep")
        api([*GREP, answers("some"), *replies])
        return json.loads(call("finder", "What?", *MODEL, "--json").stdout)["run_id"]

    return ask


@pytest.mark.exhaustive
def test_f_4_f_6_every_command_shows_where_a_fork_is_from_and_another_model_is_priced(source, tmp_path):
    """Also in the transcript, where the copied turns end; size and price precede the outcome, but not with --quiet."""
    run_id = source(OWLS, answers("more"))
    outcome = json.loads(manage("resume", run_id, "--at", "2", "--landing", "order", "--json").stdout)
    fork = outcome["run_id"]
    newest, first = json.loads(manage("runs", "--json").stdout)["runs"]
    assert (newest["run_id"], newest["forked_from"], newest["forked_at"]) == (fork, run_id, 2)
    assert (first["forked_from"], first["forked_at"]) == (None, None)
    assert f"(fork of {run_id} at turn 2)" in manage("runs").stdout
    lines = manage("transcript", fork).stdout.splitlines()
    assert lines[1] == f"forked from {run_id} after 2 turns"
    end = lines.index("the copied turns end here")
    assert [line.split("  ")[0] for line in lines[:end] if line.startswith("call")] == ["call 1", "call 2"]
    assert [line.split("  ")[0] for line in lines[end:] if line.startswith("call")] == ["call 3", "call 4"]
    printed = json.loads(manage("transcript", fork, "--json").stdout)
    assert printed["messages"][printed["copied_messages"]]["kind"] == "tool_call"
    page = tmp_path / "page.html"
    assert manage("report", run_id, "--out", str(page)).exit_code == 0
    assert "They part after turn 2" in page.read_text()
    run_id = source(OWLS, *map(answers, ("more", "last")))
    forked = manage("resume", run_id, "--at", "2", "--model", "sonnet")
    assert (forked.exit_code, forked.stdout) == (0, "more\n")
    first, counts, *_ = forked.stderr.splitlines()
    assert f" claude-sonnet-5-5 has no prompt cache of {run_id}: it reads about " in first
    assert " tokens anew, price about $0.0" in first
    assert f"warning: the first 2 turns of {run_id} are copied: 2 tool calls and 2 turns count" in counts
    assert manage("resume", run_id, "--at", "0", "--model", "sonnet", "-q").stderr == ""


@pytest.fixture
def recorded(ask, write, store):
    """A project with a stored run."""
    write("finder", "tool_calls_limit: 3", "paths: notes")
    assert ask()[0] == 0
    return write


def test_c1_an_equal_replay_ends_with_one_line(recorded, monkeypatch):
    """Exit code 0, without a connection or a key, and nothing is stored."""

    def refuse(*arguments):
        raise AssertionError(arguments)

    monkeypatch.setattr(socket.socket, "connect", refuse)
    done = manage("replay", "last")
    run_id = json.loads(manage("runs", "--json").stdout)["runs"][0]["run_id"]
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{run_id} replays the same: 3 requests, 2 tool calls, answered\n"
    assert manage("replay", run_id[:18]).exit_code == 0
    assert len(json.loads(manage("runs", "--json").stdout)["runs"]) == 1


def test_c2_a_difference_has_exit_code_1(recorded, notes, monkeypatch):
    """Of the file or of a tool: the block says where, what and what to do, `--json` as values; no file is reported."""

    def changed(*arguments):
        return [replace(one, description="Other.") if one.name == "grep" else one for one in made(*arguments)]

    made = files.file_tools
    with monkeypatch.context() as patched:
        patched.setattr("run_specialist.spawning.spawner.file_tools", changed)
        done = manage("replay", "last")
    assert done.stdout.splitlines()[0].endswith(" differs at request 1 of 3: definition of the tool grep")
    assert '+  "description": "Other.",' in done.stdout
    assert "finder.md is unchanged, so a tool, a config file or this program differs." in done.stdout
    recorded("finder", "tool_calls_limit: 3", "paths: notes", body="You find all notes.")
    done = manage("replay", "last")
    lines = done.stdout.splitlines()
    assert done.exit_code == 1
    assert lines[0].endswith(" differs at request 1 of 3: system prompt")
    assert lines[1:3] == ["--- stored", "+++ now"]
    assert {"-You find notes.", "+You find all notes."} < {*lines}
    assert lines[-2] == "finder.md has changed since the run."
    assert "\x1b" not in done.stdout
    values = json.loads(manage("replay", "last", "--json").stdout)
    assert (values["same"], values["requests"]) == (False, 1)
    assert (values["difference"]["request"], values["difference"]["part"]) == (1, "system prompt")
    path = notes / "specialists/finder.md"
    path.write_text(path.read_text().replace("tool_calls_limit: 3", "tool_calls_limit: x"))
    done = manage("replay", "last")
    assert (done.exit_code, "tool_calls_limit" in done.stderr) == (2, True)
    path.unlink()
    done = manage("replay", "last")
    assert (done.exit_code, "no specialist named finder" in done.stderr) == (2, True)


def test_c4_a_run_is_saved_and_replayed_without_its_store(recorded, notes, store):
    """The same bytes each time; a file is overwritten only on request, and not by a run that differs; bad places."""
    for words, reason in (
        (["none.json"], "none.json: No such file or directory"),
        (["last", "--save", "none/one.json"], "--save: none/one.json cannot be written: No such file or directory"),
        (["last", "--save", "notes", "--force"], "--save: notes cannot be written: Is a directory"),
    ):
        done = manage("replay", *words)
        assert (done.exit_code, done.stderr.count("\n"), reason in done.stderr) == (2, 1, True)
    for name in ("one.json", "two.json"):
        assert manage("replay", "last", "--save", name).stdout.endswith(f"; saved to {name}\n")
    text = (notes / "one.json").read_text()
    assert text == (notes / "two.json").read_text()
    refused = manage("replay", "last", "--save", "one.json")
    assert (refused.exit_code, "use --force to overwrite it" in refused.stderr) == (2, True)
    store.unlink()
    assert manage("replay", "one.json").stdout.startswith("one.json replays the same: 3 requests")
    recorded("finder", "tool_calls_limit: 4", "paths: notes")
    done = manage("replay", "one.json", "--save", "two.json", "--force")
    assert done.exit_code == 1
    assert "nothing was saved to two.json" in done.stderr
    assert (notes / "two.json").read_text() == text
    assert manage("replay", "one.json", "--save", "three.json").exit_code == 1
    assert not (notes / "three.json").exists()


async def test_c3_a_run_whose_process_was_killed_is_refused(write, store):
    """Its reason and what to do, in one line."""
    write("finder", "tool_calls_limit: 3")
    notebook = Notebook()
    async with Runner(model="offline", store="none") as runner:
        job = (await runner.prepare("finder", "What do owls eat?")).job
    await Run(job, journal=notebook).outcome()
    await keep(f"sqlite:///{store}", notebook.until(Received, 1))
    done = manage("replay", "last", "--all-projects")
    assert done.exit_code == 2
    assert "cannot be replayed: it has not ended (interrupted); resume it with `specialists resume" in done.stderr
