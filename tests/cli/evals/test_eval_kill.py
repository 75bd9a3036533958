"""`specialists eval` is killed: the same command continues, and pays again only for requests in progress."""

import re
from collections import Counter

import pytest

from tests.cli.evals.eval_model import quoting
from tests.cli.specialists_command import MAIN
from tests.unit.store.records import ask
from tests.wire.simulator import Gate
from tests.wire.simulator.replies import calls

CASES, AT_ONCE, KILLED_AT = 6, 2, 12
QUESTION = re.compile(r"Case ([0-9]+): What about owls\?")
FLAGS = ("--at-once", str(AT_ONCE), "--vary", "tool_calls_limit=5,6", "--quiet")


def turn_of(request):
    """Return what tells a paid reply from all others: the case, the turn, and the limit, which the prompt names."""
    system = str(request.body["system"])
    return QUESTION.search(request.raw.decode())[1], request.calls_so_far, "6 tool calls" in system


def paid(served):
    """Return how often each reply was paid."""
    return Counter(turn_of(request) for request in served.requests if request.status == 200)


@pytest.mark.exhaustive
def test_e4_after_a_kill_no_stored_reply_is_paid_twice(api, program, eval_, cases, store):
    """Killed with SIGKILL while it asks all again: the same command makes the rest, and uses each stored reply."""
    lines = [
        f"- inputs: 'Case {number}: What about owls?'\n  evaluators: [Contains: mice]\n" for number in range(CASES)
    ]
    cases(f"cases:\n{''.join(lines)}")
    gate, asked, once = Gate(), [], 2 * 2 * CASES

    def policy(request):
        asked.append(request)
        reply = calls("search", {"query": "owls"}) if request.calls_so_far < 1 else quoting("owls")
        return type(reply)(reply.content, gate=gate) if len(asked) >= once + KILLED_AT else reply

    served = api(policy)
    assert eval_(*FLAGS).exit_code == 0
    first = program("eval", "finder", *FLAGS, "--fresh", code=MAIN)
    gate.wait_for_request(timeout=60)
    first.kill()
    first.communicate()
    url = f"sqlite:///{store}"
    before, stored = len(served.requests), ask(url, "select count(*) from turns")[0][0]
    assert stored > once
    assert before - stored <= AT_ONCE
    gate.open()
    second = eval_(*FLAGS, "--fresh")
    assert second.exit_code == 0
    assert second.stdout.count(" pass ") == 2 * CASES
    assert len(served.requests) == 2 * once + before - stored
    assert max(paid(served).values()) <= 3
    assert ask(url, "select status, count(*) from runs group by status") == [("answered", 4 * CASES)]
