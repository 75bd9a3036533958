"""A project, a model and counts of requests for batches on the wire."""

import re
from collections import Counter

from tests.wire.serving import owl_project
from tests.wire.simulator.replies import answers, says, tool_use

HEAD = "---\nname: looker\ndescription: Looks.\ntools: [search]\n---\n"
QUESTION = "What of {item}?"


def batch_project(tmp_path, monkeypatch):
    """Create a project with notes on owls and the specialist `looker`, and change into it."""
    root = owl_project(tmp_path, monkeypatch)
    (root / "specialists" / "looker.md").write_text(f"{HEAD}You look.\n")
    return root


def looks_then_answers(request, **options):
    """Play a model that searches twice and then answers."""
    turn = turn_of(request)
    if turn < 3:
        return says(tool_use("search", {"query": f"owls {turn}"}), **options)
    reply = answers(f"Owls eat mice, says {item_of(request)}.")
    return says(*reply.content, **options)


def item_of(request):
    """Return the item that a request is about."""
    return re.search(r"What of ([\w-]+)\?", request.raw.decode())[1]


def turn_of(request):
    """Return the number of a request in its run, from 1."""
    return 1 + sum(message["role"] == "assistant" for message in request.messages)


def paid(served):
    """Return how often each turn of each item was requested and answered."""
    return Counter((item_of(request), turn_of(request)) for request in served.requests if request.status == 200)


def names(count):
    """Return the items."""
    return [f"item-{number}" for number in range(1, count + 1)]


def at_time_of(batch, clock):
    """Let the pauses of a batch follow the clock of a test."""
    batch._clock, batch._sleep = clock, clock.sleep
    return batch
