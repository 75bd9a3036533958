"""A process that works on a batch is killed: the same call continues, and pays again only for requests in progress."""

import json
import os
import subprocess
import sys

import pytest

from tests.forked_program import ForkedProgram
from tests.unit.store.records import ask
from tests.wire.batches_on_wire import batch_project, looks_then_answers, paid
from tests.wire.simulator import Gate

ITEMS, AT_ONCE = 10, 3
PROGRAM = """
import asyncio, json, sys
from run_specialist import Runner

async def main(store, count, at_once):
    async with Runner(model="haiku", store=store) as runner:
        items = [f"item-{number}" for number in range(1, int(count) + 1)]
        batch = runner.map("looker", items, "What of {item}?", at_once=int(at_once))
        async for done in batch:
            print(json.dumps({"number": done.number, "state": done.state, "is_earlier": done.is_earlier}), flush=True)
    print(json.dumps({"id": batch.id, "answered": batch.counts.answered, "exit_code": batch.exit_code}))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def run(tmp_path, monkeypatch, store_url):
    """Return a function that starts a process with the batch."""
    batch_project(tmp_path, monkeypatch)

    def start():
        command = [sys.executable, "-W", "error", "-c", PROGRAM, store_url, str(ITEMS), str(AT_ONCE)]
        return ForkedProgram(command, env=os.environ, stdout=subprocess.PIPE, text=True)

    return start


@pytest.mark.parametrize("killed_at", [13, pytest.param(24, marks=pytest.mark.exhaustive)])
def test_after_a_kill_the_same_call_pays_only_for_what_was_under_way(
    messages_api, monkeypatch, run, store_url, killed_at
):
    """Killed with SIGKILL in the middle: every item gets one outcome, and no stored reply is requested again."""
    gate, asked = Gate(), []

    def policy(request):
        asked.append(request)
        # From some request on, the replies are held back until the process is dead.
        return looks_then_answers(request, gate=gate if len(asked) >= killed_at else None)

    served = messages_api(policy)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", served.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    first = run()
    gate.wait_for_request(timeout=60)
    first.kill()
    first.communicate()
    before = len(served.requests)
    stored = ask(store_url, "select count(*) from turns")[0][0]
    assert before - stored <= AT_ONCE, "every reply that arrived before is stored"
    assert ask(store_url, "select count(*) from items") == [(ITEMS,)], "all items are stored before the first request"
    gate.open()
    second = run()
    lines = [json.loads(line) for line in second.communicate(timeout=100)[0].splitlines()]
    assert second.returncode == 0
    assert lines[-1]["answered"] == ITEMS
    assert sorted(line["number"] for line in lines[:-1]) == list(range(1, ITEMS + 1))
    assert len(served.requests) <= 3 * ITEMS + AT_ONCE
    assert len(served.requests) == 3 * ITEMS + before - stored
    assert all(times <= 2 for times in paid(served).values())
    assert ask(store_url, "select status, count(*) from runs group by status") == [("answered", ITEMS)]
    third = run()
    again = [json.loads(line) for line in third.communicate(timeout=100)[0].splitlines()]
    assert all(line["is_earlier"] for line in again[:-1])
    assert again[-1]["id"] == lines[-1]["id"]
    assert len(served.requests) == 3 * ITEMS + before - stored
