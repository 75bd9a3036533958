"""The command `run-specialist` as a separate process: signals, closed pipes, and the live view on a terminal."""

import json
import os
import re
import signal
import subprocess
from contextlib import contextmanager

import pytest

from tests.cli.conftest import MAIN
from tests.cli.stderr_terminal import PATIENCE, Screen
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import answers, calls, says, tool_use

LOOK = calls("search", {"query": "owls"})

NEVER_LETS_GO = """
import asyncio, os, sys
from run_specialist.providers.offline import OfflineConversation, OfflineProvider
sys.argv[0] = "run-specialist"

async def wait_for_ever(*arguments):
    os.write(int(os.environ["READY"]), b".")
    await asyncio.Event().wait()

OfflineConversation.ask = OfflineProvider.aclose = wait_for_ever
from run_specialist.cli.ask import main
main()
"""
"""The program with a provider that never answers or closes; it writes a byte at each such call."""

HANGING_TOOL = """
import os, sys, threading
from run_specialist.tools import files
sys.argv[0] = "run-specialist"

def hang(self, query: str, limit: int = 10) -> str:
    os.write(int(os.environ["READY"]), b".")
    threading.Event().wait()

files._FileTools.search = hang
from run_specialist.cli.ask import main
main()
"""
"""The program with a search that never ends and blocks its thread; it writes a byte when it begins."""


@contextmanager
def telling(program, *arguments, code):
    """Start a program that writes to the descriptor READY, and yield it with a file that reads from there."""
    ours, theirs = os.pipe()
    process = program(*arguments, code=code, pass_fds=[theirs], env=os.environ | {"READY": str(theirs)})
    os.close(theirs)  # so that reading ends when the program dies
    with open(ours, "rb", buffering=0) as told:  # noqa: PTH123 - a descriptor
        yield process, told


def test_s3_6_ctrl_c_prints_the_gathered_evidence(api, write, program):
    """While the second reply is pending: exit code 130, the gathered evidence on stdout, one line on stderr."""
    write("finder")
    gate = Gate()
    api([LOOK, says("too late", gate=gate)])
    process = program("finder", "What do owls eat?")
    gate.wait_for_request(PATIENCE)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert out.startswith("[No finished answer: interrupted.")
    assert "Owls eat mice at night." in out
    assert err.splitlines() == ["run-specialist: aborted: interrupted"]


@pytest.mark.exhaustive
def test_under_nohup_a_run_outlives_its_terminal(api, write, program):
    """SIGHUP stays ignored if the program was started with it ignored, and the run finishes."""
    write("finder")
    gate = Gate()
    api([LOOK, says(tool_use("search", {"query": "mice"}), gate=gate), answers("Mice.")])
    deaf = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    process = program("finder", "What do owls eat?", code=deaf + MAIN)
    gate.wait_for_request(PATIENCE)
    process.send_signal(signal.SIGHUP)
    gate.open()
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "Mice.\n")


def test_a_second_ctrl_c_ends_at_once(write, program):
    """A second Ctrl-C ends the program even while it is waiting, with exit code 130 and no traceback."""
    write("finder")
    with telling(program, "finder", "What?", "--model", "offline", code=NEVER_LETS_GO) as (process, told):
        for _ in range(2):
            assert told.read(1) == b"."
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "run-specialist: interrupted\n")


def test_s3_6_ctrl_c_does_not_wait_for_a_hanging_tool(write, program):
    """A tool that hangs delays neither the outcome nor the exit of the program."""
    write("finder")
    with telling(program, "finder", "What?", "--model", "offline", "--json", code=HANGING_TOOL) as (process, told):
        assert told.read(1) == b"."
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)  # the program must exit at all
    assert (process.returncode, json.loads(out)["status"]) == (130, "aborted")


def test_a_reader_that_closes_midway_causes_no_error(api, write, program):
    """Stdout is closed after one event while a reply is pending, as by `head -1`: exit code 0 and no message."""
    write("finder")
    gate = Gate()
    api([LOOK, says(tool_use("respond", {"answer": "yes"}), gate=gate)])
    process = program("finder", "What do owls eat?", "--events")
    gate.wait_for_request(PATIENCE)
    assert json.loads(process.stdout.readline())["event"] == "started"
    process.stdout.close()
    gate.open()
    err = process.stderr.read()
    assert (process.wait(PATIENCE), err) == (0, "")


def test_the_live_view_shows_a_run_on_a_terminal(api, write, program):
    """Calls, remaining budget, landing and summary are on stderr; only the answer is on stdout."""
    write("finder", "model: haiku", "tool_calls_limit: 3")
    gate = Gate()
    wishes = [("search", {"query": "owls"}), ("read", {"path": "nowhere.md"}), ("ls", {}), ("glob", {"pattern": "*"})]
    turn = says(*(tool_use(*wish) for wish in wishes))
    answer = "Owls eat mice, and that at night; toads are asleep by then."
    simulator = api([turn, says(tool_use("respond", {"answer": answer}), midway=gate)])
    with Screen() as screen:
        terminal = {"TERM": "xterm-256color", "COLUMNS": "120"}
        process = program("finder", "What do owls eat?", stderr=screen.theirs, env=os.environ | terminal)
        screen.hang_up()
        gate.wait_for_request(PATIENCE)
        screen.read(until="Owls eat mice, and")
        assert answer not in screen.text
        gate.open()
        screen.read()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, f"{answer}\n")
    assert [request.stream for request in simulator.requests] == [True, True]
    lines = [line.strip() for line in re.split(r"[\r\n]+", screen.text)]
    shown = "\n".join(lines)
    assert "finder · claude-haiku-5-5" in lines
    assert re.search(r"^\d  search +owls", shown, re.MULTILINE)
    assert re.search(r"^\d  read +nowhere.md .*read failed", shown, re.MULTILINE)
    assert re.search(r"^-  glob .*not run", shown, re.MULTILINE)
    assert re.findall(r"(\d) remaining$", shown, re.MULTILINE) == ["1", "0"]
    assert "limit of tool calls reached: it must call respond now" in lines
    assert re.search(r"landed · 3 of 3 tool calls · 1 failed · 1 skipped · [\d,]+ tokens", shown, re.MULTILINE)
    assert "\x1b[" in screen.raw


def test_help_loads_nothing_heavy(program):
    """`--help` imports no API client, validation library, YAML parser or terminal library."""
    heavy = ("anthropic", "httpx2", "pydantic", "yaml", "rich.live")
    code = (
        "import sys; import run_specialist.cli.ask as command\n"
        "try: command.app(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    out, _ = program(code=code, kind=subprocess.Popen).communicate(timeout=PATIENCE)
    assert out.splitlines()[-1] == "[]"


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("is_stored", [True, False])
def test_t10_ctrl_c_prints_at_most_a_screen(api, write, program, notes, tmp_path, is_stored):
    """Of many long results, both streams together have at most 24 lines of 100 columns, and name the rest."""
    write("finder")
    (notes / "notes" / "owls.md").write_text("".join(f"{number} owls {'eat mice ' * 20}\n" for number in range(500)))
    gate = Gate()
    reads = [says(tool_use("read", {"path": "notes/owls.md", "offset": at})) for at in (1, 100, 200)]
    api([*reads, says("too late", gate=gate)])
    process = program("finder", "What?", "--store", str(tmp_path / "runs.db") if is_stored else "none")
    gate.wait_for_request(PATIENCE)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    lines = [*out.splitlines(), *err.splitlines()]
    assert process.returncode == 130
    assert 10 < len(lines) <= 24
    assert max(map(len, out.splitlines())) <= 100
    rest = f"to see everything: specialists transcript 2[0-9a-f-]+ --store .*{tmp_path}/runs.db"
    assert re.search(rest if is_stored else "--raw prints everything", err)
