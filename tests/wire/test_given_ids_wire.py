"""Real processes that take up runs with the same ids: no request is sent twice, except the one under way at a kill."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import pytest

from tests.forked_program import ForkedProgram
from tests.unit.store.records import ask
from tests.wire.serving import owl_project
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import answers, calls, says, tool_use

PROGRAM = """
import asyncio, json, sys
from run_specialist import AtWork, EndedRun, Runner

async def main(store):
    async with Runner(model="haiku", store=store) as runner:
        print("ready", flush=True)
        while run_id := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                run = await runner.take_up(run_id, "looker", f"What of {run_id}?")
                outcome = await run.outcome()
                found = {"ended": isinstance(run, EndedRun), "outcome": outcome.as_json(), "error": outcome.error}
            except AtWork as error:
                found = {"at_work": str(error)}
            print(json.dumps(found), flush=True)

asyncio.run(main(sys.argv[1]))
"""


class Worker:
    """A process that takes up runs."""

    def __init__(self, store):
        command = [sys.executable, "-W", "error", "-c", PROGRAM, store]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = ForkedProgram(command, env=os.environ, **pipes)
        assert self.process.stdout.readline() == "ready\n"

    def take(self, run_id):
        """Let it take up a run, without waiting."""
        self.process.stdin.write(f"{run_id}\n")
        self.process.stdin.flush()

    def found(self):
        """Wait for what it found."""
        return json.loads(self.process.stdout.readline())

    def kill(self):
        """Kill it with SIGKILL, and close its pipes."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Create a project with notes on owls and a specialist, and change into it."""
    root = owl_project(tmp_path, monkeypatch)
    head = "---\nname: looker\ndescription: Looks.\ntools: [search]\n---\n"
    (root / "specialists" / "looker.md").write_text(f"{head}You look.\n")
    return root


@pytest.fixture
def start(project, store_url):
    """Return a function that starts a worker; all are killed at the end."""
    with ExitStack() as running:

        def start_worker():
            worker = Worker(store_url)
            running.callback(worker.kill)
            return worker

        yield start_worker


@pytest.fixture
def api(messages_api, monkeypatch):
    """Return a function that starts an API for the workers."""

    def start_api(*arguments, **options):
        served = messages_api(*arguments, **options)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", served.base_url)
        return served

    return start_api


def requests_of(served):
    """Return the number of requests of each run, by the question in their first message."""
    return Counter(re.search(r"What of ([\w-]+)\?", request.raw.decode())[1] for request in served.requests)


def test_of_two_processes_that_begin_an_id_at_once_one_sends_a_request(api, start):
    """Two processes that begin the same ids at the same moment send one request each id, and get one outcome."""
    served = api(lambda request: answers("Owls eat mice."))
    workers = [start(), start()]
    for number in range(20):
        for worker in workers:
            worker.take(f"id-{number}")
        found = [worker.found() for worker in workers]
        began = [one for one in found if one.get("ended") is False]
        assert len(began) == 1
        (other,) = [one for one in found if one is not began[0]]
        assert "at_work" in other or other["outcome"] == began[0]["outcome"]
    assert requests_of(served) == {f"id-{number}": 1 for number in range(20)}


def test_while_one_process_works_the_other_is_told_its_name(api, start):
    """While one process waits for its reply, the other gets an error that names it, and afterwards the outcome."""
    gate = Gate()
    served = api([says(*answers("Owls eat mice.").content, gate=gate)])
    one, other = start(), start()
    one.take("shared")
    gate.wait_for_request()
    other.take("shared")
    words = other.found()["at_work"]
    assert words.startswith(f"shared is being worked on: process {one.process.pid} on ")
    gate.open()
    first = one.found()
    other.take("shared")
    assert other.found() == {**first, "ended": True}
    assert len(served.requests) == 1


@pytest.mark.parametrize(
    "killed_at", [pytest.param(1, marks=pytest.mark.exhaustive), 2, pytest.param(3, marks=pytest.mark.exhaustive)]
)
def test_after_a_kill_only_the_request_under_way_is_sent_again(api, start, store_url, killed_at):
    """A process killed with SIGKILL while a request is under way: that one is sent again, and no stored reply."""
    gate = Gate()
    turns = [
        calls("search", {"query": "owls"}),
        says(tool_use("search", {"query": "mice"})),
        answers("Owls eat mice."),
    ]
    held = says(*turns[killed_at - 1].content, gate=gate)
    served = api([*turns[: killed_at - 1], held, *turns[killed_at - 1 :]])
    first = start()
    first.take("killed")
    gate.wait_for_request()
    first.kill()
    gate.open()
    second = start()
    second.take("killed")
    found = second.found()
    assert (found["ended"], found["outcome"]["status"]) == (False, "answered")
    assert len(served.requests) == len(turns) + 1
    bodies = [request.body for request in served.requests]
    assert bodies[killed_at] == bodies[killed_at - 1]
    assert len({json.dumps(body) for body in bodies}) == len(turns)
    assert ask(store_url, "select count(*) from turns") == [(3,)]
    third = start()
    third.take("killed")
    assert third.found() == {**found, "ended": True}
    assert len(served.requests) == len(turns) + 1
