"""The commands as processes: signals, closed pipes, the live view, and text that would control a terminal."""

import io
import json
import logging
import os
import pty
import re
import select
import shlex
import signal
import time
import warnings
from contextlib import suppress

import pytest

from run_specialist.cli.console import print_json, printable
from run_specialist.cli.mcp import BackgroundStderr
from tests.cli.conftest import MAIN
from tests.cli.specialists_command import call as manage
from tests.cli.specialists_command import rows
from tests.terminal import NAMEABLE, POISON, SENDABLE, harm, on_terminal
from tests.wire.simulator import Gate, faults
from tests.wire.simulator.replies import answers, calls, refuses, says, tool_use

MODEL = ("--model", "haiku")
LOOK = calls("search", {"query": "owls"})
PATIENCE = 60
"""Timeout, after which a hanging program fails the test [s]."""

NEVER_LETS_GO = """
import asyncio, os, sys
from run_specialist.providers.offline import OfflineConversation, OfflineProvider
sys.argv[0] = "run-specialist"

async def wait_for_ever(*arguments):
    os.write(2, b"waiting\\n")
    await asyncio.Event().wait()

OfflineConversation.ask = OfflineProvider.aclose = wait_for_ever
from run_specialist.cli.ask import main
main()
"""
"""The program with a provider that never answers or closes; it writes a line at each such call."""

HANGING_TOOL = """
import os, sys, threading
from run_specialist.tools import files
sys.argv[0] = "run-specialist"

def hang(self, query: str, limit: int = 10) -> str:
    os.write(2, b"hanging\\n")
    threading.Event().wait()

files._FileTools.search = hang
from run_specialist.cli.ask import main
main()
"""
"""The program with a search that never ends and blocks its thread; it writes a line when it begins."""


class Screen:
    """A pseudo-terminal for the standard error of a program, and the output that it received."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        self.raw = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.ours)
        self.hang_up()

    def hang_up(self):
        """Close the program's end in this process, so that reading ends when the program exits."""
        if self.theirs is not None:
            os.close(self.theirs)
            self.theirs = None

    @property
    def text(self):
        """The output without escape sequences for cursor and colours."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw)

    def read(self, until=None):
        """Read until the output contains a text, or to the end."""
        last = time.monotonic() + PATIENCE
        while until is None or until not in self.text:
            waiting = select.select([self.ours], [], [], max(0, last - time.monotonic()))[0]
            assert waiting, f"nothing more came: {self.text}"
            part = b""
            with suppress(OSError):  # the program has closed the terminal
                part = os.read(self.ours, 65536)
            if not part:
                assert until is None, f"{until!r} was never shown: {self.text}"
                return
            self.raw += part.decode("utf-8", "replace")


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


@pytest.mark.exhaustive
def test_s3_6_ctrl_c_does_not_wait_for_a_hanging_tool_nor_a_second_one_for_anything(write, program):
    """A tool that hangs delays neither outcome nor exit; a second Ctrl-C ends a waiting program without traceback."""
    write("finder")
    process = program("finder", "What?", "--model", "offline", code=NEVER_LETS_GO)
    for _ in range(2):
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (130, "run-specialist: interrupted\n")
    write("finder")
    process = program("finder", "What?", "--model", "offline", "--json", code=HANGING_TOOL)
    assert process.stderr.readline() == "hanging\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)  # the program must exit at all
    assert (process.returncode, json.loads(out)["status"]) == (130, "aborted")


@pytest.mark.exhaustive
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


SIGTERM_LOOK = calls("grep", {"pattern": "mice"})
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


@pytest.mark.exhaustive
def test_sigterm_ends_after_the_turn_and_no_reply_is_paid_for_twice(store, api, write, program):
    """Exit code 130 and one line; the reply under way and its results are stored, and the bill is exact."""
    gate = Gate()
    write("finder", "tools: grep")
    simulator = api([SIGTERM_LOOK, held(gate, "winter", "owls"), answers("some")])
    process = program("finder", "What?", *MODEL)
    out, err = terminated(process, gate)
    assert process.returncode == 130
    assert "Toads sleep in winter." in out
    (line,) = err.splitlines()
    assert re.search(r"aborted: interrupted; to resume: specialists resume \S+$", line)
    kinds = ["user", "tool_call", "tool_result", *["tool_call"] * 2, *["tool_result"] * 2]
    assert [row["kind"] for row in rows()] == kinds
    again = manage(*shlex.split(line.split("; to resume: ")[1])[1:], "--json")
    outcome = json.loads(again.stdout)
    assert (again.exit_code, outcome["answer"], outcome["tool_calls"]["used"]) == (0, "some", 3)
    assert len(simulator.requests) == 3
    assert outcome["usage"]["output_tokens"] == sum(sent.usage["output_tokens"] for sent in simulator.requests)


def test_s3_6_sigterm_prints_the_answer_that_was_under_way(api, write, program):
    """An answer that arrives after the signal is printed as ever, with exit code 0."""
    gate = Gate()
    write("finder", "tools: grep")
    api([SIGTERM_LOOK, says(tool_use("respond", {"answer": "Mice."}), gate=gate)])
    process = program("finder", "What?", *MODEL)
    assert terminated(process, gate)[0] == "Mice.\n"
    assert process.returncode == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_cuts_the_turn(store, api, write, program, second):
    """After the first signal the terminal says what happens; the second one does not wait for the reply."""
    gate = Gate()
    write("finder", "tools: grep")
    api([SIGTERM_LOOK, held(gate, "winter")])
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
    simulator = api([SIGTERM_LOOK, faults.rate_limited(100)])
    with Screen() as screen:
        process = program("finder", "What?", *MODEL, stderr=screen.theirs)
        screen.hang_up()
        screen.read(until="retry 1 in")
        process.send_signal(signal.SIGTERM)
        screen.read()
        out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, len(simulator.requests)) == (130, 2)
    assert "Owls eat mice at night." in out


@pytest.mark.exhaustive
def test_sigterm_while_the_run_is_prepared_ends_the_program(write, program):
    """Before there is a run, there is no turn: the program ends as it does on Ctrl-C."""
    write("finder")
    process = program("finder", "What?", "--model", "offline", code=TERMINATED)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "run-specialist: interrupted\n")


def test_logs_and_warnings_go_to_the_standard_error_of_a_server():
    """Log records and warnings go to the writer; afterwards the handlers are as before."""
    before = [*logging.getLogger().handlers]
    log = logging.getLogger("of-a-test")
    reading, writing = os.pipe()
    with BackgroundStderr(writing, patience=PATIENCE), warnings.catch_warnings():
        warnings.simplefilter("always")
        log.warning("a %s", "record")
        log.info("too small")
        warnings.showwarning("be warned", UserWarning, "file.py", 7)
    assert logging.getLogger().handlers == before
    os.close(writing)
    with os.fdopen(reading) as read:
        lines = read.read().splitlines()
    assert lines[0] == "a record"
    assert "file.py:7: UserWarning: be warned" in lines[1]


RUN, LOOK_AFTER = "run-specialist", "specialists"
QUOTED = json.dumps(SENDABLE)
"""SENDABLE as a YAML value."""


@pytest.fixture
def poisoned(notes, write, monkeypatch):
    """A project with control characters in file names, notes, front matter and prompts."""
    (notes / "notes" / f"owls{NAMEABLE}.md").write_text(f"# Owls {SENDABLE}\n\nOwls eat mice {SENDABLE} at night.\n")
    write("finder")
    write(
        "soft",
        f"description: {QUOTED}",
        f"tools: [search, {QUOTED}]",
        f"landing_prompt: {QUOTED}",
        f"agents: [{QUOTED}]",
        f"{json.dumps('key ' + SENDABLE)}: {QUOTED}",
        body=f"You {SENDABLE} find.",
    )
    write("hard", f"countdown: {{from: {QUOTED}}}", f"tool_calls_limit: {QUOTED}")
    write("served", f"mcp_servers: {{{json.dumps('s' + SENDABLE)}: {{command: {QUOTED}, args: [{QUOTED}]}}}}")
    write("lacking", f"mcp_servers: {{s: {{command: {json.dumps('no' + NAMEABLE)}}}}}")
    write("importing", f"python_tools: [{json.dumps('module' + SENDABLE + ':f')}]")
    folder = notes / "specialists"
    (folder / "raw.md").write_bytes(
        b"---\nname: raw\x1b]0;owned\x07\x9b\ndescription: [ \x1b[2J\n bad: yaml: {\n---\nbody\n"
    )
    (folder / f"name{NAMEABLE}.md").write_text(f"---\ndescription: d\nname: {QUOTED}\n---\nbody")
    (folder / os.fsdecode(b"caf\xe9\x1b[2Jowned.md")).write_text("---\ndescription: d\n---\nbody")
    monkeypatch.setenv("SPECIALIST_STORE", f"sqlite:///{notes}/runs.db")
    return notes


def held_terminal(shown, *, harmless=()):
    """Check that every command but the harmless ones showed the text, without its control characters."""
    assert {command: harm(text) for command, text in shown.items() if harm(text)} == {}
    silent = [command for command, text in shown.items() if "owned" not in text]
    assert silent == list(harmless)


@pytest.mark.exhaustive
def test_texts_of_models_and_servers_are_sanitized(api, poisoned):
    """Texts of models and servers are made harmless in the live view, in JSON, in events and in stored runs.

    They are streamed text, names and arguments of tools, answers, evidence, gaps, refusals and errors.
    """
    fields = {"evidence": [{"source": SENDABLE, "quote": SENDABLE}], "gaps": [SENDABLE]}
    api(
        [
            says(SENDABLE, tool_use("search", {"query": f"owls {SENDABLE}"})),
            says(tool_use("read", {"path": f"notes/{SENDABLE}", SENDABLE: SENDABLE})),
            says(tool_use("ls", {"path": "notes"}), tool_use("search", {"query": "owls"})),
            answers(f"It is {SENDABLE}", **fields),
            answers(f"It is {SENDABLE}", **fields),
            says(f"plain text {SENDABLE}"),
            refuses(f"cyber {SENDABLE}"),
            faults.ApiError(400, "invalid_request_error", f"bad {SENDABLE}"),
        ],
        may_refuse=["model.known"],
    )
    shown = on_terminal(
        poisoned,
        [
            (RUN, "finder", f"What do owls eat? {NAMEABLE}"),
            (LOOK_AFTER, "runs"),
            (LOOK_AFTER, "runs", "--json"),
            (LOOK_AFTER, "transcript", "last"),
            (LOOK_AFTER, "transcript", "last", "--json"),
            (LOOK_AFTER, "report", "last", "--json"),
            (LOOK_AFTER, "report", "last", "--out", "-"),
            (RUN, "finder", "as JSON", "--json"),
            (RUN, "finder", "as events", "--events"),
            (RUN, "finder", "refused"),
            (RUN, "finder", "broken"),
            (RUN, "finder", "by a model that does not exist", "--model", f"x{NAMEABLE}"),
            (LOOK_AFTER, "tune", "finder"),
        ],
    )
    # The summary of many runs repeats none of their texts.
    held_terminal(shown, harmless=["specialists tune finder"])


@pytest.mark.exhaustive
def test_texts_of_files_and_arguments_are_sanitized(poisoned):
    """Front matter, file names and contents, invalid YAML and invalid arguments are made harmless."""
    given = [("--root", NAMEABLE), ("--store", f"x://{NAMEABLE}"), ("--tool-calls-limit", NAMEABLE)]
    held_terminal(
        on_terminal(
            poisoned,
            [
                (RUN, "soft", "What do owls eat?", "--model", "offline"),
                (RUN, "hard", "x"),
                (RUN, "served", "x"),
                (RUN, "lacking", "x", "--trust", "--model", "offline"),
                (RUN, "importing", "x", "--trust"),
                (LOOK_AFTER, "list"),
                (LOOK_AFTER, "list", "--json"),
                (LOOK_AFTER, "check"),
                (LOOK_AFTER, "check", "--json"),
                (LOOK_AFTER, "show", "soft"),
                (LOOK_AFTER, "show", "soft", "--json"),
                (LOOK_AFTER, "show", "raw"),
                (LOOK_AFTER, "show", "served"),
                (LOOK_AFTER, "show", "importing"),
                (RUN, f"no{NAMEABLE}", "x"),
                *((RUN, "finder", "x", flag, value) for flag, value in given),
                (LOOK_AFTER, NAMEABLE),
                (LOOK_AFTER, "check", NAMEABLE),
                (LOOK_AFTER, "runs", "--status", NAMEABLE),
                (LOOK_AFTER, "transcript", NAMEABLE),
                (LOOK_AFTER, "report", NAMEABLE, "--out", NAMEABLE),
                (LOOK_AFTER, "tune", NAMEABLE),
                (LOOK_AFTER, "new", NAMEABLE, "--description", "x"),
            ],
        )
    )


def test_an_answer_reaches_a_pipe_unchanged_and_json_escapes_control_characters(api, write, call):
    """Standard error has no control characters; JSON parses back; special spaces and joiners are kept."""
    write("finder")
    api([says(tool_use("search", {"query": "owls"})), answers(SENDABLE, evidence=[{"source": "x", "quote": SENDABLE}])])
    done = call("finder", "What do owls eat?")
    assert done.stdout == f"{SENDABLE}\n"
    assert "quote not found in the tool results" in done.stderr
    assert harm(done.stderr) == []
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    print_json({POISON: [POISON, "caf\u00e9 \u6f22\u5b57"]}, to=out)
    printed = out.buffer.getvalue().decode()
    assert json.loads(printed) == {POISON: [POISON, "caf\u00e9 \u6f22\u5b57"]}
    assert harm(printed) == []
    assert "caf\u00e9 \u6f22\u5b57" in printed
    meant = "12\u202f000\u00a0\u20ac \u3000\u6f22 \u0645\u06cc\u200c\u062e\u0648 \U0001f469\u200d\U0001f467"
    assert (printable(meant), harm(printable(POISON))) == (meant, [])
