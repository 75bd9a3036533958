"""`specialists map` as a separate process: signals, kills, and the same command again."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.map.map_model import about, answer, item_of, items_of
from tests.cli.specialists_command import MAIN
from tests.screen import run_on_terminal, screen
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import calls, respond, says

PATIENCE = 60
"""Timeout, after which a hanging program fails the test [s]."""
QUESTION = ("--question", "What about {item}?")


@pytest.fixture
def command(program, finder):
    """Return a function that starts the command."""

    def start(*arguments, **options):
        return program("map", "finder", *arguments, *QUESTION, code=MAIN, **options)

    return start


def wait_for(text, process):
    """Read the lines of standard error until one contains a text."""
    said = process.stderr.readline()
    while text not in said:
        assert said, f"{text!r} was never said"
        said = process.stderr.readline()


class Held:
    """A model that looks once and holds back the second reply of some items until a gate opens."""

    def __init__(self, *held):
        self.gate = Gate()
        self._held = held

    def __call__(self, request):
        """Return the next reply."""
        item = item_of(request)
        if not request.calls_so_far:
            return calls("search", {"query": item})
        if item in self._held and not self.gate.opened.is_set():
            return says(respond(f"all about {item}"), gate=self.gate)
        return answer(f"all about {item}")


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=str)
def test_a_signal_finishes_the_turns_under_way(api, items, command, number):
    """The reply that is under way is waited for, stored and counted; nothing new begins; the same call continues."""
    model = Held("owls")
    simulator = api(model)
    path = str(items(["owls", "toads"]))
    process = command(path, "--at-once", "1", "--json")
    model.gate.wait_for_request(PATIENCE)
    process.send_signal(number)
    wait_for("finishing 1 turn; Ctrl-C again to stop immediately", process)
    model.gate.open()
    out, err = process.communicate(timeout=PATIENCE)
    counts = json.loads(out)["counts"]
    assert process.returncode == 130
    assert (counts["answered"], counts["not_run"]) == (1, 1)
    assert "to continue: specialists map finder" in err
    before = len(simulator.requests)
    process = command(path, "--json")
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, json.loads(out)["counts"]["answered"]) == (0, 2)
    assert set(items_of(simulator.requests[before:])) == {"toads"}


def test_a_second_ctrl_c_stops_at_once(api, items, command):
    """The reply that is under way is not waited for; what was gathered is stored; the same call resumes the run."""
    model = Held("owls")
    simulator = api(model)
    path = str(items(["owls", "toads"]))
    process = command(path, "--at-once", "1", "--json")
    model.gate.wait_for_request(PATIENCE)
    process.send_signal(signal.SIGINT)
    wait_for("Ctrl-C again", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    counts = json.loads(out)["counts"]
    assert (process.returncode, counts["aborted"], counts["not_run"]) == (130, 1, 1)
    assert "Traceback" not in err
    model.gate.open()
    before = len(simulator.requests)
    process = command(path, "--json")
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, json.loads(out)["counts"]["answered"]) == (0, 2)
    assert items_of(simulator.requests[before:]) == ["owls", "toads", "toads"], "the search about owls is not repeated"


def test_after_a_kill_the_same_call_pays_only_for_what_is_missing(api, items, command, notes):
    """The rows that were written are kept; only the request that was under way is sent again."""
    model = Held("newts")
    simulator = api(model)
    path = str(items(["owls", "toads", "newts", "mice"]))
    process = command(path, "--at-once", "1", "--out", "answers.jsonl")
    model.gate.wait_for_request(PATIENCE)
    process.kill()
    process.communicate(timeout=PATIENCE)
    part = (notes / "answers.jsonl.part").read_text()
    assert [json.loads(line)["input"] for line in part.splitlines()] == ["owls", "toads"]
    model.gate.open()
    before = len(simulator.requests)
    process = command(path, "--at-once", "1", "--out", "answers.jsonl")
    process.communicate(timeout=PATIENCE)
    rows = [json.loads(line) for line in (notes / "answers.jsonl").read_text().splitlines()]
    assert (process.returncode, sorted(row["input"] for row in rows)) == (0, ["mice", "newts", "owls", "toads"])
    assert items_of(simulator.requests[before:]) == ["mice", "mice", "newts"]


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("width", [40, 80, 200])
def test_on_a_terminal_the_progress_disappears_and_the_summary_stays(api, items, finder, width):
    """The live view is erased; without a file the beginning of each answer is shown; each line fits."""
    api(about())
    words = ["specialists", "map", "finder", str(Path(items(["owls", "toads"])).name), *QUESTION]
    written, _, code = run_on_terminal(words, columns=width)
    lines = screen(written, width)
    shown = " ".join(" ".join(lines).split())
    assert code == 0
    assert "under way" in written
    assert "under way" not in shown
    assert "2 items for finder: 2 answered" in shown
    assert "all about owls" in shown
    assert "all about toads" in shown
    assert "the answers are stored; the same command with --out FILE writes them" in shown
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("typed", "code", "asked"), [("n", 0, 0), ("y", 0, 1)])
def test_on_a_terminal_a_dear_batch_is_asked_about(api, items, map_, typed, code, asked):
    """`n` sends nothing; `y` continues."""
    simulator = api(about())
    map_(str(items(["owls"])))
    items(["toads"], "more.txt")
    words = ["specialists", "map", "finder", "more.txt", *QUESTION, "--confirm-above", "0.000001"]
    written, _, exit_code = run_on_terminal(words, typed=f"{typed}\n")
    assert "This may cost $0.0000" in written
    assert (exit_code, len(simulator.requests)) == (code, 1 + asked)
    assert ("nothing was sent" in written) is not asked


HANGS = """
import asyncio, os, sys
from run_specialist.providers.offline import OfflineConversation, OfflineProvider
sys.argv[0] = "specialists"

async def wait_for_ever(*arguments):
    os.write(2, b"hanging\\n")
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

OfflineConversation.ask = OfflineProvider.aclose = wait_for_ever
from run_specialist.cli.manage import main
main()
"""
"""The program with a provider that never answers, and ignores that it is cancelled."""


def test_a_third_ctrl_c_ends_a_program_that_hangs(program, finder, items):
    """The first and the second one are waited for in vain; the third ends the program without a traceback."""
    process = program("map", "finder", str(items(["owls"])), "--model", "offline", code=HANGS)
    for line in ("hanging", "Ctrl-C again to stop immediately", "stopping immediately"):
        wait_for(line, process)
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
