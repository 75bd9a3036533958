"""A simulated model for the tests of `map`: it answers about each item, optionally after a call."""

import re
from collections.abc import Callable, Mapping

from tests.wire.simulator.replies import Reply, calls, respond, says
from tests.wire.simulator.script import Answer, Recorded

ITEM = re.compile(r"about ([a-z0-9]+)\?")


def item_of(request: Recorded) -> str:
    """Return the item that a request is about; its question ends with `about ITEM?`."""
    found = ITEM.search(str(request.messages[0]["content"]))
    return found[1] if found else ""


def items_of(requests: list[Recorded]) -> list[str]:
    """Return the items of requests, sorted."""
    return sorted(map(item_of, requests))


def about(special: Mapping[str, Answer] | None = None, *, looks: int = 0) -> Callable[[Recorded], Answer]:
    """Return a model that answers `all about ITEM`, with prices of Haiku.

    special: replies to requests about some items.
    looks: number of calls before the answer.
    """

    def policy(request: Recorded) -> Answer:
        item = item_of(request)
        if special and item in special:
            return special[item]
        if request.calls_so_far < looks:
            return calls("search", {"query": f"{item} {request.calls_so_far}"})
        return answer(f"all about {item}")

    return policy


def answer(text: str) -> Reply:
    """Return a reply with an answer."""
    return says(respond(text))
