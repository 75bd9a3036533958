"""Runs with the tool `bash`: results, files that are not trusted, and runs that are killed and resumed."""

import json
import select
import signal

import pytest

from tests.cli.specialists_command import call as manage
from tests.unit.tools.sandboxed_commands import needs_bubblewrap, processes_with, unique_mark
from tests.wire.simulator.replies import answers, calls

pytestmark = needs_bubblewrap
MODEL = ("--model", "haiku")


def offered(simulator):
    """Return the names of the tools in the first request."""
    return [tool["name"] for tool in simulator.requests[0].body["tools"]]


def bash(command):
    """Return a reply that calls the tool."""
    return calls("bash", {"command": command})


def test_a_command_is_run_and_its_output_is_quoted(api, write, call):
    """Its result counts like any other, has the exit code, and a quote from it is found; refusals are results too."""
    write("finder", "tools: ['Bash(cat:*, wc:*)']", "tool_calls_limit: 3", "evidence: require")
    quote = {"source": "notes/owls.md", "quote": "Owls eat mice at night."}
    simulator = api([bash("cat notes/owls.md missing"), bash("rm -r notes"), answers("mice", evidence=[quote])])
    result = call("finder", "What do owls eat?", *MODEL, "--trust", "--json")
    outcome = json.loads(result.stdout)
    assert (outcome["status"], outcome["evidence"][0]["verified"]) == ("answered", True)
    assert outcome["tool_calls"] | {"used": 2, "failed": 1} == outcome["tool_calls"]
    first, second = (next(iter(request.results.values())) for request in simulator.requests[1:])
    assert first.startswith("# Owls\n\nOwls eat mice at night.\ncat: missing: No such file or directory\n")
    assert "[exit code 1]" in first
    assert "`rm -r notes` is not allowed. Only these commands may be run: `cat:*`, `wc:*`." in second
    (tool,) = (one for one in simulator.requests[0].body["tools"] if one["name"] == "bash")
    assert "Only these commands may be run" in tool["description"]


def test_a_file_that_is_not_trusted_runs_without_it(api, write, call):
    """The run lacks the tool, and one line says what the file would do and how to allow it."""
    write("finder", "tools: [read, bash]")
    simulator = api([answers("nothing")])
    result = call("finder", "What?", *MODEL)
    assert offered(simulator) == ["read", "respond"]
    assert "`bash` is not offered: it would run commands in a sandbox, which changes nothing" in " ".join(
        result.stderr.split()
    )


def test_a_dry_run_changes_nothing(api, notes, write, call):
    """Writable folders are read-only, and the tool says so."""
    (notes / "out").mkdir()
    write("finder", "tools: bash", "writable: out")
    simulator = api([bash("echo x > out/x"), answers("done")])
    call("finder", "What?", *MODEL, "--trust", "--dry-run")
    assert "Read-only file system" in str(simulator.requests[1].results)
    assert list((notes / "out").iterdir()) == []


def test_a_killed_run_is_resumed_without_repeating_its_command(store, api, notes, write, program):
    """The command ends with the killed program; the resumed run says that it did not finish, and runs only new ones."""
    (notes / "out").mkdir()
    write("finder", "model: haiku", "tools: bash", "writable: out")
    mark = unique_mark()
    simulator = api(
        [bash(f"echo begun >> out/log; sleep 300; : {mark}"), bash("echo again >> out/log"), answers("done")]
    )
    process = program("finder", "What?", "--trust")
    while not (notes / "out" / "log").exists() and process.poll() is None:
        select.select([], [], [], 0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert simulator.requests
    (run,) = json.loads(manage("runs", "--json").stdout)["runs"]
    resumed = manage("resume", run["run_id"])
    assert (resumed.exit_code, resumed.stdout) == (0, "done\n")
    assert "Not finished: the process ended before bash returned." in str(simulator.requests[1].results)
    assert (notes / "out" / "log").read_text() == "begun\nagain\n"
    assert processes_with(mark) == []


@pytest.mark.exhaustive
def test_ctrl_c_ends_the_command(store, api, notes, write, program):
    """The command ends, and the run says how to resume it."""
    write("finder", "model: haiku", "tools: bash", "writable: out")
    (notes / "out").mkdir()
    mark = unique_mark()
    api([bash(f"trap '' INT TERM; echo begun >> out/log; setsid sleep 300 & sleep 300; : {mark}")])
    process = program("finder", "What?", "--trust")
    while not (notes / "out" / "log").exists() and process.poll() is None:
        select.select([], [], [], 0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "specialists resume" in err
    assert processes_with(mark) == []
