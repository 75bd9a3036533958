"""The command against a server that sends invalid responses: exit code, one-line error and resumption."""

import asyncio
import json
import shlex
import threading
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from run_specialist.cli.manage import app as manage
from run_specialist.providers.admission import GATES
from tests.wire.liar.kinds import KINDS
from tests.wire.liar.lying_proxy import Liar
from tests.wire.liar.moments import MOMENTS
from tests.wire.simulator import policies

PATIENCE = 90
KIND = {kind.name: kind for kind in KINDS}
MIDDLE = MOMENTS[1]
SAID = {
    "HTML with 200": "failed: the server answered with text/html, not JSON; does ANTHROPIC_BASE_URL point to",
    "429, in a year": "failed: the API answered 429: Not today.; try again in 31536000 seconds, as the API requests",
    "blocks of nothing": "failed: the server's answer has no content blocks",
    "refused": "failed: cannot reach http://127.0.0.1:",
}


@contextmanager
def lying(url, kind):
    """Run a fault-injecting proxy in a thread; yield it and a function that runs coroutines in its event loop."""
    loop, liar = asyncio.new_event_loop(), Liar(url, kind.play, MIDDLE.aim)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def do(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE)

    try:
        do(liar.__aenter__())
        yield liar, do
    finally:
        do(liar.__aexit__())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


@pytest.fixture
def ask(api, write, call, notes, monkeypatch):
    """Return a function that runs a question against a server that fails in the middle, then resumes the run."""
    monkeypatch.setenv("SPECIALIST_STORE", f"sqlite:///{notes}/runs.db")
    write("finder", "tool_calls_limit: 2", "tools: [search]")
    simulator = api(policies.always_tool("search", lambda number: {"query": f"owls {number}"}), all_used=False)

    def run(name, *flags):
        with lying(simulator.base_url, KIND[name]) as (liar, do):
            monkeypatch.setenv("ANTHROPIC_BASE_URL", liar.url)
            result = call("finder", "What do owls eat?", "--model", "haiku", *flags)
            do(liar.heal())
            # The command is a process of its own, whose gates are open.
            GATES.clear()
            (line,) = (line for line in result.stderr.splitlines() if "to resume: " in line)
            _, *command = shlex.split(line.partition("to resume: ")[2])
            return result, line, CliRunner().invoke(manage, [*command, "--json"], catch_exceptions=False)

    return run


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", SAID)
def test_x_12_an_invalid_response_is_one_line_and_exit_code_3(ask, name):
    """The gathered evidence is on stdout and the reason on stderr; the printed command resumes the run to an answer."""
    result, line, resumed = ask(name)
    assert (result.exit_code, result.stderr.splitlines()) == (3, [line])
    assert line.partition(": ")[2].startswith(SAID[name])
    assert "Owls eat mice at night." in result.stdout
    assert (resumed.exit_code, json.loads(resumed.stdout)["status"]) == (0, "landed")


@pytest.mark.exhaustive
def test_x_14_a_time_limit_ends_a_run_on_a_silent_server(ask):
    """With `--time-limit` the run ends by itself, with the gathered evidence and exit code 0."""
    result, line, resumed = ask("stall before the head", "--time-limit", "2")
    assert result.exit_code == 0
    assert "partial: no answer at the limit of 2 seconds" in line
    assert " --time-limit " in line
    assert "Owls eat mice at night." in result.stdout
    assert json.loads(resumed.stdout)["status"] == "landed"
