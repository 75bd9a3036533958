"""A scripted model whose calls all differ, so that a repeated execution is detected."""

import itertools
import random
from collections.abc import Mapping
from typing import Any

from tests.crash.checks import BROKEN_OFF
from tests.wire.simulator import Recorded, Reply
from tests.wire.simulator.policies import ordered_to_respond
from tests.wire.simulator.prompt import as_blocks
from tests.wire.simulator.replies import respond, says, thinking, tool_use

Call = tuple[str, Mapping[str, Any]]


class Researcher:
    """Makes one to four calls per turn, and answers after some of them or when forced or ordered to."""

    def __init__(self, chance: random.Random, *, thinks: bool, slow: float) -> None:
        """Set the source of randomness and the options.

        thinks: Whether replies begin with a thinking block, after which the earlier messages must not change.
        slow: Maximum delay of a reply [ms].
        """
        self._chance = chance
        self._thinks = thinks
        self._slow = slow
        self._numbers = itertools.count(1)
        self.calls = 8
        """Number of calls after which it answers."""
        self.retried: list[str] = []
        """Ids of the interrupted calls that it made again."""

    def __call__(self, request: Recorded) -> Reply:
        """Return the reply to a request."""
        number = next(self._numbers)
        forced = (request.tool_choice or {"type": "auto"})["type"] != "auto"
        thoughts = [thinking(f"Thought {number}.")] if self._thinks and not forced else []
        if forced or request.calls_so_far >= self.calls or ordered_to_respond(request):
            content = [respond(f"Answer {number}: owls eat mice.")]
        else:
            content = [tool_use(*call) for call in self._wishes(request)]
        return says(*thoughts, *content, delay=self._chance.uniform(0, self._slow / 1_000))

    def _wishes(self, request: Recorded) -> list[Call]:
        wishes = [self._fresh() for _ in range(self._chance.randint(1, 4))]
        broken_off = [call_id for call_id, text in request.results.items() if text.startswith(BROKEN_OFF)]
        if broken_off and self._chance.random() < 0.5:
            self.retried.append(broken_off[0])
            wishes[0] = _made_by(request, broken_off[0])
        return wishes

    def _fresh(self) -> Call:
        number = next(self._numbers)
        return self._chance.choice(
            [
                ("search", {"query": f"owls {number}"}),
                ("grep", {"pattern": f"owl {number}|mice"}),
                ("read", {"path": "notes/owls.md", "offset": number}),
                ("glob", {"pattern": f"**/*{number}*"}),
                ("read", {"path": f"notes/nothing-{number}.md"}),
            ]
        )


def _made_by(request: Recorded, call_id: str) -> Call:
    blocks = [block for message in request.messages for block in as_blocks(message["content"])]
    return next((block["name"], block["input"]) for block in blocks if block.get("id") == call_id)
