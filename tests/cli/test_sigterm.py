"""SIGTERM: both commands end the turn under way, store it, and exit; a resumed run pays for no reply again."""

import json
import re
import shlex
import signal

import pytest

from tests.cli.resumed_commands import MODEL, rows
from tests.cli.specialists_command import call as manage
from tests.cli.stderr_terminal import PATIENCE, Screen
from tests.wire.simulator import Gate, faults
from tests.wire.simulator.replies import answers, calls, says, tool_use

LOOK = calls("grep", {"pattern": "mice"})
TERMINATED = """
import asyncio, os, signal, sys
from run_specialist.api.runner import Runner
sys.argv[0] = "run-specialist"

async def prepare(self, *_, **__):
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()

Runner.prepare = prepare
from run_specialist.cli.ask import main
main()
"""
"""The program that gets SIGTERM while it prepares its run."""
STOPPING = "stopping after this turn; a second signal stops immediately"


def held(gate, *queries):
    """Return a reply with calls that a gate holds back."""
    return says(*(tool_use("grep", {"pattern": query}) for query in queries), gate=gate)


def terminated(process, gate):
    """Send SIGTERM while a request waits at a gate, then let it pass; return output and standard error."""
    gate.wait_for_request(PATIENCE)
    process.send_signal(signal.SIGTERM)
    gate.open()
    return process.communicate(timeout=PATIENCE)


def test_sigterm_ends_after_the_turn_and_no_reply_is_paid_for_twice(store, api, write, program):
    """Exit code 130 and one line; the reply under way and its results are stored, and the bill is exact."""
    gate = Gate()
    write("finder", "tools: grep")
    simulator = api([LOOK, held(gate, "winter", "owls"), answers("some")])
    process = program("finder", "What?", *MODEL)
    out, err = terminated(process, gate)
    assert process.returncode == 130
    assert "Toads sleep in winter." in out
    (line,) = err.splitlines()
    assert re.search(r"aborted: interrupted; to resume: specialists resume \S+$", line)
    assert [row["kind"] for row in rows()] == [
        "user",
        *["tool_call"] * 1,
        "tool_result",
        *["tool_call"] * 2,
        *["tool_result"] * 2,
    ]
    again = manage(*shlex.split(line.split("; to resume: ")[1])[1:], "--json")
    outcome = json.loads(again.stdout)
    assert (again.exit_code, outcome["answer"], outcome["tool_calls"]["used"]) == (0, "some", 3)
    assert len(simulator.requests) == 3
    assert outcome["usage"]["output_tokens"] == sum(sent.usage["output_tokens"] for sent in simulator.requests)


def test_s3_6_sigterm_prints_the_answer_that_was_under_way(api, write, program):
    """An answer that arrives after the signal is printed as ever, with exit code 0."""
    gate = Gate()
    write("finder", "tools: grep")
    api([LOOK, says(tool_use("respond", {"answer": "Mice."}), gate=gate)])
    process = program("finder", "What?", *MODEL)
    assert terminated(process, gate)[0] == "Mice.\n"
    assert process.returncode == 0


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_cuts_the_turn(store, api, write, program, second):
    """After the first signal the terminal says what happens; the second one does not wait for the reply."""
    gate = Gate()
    write("finder", "tools: grep")
    api([LOOK, held(gate, "winter")])
    with Screen() as screen:
        process = program("finder", "What?", *MODEL, stderr=screen.theirs)
        screen.hang_up()
        gate.wait_for_request(PATIENCE)
        process.send_signal(signal.SIGTERM)
        screen.read(until=STOPPING)
        process.send_signal(second)
        screen.read()
        out, _ = process.communicate(timeout=PATIENCE)
        gate.open()
    assert process.returncode == 130
    assert "Owls eat mice at night." in out
    assert [row["kind"] for row in rows()] == ["user", "tool_call", "tool_result"]


def test_w_5_sigterm_ends_the_wait_for_a_retry(store, api, write, program):
    """A request that waits for a busy API is abandoned immediately, although the API asked for a minute of patience."""
    write("finder", "tools: grep")
    simulator = api([LOOK, faults.rate_limited(100)])
    with Screen() as screen:
        process = program("finder", "What?", *MODEL, stderr=screen.theirs)
        screen.hang_up()
        screen.read(until="retry 1 in")
        process.send_signal(signal.SIGTERM)
        screen.read()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, len(simulator.requests)) == (130, 2)
    assert "Owls eat mice at night." in out


def test_sigterm_while_the_run_is_prepared_ends_the_program(write, program):
    """Before there is a run, there is no turn: the program ends as it does on Ctrl-C."""
    write("finder")
    process = program("finder", "What?", "--model", "offline", code=TERMINATED)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "run-specialist: interrupted\n")
