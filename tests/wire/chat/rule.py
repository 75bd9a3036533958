"""A rule of the API, and the request that it checks."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.wire.simulator.server import Incoming

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Call:
    """Hold one request in the form that the rules check."""

    incoming: Incoming
    body: Any
    """None when it is no JSON."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return the messages, whose shape the rules before have checked."""
        return list(self.body["messages"])


Check = Callable[[Call], Iterator[str]]


@dataclass(frozen=True)
class Rule:
    """Name one reason to refuse a request."""

    id: str
    check: Check
    """Yields a message for each place where the rule is broken."""
    status: int
