"""Replies of a server that breaks the protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.wire.simulator.prompt import serialise
from tests.wire.simulator.replies import Reply, says
from tests.wire.simulator.sse import encode, events
from tests.wire.simulator.wire import Wire

GOOD = says("fine")
NO_ID = object()
"""Marks an id to omit."""


@dataclass(frozen=True)
class WithIds:
    """A reply whose calls have ids that the API would never return."""

    reply: Reply
    ids: Sequence[Any]
    status: int | None = 200

    def play(self, wire: Wire, message: dict[str, Any], *, stream: bool) -> None:
        """Send the reply whole or streamed."""
        ids = iter(self.ids)
        content = [
            {key: value for key, value in {**block, "id": next(ids)}.items() if value is not NO_ID}
            if block["type"] == "tool_use"
            else block
            for block in message["content"]
        ]
        changed = {**message, "content": content}
        if stream:
            wire.send_events([encode(event) for event in events(changed)])
        else:
            wire.send(200, serialise(changed))
